"""A C++ winner of an embedded problem, all the way: judged, exported, loaded back, judged again, published, used by people without us."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autokernel import rules
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.exporting.flow import Request, export
from autokernel.exporting.prepare import operation_of
from autokernel.exporting.winners import Winner
from autokernel.records import Candidate
from exporters import ExportError, Kernel, op_module, package
from exporters.repository import Sources, repository_files
from kernelbench_bridge import load_problem

SHORT = replace(rules.STRICT, own_sets=1, extended_kinds=("difference",), edge_kinds=("zeros",), repeats=1,
                looks=rules.Looks(pairs=(6,), alpha=(0.05,), budget_s=0.3, first_look_s=1.0))
REPO = "acme/rmsnorm"
VARIANT = "torch-stable-abi29-cpu-x86_64-linux"
TIMED = 120
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def executor(tmp_path_factory):
    with Executor("cpu", tmp_path_factory.mktemp("store"), seed=11) as made:
        yield made


@pytest.fixture(scope="module")
def winner(executor, texts):
    problem = load_problem("L1/3", "embedded")
    candidate = Candidate(source=texts.RMSNORM_CPP, builder="cpp")
    evaluation = evaluate(problem, candidate, rules=SHORT, executor=executor)
    assert evaluation.accepted, evaluation.reason
    return Winner(problem, candidate, evaluation)


@pytest.fixture(scope="module")
def exported(executor, winner, tmp_path_factory):
    return export([winner], Request(tmp_path_factory.mktemp("out") / "kernel", "rmsnorm", rules=SHORT), executor)


def run(python, text, environment, cwd):
    done = subprocess.run([python, "-c", text], capture_output=True, text=True, env=environment, cwd=cwd, timeout=TIMED)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def published(hub, exported):
    script = ("import sys; from pathlib import Path; from exporters.publish import publish; "
              "print(publish(Path(sys.argv[1]), sys.argv[2]).uploaded)")
    done = subprocess.run([sys.executable, "-c", script, exported.folder, REPO], capture_output=True, text=True, timeout=TIMED,
                          env={**hub.environment(), "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    return hub


def test_the_exported_kernel_was_judged_again_and_timed_against_its_winner(exported):
    (proof,) = exported.proofs
    assert proof.evaluation.accepted
    assert proof.evaluation.rules == "strict/1"
    assert proof.against_winner is not None
    assert exported.kernel.variant == VARIANT
    assert exported.kernel.operations[0].api == "rmsnorm(Tensor x, Tensor weight) -> Tensor"
    metadata = json.loads((exported.folder / "build" / VARIANT / "metadata.json").read_text())
    assert metadata["backend"] == {"type": "cpu"}
    assert metadata["autokernel"]["winners"]["rmsnorm"]["candidate"] == exported.kernel.operations[0].sha256


def test_the_same_winner_gives_the_same_bytes_and_another_text_another_id(exported, executor, winner):
    def files(candidate):
        operation = operation_of(replace(winner, candidate=candidate), [], fallback=False, store=executor.store, arch=None)
        kernel = Kernel("rmsnorm", 1, "mit", "cpu", (operation,))
        return repository_files(kernel, Sources({"rmsnorm": winner.evaluation.to_json()}, {"rmsnorm": winner.problem.source}))

    again = files(winner.candidate)
    written = {path.relative_to(exported.folder).as_posix(): path.read_bytes() for path in exported.folder.rglob("*") if path.is_file()}
    written.pop("proof.json")
    assert again == written
    other = files(replace(winner.candidate, source=winner.candidate.source.replace('"block": 256', '"block": 128')))
    idents = [json.loads(made[f"build/{VARIANT}/metadata.json"])["id"] for made in (again, other)]
    assert idents[0] != idents[1]
    assert all(re.fullmatch(r"_rmsnorm_cpu_[0-9a-f]{12}", ident) for ident in idents)


BITS = """
import ctypes, hashlib, sys, torch
def digest(y):
    assert y.is_contiguous()
    return hashlib.sha256(ctypes.string_at(y.data_ptr(), y.numel() * y.element_size())).hexdigest()
