"""What is compiled ahead is what the device's own first call looks for. Skipped without a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import triton.backends.nvidia.driver as nvidia

from autokernel import rules
from autokernel.evaluate import evaluate, session_for
from autokernel.executor.broker import Executor
from autokernel.records import Candidate

ROOT = Path(__file__).parents[2]
SOFTMAX = (ROOT / "benchmarks" / "candidates" / "softmax_triton.py").read_text(encoding="utf-8")
PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)

def get_inputs():
    return [torch.rand(512, 70000)]

def get_init_inputs():
    return []
"""


class Task:
    uid, hash, source = "L1/1", "softmax", PROBLEM


def test_the_first_call_finds_what_was_compiled_ahead(tmp_path: Path) -> None:
    quick = replace(rules.QUICK, deadlines=rules.Deadlines(import_s=60, first_call_s=60))
    candidate = Candidate(SOFTMAX, "triton")
    with Executor("cuda:0", tmp_path) as executor:
        session = session_for(Task(), quick, executor)
        kernels = session.kernels(candidate)
        assert executor.compile_ahead(SOFTMAX, kernels, session.facts["form"], executor.device_facts, 120)
        ahead = {path.parent.name for path in kernels.glob("*/*") if path.suffix in (".cubin", ".so")}
        assert len(list(kernels.glob("*/*.cubin"))) == 1
        assert len(list(kernels.glob("*/__triton_launcher*"))) == hasattr(nvidia, "make_launcher")
        made = evaluate(Task(), candidate, rules=quick, executor=executor)
        assert made.accepted, made.reason
        assert {path.parent.name for path in kernels.glob("*/*") if path.suffix in (".cubin", ".so")} == ahead
