"""What a run writes down: how it began, each trial of a candidate, how each problem ended. One ledger line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from autokernel.errors import InternalError
from autokernel.records import Evaluation, Figure

PHASES = ("search", "strict", "final")
"""search: an iteration of the loop; strict: a kept candidate under the full rules; final: the champion's re-measurement."""
DECISIONS = ("kept", "reverted")
FINISHED = ("champion", "none", "unjudged")
"""Outcomes that a resumed run does not try again; "missing" and "error" are tried again."""


def keeps(evaluation: Evaluation, incumbent: Evaluation | None, above: float) -> bool:
    """Whether a search goes on from this candidate: faster than the incumbent (eager, where there is none) by an interval whose lower
    end is above `above`. An incumbent is held to what it was kept for, since it can hold back once it is one: where by these figures it
    would be slower against eager than it was then, the candidate must be faster than it was then."""
    comparison = evaluation.against("incumbent" if incumbent else "eager")
    if not evaluation.accepted or comparison is None or comparison.low <= above:
        return False
    now, then = evaluation.against("eager"), incumbent.against("eager") if incumbent else None
    return now is None or then is None or now.high / comparison.low >= then.low or now.low > above * then.high


@dataclass(frozen=True)
class RunHeader:
    """How a run began. Rules, torch and device must be the same for every command that goes on with it."""

    rules: str  # e.g. "strict/1": what champions are judged by
    torch: str  # version
    device: str  # e.g. "cpu" or "cuda:0 NVIDIA H200"
    origin: str  # where the problems came from
    version: str  # AutoKernel's
    options: Mapping[str, Figure] = field(default_factory=dict)
    machine: Mapping[str, Figure] = field(default_factory=dict)
    created: str = ""  # ISO 8601, UTC

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; `RunHeader(**data)` gives the header back."""
        return asdict(self)


@dataclass(frozen=True)
class Trial:
    """One judged candidate inside a run. (problem, phase, iteration) names it, and no ledger holds a name twice."""

    iteration: int  # from 1; strict and final trials carry the number of the search iteration they look at again
    phase: str
    decision: str
    evaluation: Evaluation
    proposer: str = ""
    parent: str | None = None
    note: str = ""  # search: why it was proposed; final: what ended the search
    seconds: float = 0.0  # wall time with proposing, building and judging

    def __post_init__(self) -> None:
        if self.phase not in PHASES or self.decision not in DECISIONS or self.iteration < 1:
            raise InternalError(f"no such trial: iteration {self.iteration}, phase '{self.phase}', decision '{self.decision}'; "
                                "check the caller.")
        if self.decision == "kept" and not self.evaluation.accepted:
            raise InternalError("a refused candidate cannot be kept; check the caller.")

    @property
    def problem(self) -> str:
        """The problem's uid."""
        return self.evaluation.problem

    @property
    def kept(self) -> bool:
        """Whether the candidate was kept (search), or stayed kept (strict, final)."""
        return self.decision == "kept"

    @property
    def key(self) -> tuple[str, str, int]:
        """(problem, phase, iteration): the trial's name, unique in a ledger."""
        return self.problem, self.phase, self.iteration

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; `from_json` gives the same trial back."""
        fields = {name: getattr(self, name) for name in ("iteration", "phase", "decision", "proposer", "parent", "note", "seconds")}
        return {"problem": self.problem, **fields, "evaluation": self.evaluation.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trial:
        """The trial that `to_json` wrote. Raises InternalError, KeyError or TypeError where the data cannot be one."""
        fields = dict(data)
        problem = fields.pop("problem")
        trial = cls(**{**fields, "evaluation": Evaluation.from_json(fields["evaluation"])})
        if trial.problem != problem:
            raise InternalError(f"the trial names '{problem}' and its evaluation '{trial.problem}'; check the caller.")
        return trial


@dataclass(frozen=True)
class Outcome:
    """How the search on one problem ended, with the champion's figures from its final trial and no other."""

    problem: str
    status: str  # "champion", "none" (no right candidate), "unjudged", "missing" or "error"
    stopped_by: str  # "iterations", "minutes", "proposer", "problem", or a move-on rule by its name in MoveOn
    iterations: int = 0
    kept: int = 0  # candidates kept on the way
    champion: str | None = None  # sha256
    speedup: float | None = None  # against eager, from the final trial
    low: float | None = None
    high: float | None = None
    compile_speedup: float | None = None  # against torch.compile
    reason: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.status not in (*FINISHED, "missing", "error"):
            raise InternalError(f"unknown outcome '{self.status}'; check the caller.")
        if (self.status == "champion") != (self.champion is not None):
            raise InternalError("an outcome names a champion exactly if its status says so; check the caller.")

    @property
    def finished(self) -> bool:
        """Whether a resumed run leaves this problem alone."""
        return self.status in FINISHED

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; `Outcome(**data)` gives the outcome back."""
        return asdict(self)
