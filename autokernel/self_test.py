"""Does the gate work on this machine? Candidates whose verdicts are known: four here on a problem of the embedded set, and the quick subset
of the attacks and honest look-alikes that the tests hold, on tiny problems of their own.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from autokernel import builders
from autokernel.errors import InternalError
from autokernel.evaluate import evaluate
from autokernel.records import Candidate, Evaluation
from autokernel.rules import QUICK, Rules
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


ESCAPED = "ESCAPED"  # what an attack prints when it reached what it should not
PATIENCE_S = 15.0  # for calls of attacks that never return


@dataclass(frozen=True)
class Case:
    """One candidate's verdict beside the one it should have had."""

    name: str
    expected: bool | None  # accepted; None where either will do, so long as nothing was reached that should not be
    evaluation: Evaluation
    stages: tuple[str, ...] = ()  # that may refuse it; empty for any of the gate's

    @property
    def passed(self) -> bool:
        """Whether the gate said what it should. A refusal must come from the gate: one by "build" or "problem" shows nothing."""
        evaluation = self.evaluation
        if self.expected is None:
            return ESCAPED not in evaluation.log and evaluation.refused_by not in ("build", "problem")
        if self.expected:
            return evaluation.accepted
        return not evaluation.accepted and evaluation.refused_by not in ("build", "problem") and \
            (not self.stages or evaluation.refused_by in self.stages)

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
    problems = _shipped("problems").PROBLEMS
    limits = replace(rules.deadlines, first_call_s=PATIENCE_S, later_call_floor_s=PATIENCE_S)
    for entry in quick_entries(executor.device):
        using = replace(QUICK if "truthful" in entry.expect else rules, deadlines=limits)  # quick keeps what the candidate said
        candidate = Candidate(entry.source, entry.builder, proposer="self-test", note=entry.name)
        made = evaluate(problems[entry.problem], candidate, rules=using, executor=executor)
        wanted = True if entry.folder == "honest" else None if "truthful" in entry.expect else False
        yield Case(entry.strategy.rstrip("."), wanted, made, tuple(entry.expect.get("refused_by", ())))


def quick_entries(device: str) -> list[Any]:
    """The attacks and honest look-alikes of the quick subset, attacks first. On a GPU without those that forge addresses of the host's."""
    entries = [entry for folder in ("attacks", "honest") for entry in _shipped("index").load(folder) if entry.quick and not entry.without]
    return [entry for entry in entries if device == "cpu" or not entry.name.startswith("frame_")]


def _shipped(name: str) -> ModuleType:
    """A module beside the attacks: in a wheel they lie in this package, in a checkout with the tests, which are no package."""
    here = Path(__file__).resolve().parent
    places = [folder / f"{name}.py" for folder in (here / "exploits", here.parent / "tests" / "exploits")]
    path = next(filter(Path.is_file, places), None)
    spec = importlib.util.spec_from_file_location(f"autokernel_shipped_{name}", path) if path else None
    if spec is None or spec.loader is None:
        raise InternalError("the attacks of the self-test are not in this installation.", hint="Install AutoKernel again, from its wheel.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module
