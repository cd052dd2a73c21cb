"""Does the gate work on this machine? Candidates whose verdicts are known, judged on a problem of the embedded set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autokernel import builders
from autokernel.evaluate import evaluate
from autokernel.records import Candidate, Evaluation
from autokernel.rules import Rules
from kernelbench_bridge import load_problem

if TYPE_CHECKING:
    from autokernel.executor.broker import Executor

PROBLEM = "L1/2"  # row softmax, (1024, 1536)

_HEAD = """\
import torch
import torch.nn as nn


class ModelNew(nn.Module):
"""

RIGHT = _HEAD + """\
    def forward(self, x):
        weights = torch.exp(x - torch.amax(x, dim=1, keepdim=True))
        return weights / torch.sum(weights, dim=1, keepdim=True)
"""

WRONG = _HEAD + """\
    def forward(self, x):
        weights = torch.exp(x - torch.amax(x, dim=1, keepdim=True))
        return weights / (torch.sum(weights, dim=1, keepdim=True) + 1e-2)
"""

REMEMBERS = _HEAD + """\
    def __init__(self):
        super().__init__()
        self.answer = None

    def forward(self, x):
        if self.answer is None:
            self.answer = torch.softmax(x, dim=1)
        return self.answer
"""

PATCHES = """\
import time

import torch
import torch.nn as nn

torch.allclose = lambda *arguments, **named: True
time.perf_counter = lambda: 0.0


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
"""

CASES = (
    ("right", RIGHT, True),
    ("wrong by a little", WRONG, False),
    ("returns its first answer again", REMEMBERS, False),
    ("patches the clock and the comparison", PATCHES, False),
)


@dataclass(frozen=True)
class Case:
    """One candidate's verdict beside the one it should have had."""

    name: str
    expected: bool  # accepted
    evaluation: Evaluation

    @property
    def passed(self) -> bool:
        """Whether the gate said what it should. A refusal must come from the gate: one by "build" or "problem" shows nothing."""
        evaluation = self.evaluation
        return evaluation.accepted if self.expected else not evaluation.accepted and evaluation.refused_by not in ("build", "problem")

    @property
    def line(self) -> str:
        """E.g. `ok    right: accepted`."""
        evaluation = self.evaluation
        said = "accepted" if evaluation.accepted else f"refused by {evaluation.refused_by} ({' '.join(evaluation.reason.split())})"
        return f"{'ok' if self.passed else 'WRONG':<5} {self.name}: {said}"


def self_test(executor: Executor, rules: Rules) -> Iterator[Case]:
    """Judge every case, one after another. Raises AutoKernelError for the machine's faults."""
    problem = load_problem(PROBLEM, "embedded")
    for name, source, expected in CASES:
        candidate = Candidate(source=source, builder=builders.detect(source), proposer="self-test", note=name)
        yield Case(name, expected, evaluate(problem, candidate, rules=rules, executor=executor))
