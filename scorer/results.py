"""One problem's outcome, as a score takes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from scorer.errors import ScorerError

CORRECT = "correct"
FAILED = "failed"
UNSCORABLE = "unscorable"
DOES_NOT_FIT = "does not fit"
MISSING = "missing"
REFERENCE_FAILS = "reference fails"
STATUSES = (CORRECT, FAILED, UNSCORABLE, DOES_NOT_FIT, MISSING, REFERENCE_FAILS)
JUDGED = (CORRECT, FAILED, UNSCORABLE)  # a verdict was reached; the others leave the level less covered

EAGER = "eager"
COMPILE = "compile"
BEST = "best"  # the better of eager and compile, problem by problem


@dataclass(frozen=True)
class ProblemResult:
    """The outcome of one problem in one run. Only a correct one carries speedups."""

    uid: str  # e.g. "L1/19"
    status: str  # one of STATUSES
    speedup: Mapping[str, float] = field(default_factory=dict)  # by opponent: "eager", "compile"; 2.0 = twice as fast
    interval: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # by opponent: (low, high), same unit
    reason: str = ""
    weak: bool = False  # an answer without work passes on the problem's own inputs: scored, and shown without as well
    no_baseline: tuple[str, ...] = ()  # opponents that cannot run this problem's reference, e.g. ("compile",)
    problem_hash: str = ""  # of the problem's source; results with different ones are not the same problem's
    created: str = ""  # ISO 8601 in UTC, all in one format; the newer of two results of a problem counts

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ScorerError(f"{self.uid} has the unknown status '{self.status}'; it must be one of {', '.join(STATUSES)}.")
        if self.status != CORRECT and (self.speedup or self.interval):
            raise ScorerError(f"{self.uid} is '{self.status}' and has speedups; only a correct result must carry any.")
        for opponent, speedup in self.speedup.items():
            if not (math.isfinite(speedup) and speedup > 0.0):
                raise ScorerError(f"{self.uid} has the speedup {speedup} against {opponent}; it must be finite and above 0.")
        for opponent, (low, high) in self.interval.items():
            if not 0.0 <= low <= high:
                raise ScorerError(f"{self.uid} has the interval {low} to {high} against {opponent}; "
                                  "its ends must be in order and not below 0.")

    def speedup_against(self, opponent: str) -> float | None:
        """Speedup against "eager", "compile" or "best", None where it was not measured.

        "best" is the smaller one of both. Both must have been measured, unless one of them cannot run the reference at all.
        """
        if opponent != BEST:
            return self.speedup.get(opponent)
        rivals = self._rivals()
        return min(self.speedup[rival] for rival in rivals) if rivals else None

    def low_against(self, opponent: str) -> float | None:
        """Lower end of the interval against "eager", "compile" or "best" (the smaller lower end), None where there is none."""
        if opponent != BEST:
            return self.interval[opponent][0] if opponent in self.interval else None
        rivals = self._rivals()
        if not rivals or any(rival not in self.interval for rival in rivals):
            return None
        return min(self.interval[rival][0] for rival in rivals)

    def _rivals(self) -> tuple[str, ...]:
        """The opponents that "best" is the better of, empty where one that could have been measured was not."""
        rivals = tuple(name for name in (EAGER, COMPILE) if name not in self.no_baseline)
        return rivals if all(name in self.speedup for name in rivals) else ()