"""
WINNER_BITS = BITS + """
from pathlib import Path
from autokernel import builders
torch.manual_seed(3)
store, text = Path(sys.argv[1]), Path(sys.argv[2])
made = builders.get("cpp").build(text.read_text(), store / "builds", None, 100.0)
model = builders.get("cpp").load(text, made.artifact).ModelNew(1024, 1e-06)
x = torch.randn(1024, 1024)
with torch.no_grad():
    print(digest(model(x)))
"""
USERS_BITS = BITS + f"""
from kernels import get_kernel
kernel = get_kernel("{REPO}", version=1, trust_remote_code=["{REPO}"], backend="cpu")
torch.manual_seed(3)
model = kernel.ModelNew(1024, 1e-06)
x = torch.randn(1024, 1024)
with torch.inference_mode():
    outs = [model(x), kernel.rmsnorm(x, weight=model.weight), torch.compile(kernel.rmsnorm, fullgraph=True, backend="aot_eager")(
        x, weight=model.weight)]
print(*map(digest, outs))
op = getattr(torch.ops, kernel.__name__).rmsnorm.default
print(set(torch.library.opcheck(op, (x, model.weight.detach())).values()))
said = []
for bad, weight in ((x.double(), model.weight), (x[:5], model.weight), (x.t(), model.weight), (x, model.weight[:7]), (3, model.weight)):
    with torch.inference_mode():
        try:
            kernel.rmsnorm(bad, weight=weight)
        except (TypeError, ValueError) as error:
            said.append(str(error))
try:
    kernel.rmsnorm(x, weight=model.weight)
except RuntimeError as error:
    said.append(str(error))
try:
    kernel.ModelNew(1024, 0.5)
except ValueError as error:
    said.append(str(error))
