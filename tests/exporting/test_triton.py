"""A Triton winner as a noarch kernel: its layout, and what Triton's interpreter can run of it. Speed and CUDA are tests/gpu's."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest

from autokernel.exporting.reference import reference_text
from autokernel.records import Candidate
from exporters import OP, Argument, Facts, Kernel, Operation, TensorSpec, keeps_state
from exporters.repository import Sources, repository_files
from kernelbench_bridge import load_problem

RUN = """
import sys, torch
from pathlib import Path
from kernels import LocalLayerRepository, Mode, get_local_kernel, kernelize, use_kernel_forward_from_hub, use_kernel_mapping
folder = Path(sys.argv[1])
kernel = get_local_kernel(folder, backend="cpu")
x = torch.randn(16, 96)
out = kernel.rowsoftmax(x)
print((out - torch.softmax(x, 1)).abs().max().item() < 1e-7, kernel.ModelNew()(x).equal(out))

@use_kernel_forward_from_hub("RowSoftmax")
class Softmax(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1)

with use_kernel_mapping({"RowSoftmax": {"cpu": LocalLayerRepository(folder, layer_name="RowSoftmax")}}):
    model = kernelize(torch.nn.Sequential(Softmax()), mode=Mode.INFERENCE | Mode.TORCH_COMPILE, device="cpu")
    try:
        kernelize(torch.nn.Sequential(Softmax()), mode=Mode.TRAINING, device="cpu", use_fallback=False)
    except ValueError as error:
        print("no backward" if "does not support backward" in str(error) or "mode" in str(error) else error)
print(model(x).equal(out), torch.compile(model, fullgraph=True, backend="aot_eager")(x).equal(out))

falls = get_local_kernel(Path(sys.argv[2]), backend="cpu").rowsoftmax
other = torch.randn(3, 5).requires_grad_()
falls(other)[0, 0].backward()
print(torch.allclose(falls(other), torch.softmax(other, 1)), other.grad.shape == other.shape, torch.allclose(falls(x), out))
"""


SHAPE = TensorSpec((16, 96), "float32", (96, 1))  # small: the interpreter takes a millisecond a row
FACTS = Facts(arguments=(Argument("x", SHAPE),), outputs=(SHAPE,))


def files_for(texts, record, backend, **more):
    problem = load_problem("L1/2", "embedded")
    candidate = Candidate(texts.SOFTMAX_TRITON, "triton")
    assert not keeps_state(candidate.source)
    operation = Operation(name="rowsoftmax", title="RowSoftmax", uid="L1/2", problem_name=problem.name, builder="triton",
                          source=candidate.source, sha256=candidate.sha256, facts=FACTS, form=OP, **more)
    evaluation = record(problem, candidate, device="cuda:0").to_json()
    sources = Sources({"rowsoftmax": evaluation}, {"rowsoftmax": problem.source}, "strict/1")
    return repository_files(Kernel("soft", 1, "mit", backend, (operation,)), sources)


def test_the_layout_is_pure_python_for_one_backend(texts, record):
    files = files_for(texts, record, "cuda")
    built = sorted(name.removeprefix("build/torch-cuda/") for name in files if name.startswith("build/"))
    assert built == ["__init__.py", "_ops.py", "_rowsoftmax.py", "_runtime.py", "_winner_rowsoftmax.py", "layers.py", "metadata.json",
                     "models.py"]
    assert not [name for name in files if name.startswith("source/")]
    metadata = json.loads(files["build/torch-cuda/metadata.json"])
    assert metadata["python-depends"] == []
    assert metadata["backend"] == {"type": "cuda"}
    assert b"'CUDA')" in files["build/torch-cuda/_rowsoftmax.py"]
    winner = files["build/torch-cuda/_winner_rowsoftmax.py"].decode()
    assert 'PARAMS = {"num_warps": 4}' in winner
    for name, data in files.items():
        if name.startswith("build/") and name.endswith(".py"):
            for node in ast.walk(ast.parse(data)):
                if isinstance(node, ast.Import):
                    tops = {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    tops = {node.module.partition(".")[0]}
                else:
                    continue
                assert all(top in sys.stdlib_module_names or top in ("torch", "triton") for top in tops), (name, tops)


@pytest.mark.slow
def test_the_interpreter_runs_what_kernels_loads(texts, record, tmp_path):
    falls = {"fallback": True, "reference": reference_text(load_problem("L1/2", "embedded").source)}
    for folder, more in (("refuses", {}), ("falls", falls)):
        for name, data in files_for(texts, record, "cpu", **more).items():
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_bytes(data)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "DO_NOT_TRACK", "PYTHONPATH"))}
    command = [sys.executable, "-c", RUN, tmp_path / "refuses", tmp_path / "falls"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, cwd=tmp_path,
                          env={**environment, "TRITON_INTERPRET": "1"})
    assert done.stdout.splitlines() == ["True True", "no backward", "True True", "True True True"], done.stderr
