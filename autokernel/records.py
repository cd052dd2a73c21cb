"""The records every other part passes on: candidate, verdict, measurement, comparison, evaluation.

All are immutable, hold plain values only, and refuse impossible combinations when they are made.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from autokernel.errors import InternalError

STAGES = ("build", "smoke", "shape_sweep", "stability", "determinism", "edge_cases", "performance")
"""Where an evaluation can be refused, in order. The middle five are the correctness gate."""

UNSCORABLE, WEAK = "unscorable", "weak problem"
"""How a reason, and a label, begin where answers without work pass all checks, or those on the problem's own inputs."""

PROBLEM_FAULTS = ("reference fails", "does not fit", UNSCORABLE)
"""How the reason of a refusal by "problem" begins where the problem itself is at fault, so that nothing would judge it here."""

INCUMBENT_FAILS = "incumbent fails"
"""How it begins where the candidate that is the opponent fails instead."""

Figure = float | int | str | bool | None


@dataclass(frozen=True)
class Candidate:
    """One immutable proposal: the text of a Python file that defines `ModelNew`, and where it came from."""

    source: str
    builder: str  # "triton", "cuda", "cpp" or "python"
    parent: str | None = None  # sha256 of the candidate it was derived from
    proposer: str = ""
    note: str = ""  # why it was proposed, one line

    @property
    def sha256(self) -> str:
        """Content hash of the source text, in hex; names the candidate everywhere."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Verdict:
    """One gate stage's answer, with the numbers behind it."""

    stage: str
    passed: bool
    reason: str = ""  # empty where passed without remark
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.stage not in STAGES:
            raise InternalError(f"unknown stage '{self.stage}'; expected one of {', '.join(STAGES)}.")
        if not self.passed and not self.reason:
            raise InternalError(f"a refusal by '{self.stage}' must give a reason.")


@dataclass(frozen=True)
class Measurement:
    """Window times of one callable on one machine."""

    samples_ms: tuple[float, ...]  # one per window, null subtracted, per call, in the order they were taken
    calls_per_window: int
    protocol: str  # e.g. "window/1"
    null_ms: float  # the empty window's time, whole window

    @property
    def median_ms(self) -> float:
        """Median time of one call in ms."""
        return statistics.median(self.samples_ms)


@dataclass(frozen=True)
class Comparison:
    """A paired comparison of a candidate with one opponent: speedup = opponent's time / candidate's time."""

    against: str  # "eager", "compile" or "incumbent"
    speedup: float
    low: float  # interval's ends, same unit
    high: float
    confidence: float  # of the interval, two-sided, e.g. 0.994
    pairs: int
    candidate: Measurement
    opponent: Measurement
    verified_low: float  # the lower end should the candidate have done none of the shim's work that windows hold

    def __post_init__(self) -> None:
        if self.verified_low > self.low:
            raise InternalError(f"the verified lower end {self.verified_low} is above the interval's own, {self.low}; check the caller.")
        if not (self.low <= self.speedup <= self.high):
            raise InternalError(f"speedup {self.speedup} lies outside its interval [{self.low}, {self.high}]; check the caller.")
        if self.pairs != len(self.candidate.samples_ms) or self.pairs != len(self.opponent.samples_ms):
            raise InternalError("a comparison needs one sample a side for each pair; check the caller.")


@dataclass(frozen=True)
class Evaluation:
    """All that is known of one candidate on one problem: the only thing the ledger holds and scores read."""

    problem: str  # uid, e.g. "L1/19"
    problem_hash: str
    candidate: str  # sha256
    builder: str
    rules: str  # e.g. "strict/1"
    accepted: bool
    refused_by: str | None  # a stage, or "problem" where the problem itself cannot be judged
    reason: str
    verdicts: tuple[Verdict, ...]
    comparisons: tuple[Comparison, ...]
    machine: Mapping[str, Figure]
    oracle: str = "fp64"  # or "eager fp32: REASON"
    precision_class: str | None = None
    labels: tuple[str, ...] = ()
    times_ms: Mapping[str, float] = field(default_factory=dict)
    breakdown_s: Mapping[str, float] = field(default_factory=dict)
    verified: str = ""  # "window", or "within +-x us" where windows cannot resolve it
    roofline: float | None = None  # share of the bound reached, 1.0 = at the bound
    flops: int | None = None  # of the products in one call of the reference
    log: str = ""  # the candidate's own text (traceback, compiler digest), capped; shown, never parsed
    created: str = ""  # ISO 8601, UTC

    def __post_init__(self) -> None:
        if self.accepted == (self.refused_by is not None):
            raise InternalError("an evaluation is either accepted or refused by a named stage; check the caller.")
        if self.accepted and not all(verdict.passed for verdict in self.verdicts):
            raise InternalError("an accepted evaluation holds a failed verdict; check the caller.")
        if self.accepted and len(self.verdicts) < 5:
            raise InternalError("an accepted evaluation must have passed all five stages; check the caller.")
        if self.refused_by is not None and self.refused_by not in (*STAGES, "problem"):
            raise InternalError(f"unknown stage '{self.refused_by}'; expected one of {', '.join(STAGES)}.")
        if not self.accepted and not self.reason:
            raise InternalError("a refused evaluation must give its reason.")

    def against(self, opponent: str) -> Comparison | None:
        """The comparison with "eager", "compile" or "incumbent", or None if it was not made."""
        return next((c for c in self.comparisons if c.against == opponent), None)

    @property
    def unjudgeable(self) -> bool:
        """Whether it says that no candidate can be judged on this problem here: a refusal by "problem", with one of PROBLEM_FAULTS."""
        return self.refused_by == "problem" and self.reason.startswith(PROBLEM_FAULTS)

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; `from_json` gives the same evaluation back. Non-finite floats become None."""
        values: dict[str, Any] = _jsonable(asdict(self))
        return values

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evaluation:
        """The evaluation that `to_json` wrote. Raises InternalError where the data cannot be one."""
        try:
            fields = dict(data)
            fields["verdicts"] = tuple(Verdict(**v) for v in fields["verdicts"])
            fields["comparisons"] = tuple(_comparison(c) for c in fields["comparisons"])
            fields["labels"] = tuple(fields.get("labels", ()))
            return cls(**fields)
        except (KeyError, TypeError) as error:
            raise InternalError(f"not an evaluation record ({error}); use the version of AutoKernel that wrote it.") from error


def _comparison(data: Mapping[str, Any]) -> Comparison:
    sides = {}
    for side in ("candidate", "opponent"):
        values = dict(data[side])
        values["samples_ms"] = tuple(values["samples_ms"])
        sides[side] = Measurement(**values)
    return Comparison(**{**data, **sides})


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