layer = kernel.layers.RMSNorm
class Norm(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps, self.weight = eps, model.weight.detach()
with torch.inference_mode():
    print(digest(layer.forward(Norm(1e-06), x)))
    try:
        layer.forward(Norm(1e-05), x)
    except ValueError as error:
        said.append(str(error))
print("\\n".join(said))
"""


def test_users_with_torch_and_kernels_alone_get_the_winners_bits(published, bare_python, executor, winner, tmp_path):
    text = tmp_path / "winner.py"
    text.write_text(winner.candidate.source)
    done = subprocess.run([sys.executable, "-c", WINNER_BITS, executor.store, text], capture_output=True, text=True, timeout=TIMED,
                          env={**published.environment(), "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    bits = done.stdout.strip()
    lines = run(bare_python, USERS_BITS, published.environment(token=None), tmp_path).splitlines()
    assert lines[0].split() == [bits] * 3
    assert lines[1] == "{'SUCCESS'}"
    assert lines[2] == bits
    expected = ["is torch.float64", "has shape (5, 1024)", "has strides (1, 1024)", "argument 'weight' has shape (7,)", "is a int",
                "requires a gradient", "constructed with (1024, 0.5)", "has eps=1e-05"]
    assert len(lines[3:]) == len(expected)
    assert all(word in line for word, line in zip(expected, lines[3:], strict=True))


def test_the_cards_programs_run_as_they_stand(published, bare_python, exported, tmp_path):
    card = (exported.folder / "README.md").read_text().replace("YOUR-ORG/rmsnorm", REPO)
    assert card.startswith("---\nlibrary_name: kernels\nlicense: mit\n")
    programs = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert len(programs) == 3
    for program in programs:
        assert run(bare_python, program + "print(tuple(y.shape), y.dtype)", published.environment(token=None), tmp_path).splitlines() == [
            "(1024, 1024) torch.float32"]


BENCHMARK = """
import importlib.util, sys, torch
from pathlib import Path
from kernels import get_local_kernel
spec = importlib.util.spec_from_file_location("benchmark", Path(sys.argv[1]) / "benchmarks" / "benchmark.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
bench = module.RMSNormBenchmark()
bench.kernel, bench.device = get_local_kernel(Path(sys.argv[1]), backend="cpu"), "cpu"
bench.setup_rmsnorm()
bench.benchmark_rmsnorm()
print(torch.allclose(bench.out, bench.verify_rmsnorm(), atol=1e-2), bench.seed)
"""


def test_the_benchmark_follows_the_hubs_convention(exported, bare_python, hub, tmp_path):
    """Called as the runner of `kernels benchmark` calls it; the runner itself also wants a package that prints tables."""
    done = subprocess.run([bare_python, "-c", BENCHMARK, exported.folder], capture_output=True, text=True, timeout=TIMED, cwd=tmp_path,
                          env=hub.environment(token=None))
    assert done.stdout.strip() == "True 42", done.stderr


def test_a_kernel_that_is_wrong_when_loaded_back_is_not_written(executor, winner, tmp_path, monkeypatch):
    def spoiled(operation, backend):
        text = op_module.op_module(operation, backend)
        for said in ("return rmsnorm(", "return super().forward("):
            text = text.replace(said, said.replace("return ", "return 1.01 * "))
        return text

    monkeypatch.setattr(package, "op_module", spoiled)
    with pytest.raises(ExportError) as failure:
        export([winner], Request(tmp_path / "kernel", "rmsnorm", rules=SHORT), executor)
    assert failure.value.exit_code == 1
    assert "rule proven" in failure.value.message
    assert "refused by smoke" in failure.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_runs_winners_become_one_kernel_and_the_bad_ones_stay(executor, winner, texts, record, tmp_path, bare_python, hub):
    softmax = load_problem("L1/2", "embedded")
    good = Candidate(source=texts.SOFTMAX_PYTHON, builder="python")
    wrong = Candidate(source=texts.SOFTMAX_PYTHON.replace("softmax(x, dim=1)", "tanh(x)"), builder="python")
    norms = load_problem("L1/5", "embedded")
    winners = [Winner(softmax, good, record(softmax, good)), winner, Winner(norms, wrong, record(norms, wrong))]
    done = export(winners, Request(tmp_path / "kernel", "level-one", rules=SHORT, fallback=True), executor, strictly=False)
    assert [(o.name, o.form) for o in done.kernel.operations] == [("rowsoftmax", "op"), ("rmsnorm", "op")]
    assert [uid for uid, _ in done.left_out] == ["L1/5"]
    assert "refused by smoke" in done.left_out[0][1]
    assert all(proof.evaluation.accepted for proof in done.proofs)
    card = (tmp_path / "kernel" / "README.md").read_text()
    assert "## Operations" in card
    assert all(f"`{operation.schema}`" in card for operation in done.kernel.operations)
    assert "rowl2normalize" not in card
    text = ("import sys, torch; from pathlib import Path; from kernels import get_local_kernel; "
            "k = get_local_kernel(Path(sys.argv[1]), backend='cpu'); x, w = torch.randn(5, 7), torch.rand(7); "
            "print(sorted(k.__all__), k.rowsoftmax(x).equal(torch.exp(x - x.max(1, True).values) / "
            "torch.exp(x - x.max(1, True).values).sum(1, True))); "
            "print(torch.allclose(k.rmsnorm(x, weight=w), torch.nn.functional.rms_norm(x, (7,), w, 1e-6)), "
            "k.rmsnorm(x.requires_grad_(), weight=w).sum().backward(), x.grad.shape)")
    done = subprocess.run([bare_python, "-c", text, tmp_path / "kernel"], capture_output=True, text=True, timeout=TIMED, cwd=tmp_path,
                          env=hub.environment(token=None))
    assert done.stdout.splitlines() == ["['layers', 'models', 'rmsnorm', 'rowsoftmax'] True", "True None torch.Size([5, 7])"], done.stderr
