"""Half precision under our own rules: what KernelBench's casts break there is mended on both sides."""

from __future__ import annotations

import pytest

from autokernel.errors import UsageError
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.records import Candidate
from autokernel.rules import QUICK, in_precision
from kernelbench_bridge import Problem

PLAIN_STATE = """import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(16, 16)
        self.hidden = torch.randn(4, 16)
    def forward(self, x):
        self.hidden = torch.tanh(self.line(x) + self.hidden * 0)
        return self.hidden
def get_inputs(): return [torch.rand(4, 16)]
def get_init_inputs(): return []
"""
DRAWN_STATE = """import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(16, 16)
    def forward(self, x):
        return self.line(x + torch.randn(4, 16))
def get_inputs(): return [torch.rand(4, 16)]
def get_init_inputs(): return []
"""
TARGETS = """import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x, targets):
        return nn.functional.cross_entropy(x, targets)
def get_inputs(): return [torch.rand(8, 16), torch.randint(0, 16, (8,))]
def get_init_inputs(): return []
"""


@pytest.fixture(scope="module")
def executor(store):
    with Executor("cpu", store) as opened:
        yield opened


@pytest.mark.parametrize(("name", "source", "oracle"), [
    ("plain", PLAIN_STATE, ""), ("drawn", DRAWN_STATE, "draws random numbers"), ("targets", TARGETS, ""),
])
def test_a_reference_is_its_own_right_answer_in_bf16(executor, name, source, oracle):
    problem = Problem(1, 1, name, source, "file")
    rules = in_precision(QUICK, "bf16")
    found = evaluate(problem, Candidate(source.replace("Model(nn", "ModelNew(nn"), "python"), rules=rules, executor=executor, against=())
    assert found.accepted, found.reason
    assert found.rules == rules.label and found.rules.endswith("+bf16")
    assert oracle in found.oracle


def test_an_answer_in_another_precision_is_refused(executor):
    source = TARGETS.replace("Model(nn", "ModelNew(nn").replace("(x, targets)\n", "(x.float(), targets)\n")
    found = evaluate(Problem(1, 1, "targets", TARGETS, "file"), Candidate(source, "python"), rules=in_precision(QUICK, "bf16"),
                     executor=executor, against=())
    assert (found.accepted, found.refused_by) == (False, "smoke")
    assert "float32" in found.reason


def test_an_unknown_precision_is_wrong_usage():
    with pytest.raises(UsageError, match="fp8"):
        in_precision(QUICK, "fp8")
