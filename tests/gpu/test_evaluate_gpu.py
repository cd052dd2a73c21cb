"""Evaluation on CUDA: lent memory, outputs read through handles, precision, hangs. Skipped without a GPU."""
# ruff: noqa: E501  a candidate's body stands on one line

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autokernel import rules
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.records import Candidate, Evaluation

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b)

def get_inputs():
    return [torch.rand(2048, 2048), torch.rand(2048, 2048)]

def get_init_inputs():
    return []
"""
HEAD = "import torch, torch.nn as nn\nclass ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.kept = {}\n    def forward(self, a, b):\n"
SHORT = replace(rules.QUICK, deadlines=rules.Deadlines(import_s=30, first_call_s=10, later_call_floor_s=5))


@dataclass(frozen=True)
class Task:
    """What evaluate() needs of a problem."""

    uid: str
    hash: str
    source: str


TASK = Task("L1/1", "matmul-relu", PROBLEM)


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    with Executor("cuda:0", tmp_path_factory.mktemp("store"), seed=11) as made:
        yield made


def judge(executor: Executor, text: str, using: rules.Rules = SHORT) -> Evaluation:
    source = HEAD + "".join(f"        {line}\n" for line in text.splitlines())
    return evaluate(TASK, Candidate(source, "python"), rules=using, executor=executor)


def test_the_reference_is_accepted_at_one(executor: Executor) -> None:
    made = judge(executor, "return torch.relu(a @ b)", rules.STRICT)
    assert made.accepted, made.reason
    pair = made.against("eager")
    assert pair is not None and 0.95 < pair.speedup < 1.05
    assert made.precision_class == "ieee-grade"


@pytest.mark.parametrize(("text", "stage", "reason"), [
    ("torch.backends.cuda.matmul.allow_tf32 = True\nreturn torch.relu(a @ b)", "smoke", "rms error"),
    ("return torch.relu(a.bfloat16() @ b.bfloat16()).float()", "smoke", "bound"),
    ("key = a.data_ptr()\nif key not in self.kept: self.kept[key] = torch.relu(a @ b)\nreturn self.kept[key].clone()", "stability", "bound"),
    ("s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    torch.cuda._sleep(10**9)\n    y = torch.relu(a @ b)\nreturn y.cpu()", "smoke", "must be on cuda:0"),
    ("return torch.relu(a @ b).t().contiguous().t() * 0", "smoke", "bound"),
    ("return torch.empty(2048, 2048, device='cuda')", "smoke", "NaN"),
    ("torch.cuda._sleep(10**13)\nreturn torch.relu(a @ b)", "smoke", "too slow"),
    ("return torch.ones(200 * 2**30, device='cuda')", "smoke", "out of memory"),
])
def test_wrong_candidates_are_refused_and_the_next_evaluation_works(executor: Executor, text: str, stage: str, reason: str) -> None:
    made = judge(executor, text)
    assert not made.accepted and made.refused_by == stage, made.reason
    assert reason in made.reason
    assert judge(executor, "return torch.relu(a @ b)").accepted


def test_work_on_a_side_stream_that_is_joined_late_still_counts_in_the_window(executor: Executor) -> None:
    late = judge(executor, "s = torch.cuda.Stream()\ns.wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(s):\n    torch.cuda._sleep(20000000)\n    y = torch.relu(a @ b)\n    y.record_stream(s)\nreturn y")
    pair = late.against("eager")
    assert late.accepted and pair is not None and pair.high < 0.5  # the sleep of about 10 ms is in its time


def test_strided_outputs_are_read_where_they_lie(executor: Executor) -> None:
    made = judge(executor, "return torch.relu(a @ b).t().contiguous().t()")
    assert made.accepted, made.reason


def test_a_triton_candidate_is_built_and_judged(executor: Executor) -> None:
    source = (Path(__file__).parents[2] / "triton_kernels" / "softmax.py").read_text()
    task = Task("L1/2", "softmax", PROBLEM.replace("torch.relu(a @ b)", "torch.softmax(a, dim=-1)").replace("a, b):", "a):").replace(", torch.rand(2048, 2048)]", "]"))
    made = evaluate(task, Candidate(source, "triton"), rules=rules.STRICT, executor=executor)
    assert made.accepted, made.reason
