"""Triton and CUDA winners on a GPU: exported, loaded back by `kernels`, judged again, used as function and layer, compiled."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from autokernel import rules
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.exporting.flow import Request, export
from autokernel.exporting.winners import Winner
from autokernel.records import Candidate
from kernelbench_bridge import load_problem

TEXTS = Path(__file__).parent.parent / "exporting" / "candidates.py"

USE = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
kernel = get_local_kernel(Path(sys.argv[1]))
function = getattr(kernel, sys.argv[2])
x = torch.randn(1024, int(sys.argv[3]), device="cuda")
torch.cuda.synchronize()
with torch.inference_mode():
    out = function(x)
    compiled = torch.compile(function, fullgraph=True)(x)
    with torch.cuda.stream(torch.cuda.Stream()):
        other = function(x)
        torch.cuda.current_stream().synchronize()
op = getattr(getattr(torch.ops, kernel.__name__), sys.argv[2]).default
print(out.equal(compiled), out.equal(other), set(torch.library.opcheck(op, (x,)).values()))
for bad in (x.cpu(), x.half(), x[:3]):
    try:
        function(bad)
    except (TypeError, ValueError) as error:
        print(type(error).__name__)
"""


def texts():
    spec = importlib.util.spec_from_file_location("exporting_candidates", TEXTS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def executor(tmp_path_factory):
    with Executor("cuda:0", tmp_path_factory.mktemp("store"), seed=5) as made:
        yield made


RELU = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n" \
       "def get_inputs():\n    return [torch.randn(1024, 4096)]\ndef get_init_inputs():\n    return []\n"


@pytest.mark.parametrize(("kind", "variant", "columns"), [("triton", "torch-cuda", 1536), ("cuda", "torch-stable-abi29-cu", 4096)])
def test_a_winner_leaves_and_comes_back(executor, tmp_path, kind, variant, columns):
    problem = load_problem("L1/2", "embedded")
    source = texts().SOFTMAX_TRITON
    if kind == "cuda":
        (tmp_path / "7_ReLU.py").write_text(RELU)
        problem, source = load_problem(str(tmp_path / "7_ReLU.py"), "embedded"), texts().RELU_CUDA
    candidate = Candidate(source=source, builder=kind)
    evaluation = evaluate(problem, candidate, rules=rules.STRICT, executor=executor)
    assert evaluation.accepted, evaluation.reason
    done = export([Winner(problem, candidate, evaluation)], Request(tmp_path / "out", "kernel"), executor)
    assert done.kernel.variant.startswith(variant)
    assert done.proofs[0].evaluation.accepted
    compared = done.proofs[0].against_winner
    assert compared is not None
    assert compared.high > 0.9  # a gross loss alone fails here; the figure itself is benchmarks/export_gpu.py's
    name = done.kernel.operations[0].name
    used = subprocess.run([sys.executable, "-c", USE, tmp_path / "out", name, str(columns)], capture_output=True, text=True, timeout=170,
                          cwd=tmp_path)
    assert used.stdout.splitlines() == ["True True {'SUCCESS'}", "ValueError", "TypeError", "ValueError"], used.stderr
