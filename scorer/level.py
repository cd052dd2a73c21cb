"""The honest score of a level. Whatever was not shown to be right and fast counts against it, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scorer.errors import ScorerError
from scorer.formulas import THRESHOLDS, fast_p, geometric_mean
from scorer.results import BEST, COMPILE, CORRECT, EAGER, JUDGED, MISSING, STATUSES, UNSCORABLE, ProblemResult

Rates = Mapping[float, "float | None"]


@dataclass(frozen=True)
class OpponentScore:
    """A level's speed against one opponent. Rates are None where nothing is left to count."""

    against: str  # "eager", "compile" or "best"
    fast_p: Rates  # by threshold, over the level less its unscorable problems
    fast_p_whole_level: Rates  # the same over every problem of the level
    fast_p_low: Rates  # as fast_p, counting only problems whose interval lies above the threshold
    fast_p_without_weak: Rates  # as fast_p, over the level less its unscorable and its weak problems
    geometric_mean: float | None  # over the problems that are right and timed against this opponent
    timed: int  # how many those are
    untimed: tuple[str, ...]  # right, but not timed against this opponent; they count as failed here

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON; thresholds become "0.0", "0.5", ..."""
        return {
            "against": self.against,
            "fast_p": _keyed(self.fast_p),
            "fast_p_whole_level": _keyed(self.fast_p_whole_level),
            "fast_p_low": _keyed(self.fast_p_low),
            "fast_p_without_weak": _keyed(self.fast_p_without_weak),
            "geometric_mean": self.geometric_mean,
            "timed": self.timed,
            "untimed": list(self.untimed),
        }


@dataclass(frozen=True)
class LevelScore:
    """What a level's results come to. Shares are 0 to 1."""

    level_size: int  # problems in the whole level
    denominator: int  # the level less its unscorable problems; missing, failed and does-not-fit count in it
    uids: Mapping[str, tuple[str, ...]]  # by status, every problem of the level exactly once
    correctness: float | None  # right ones over the denominator
    correctness_whole_level: float  # right ones over the whole level
    weak: tuple[str, ...]  # those that are scored though an answer without work passes on their own inputs
    coverage: float  # problems with a verdict (correct, failed or unscorable) over the whole level
    opponents: Mapping[str, OpponentScore]  # those that anything was timed against; "best" only beside both others

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "level_size": self.level_size,
            "denominator": self.denominator,
            "counts": {status: len(names) for status, names in self.uids.items()},
            "uids": {status: list(names) for status, names in self.uids.items()},
            "weak": list(self.weak),
            "correctness": self.correctness,
            "correctness_whole_level": self.correctness_whole_level,
            "coverage": self.coverage,
            "against": {name: score.to_json() for name, score in self.opponents.items()},
        }


def score_level(level_uids: Sequence[str], results: Iterable[ProblemResult]) -> LevelScore:
    """Score of the level whose problems are `level_uids`; those without a result count as missing.

    Denominator: the level less its `unscorable` problems, in which missing, failed, "does not fit" and "reference fails" count
    as failed. Raises ScorerError for an empty level, for a result of no problem of the level, and for two results of one problem.
    """
    if not level_uids:
        raise ScorerError("the level has no problems; choose one that has.")
    by_uid: dict[str, ProblemResult] = {}
    for result in results:
        if result.uid in by_uid:
            raise ScorerError(f"{result.uid} has two results; merge the runs first, or choose one of them.")
        by_uid[result.uid] = result
    strangers = sorted(set(by_uid) - set(level_uids))
    if strangers:
        raise ScorerError(f"there are results of problems that the level does not have: {', '.join(strangers[:5])}. "
                          "Check that the level and the source of its problems are those of the run.")
    names: dict[str, list[str]] = {status: [] for status in STATUSES}
    for uid in dict.fromkeys(level_uids):
        names[by_uid[uid].status if uid in by_uid else MISSING].append(uid)
    uids = {status: tuple(found) for status, found in names.items()}
    level_size = sum(map(len, uids.values()))
    denominator = level_size - len(uids[UNSCORABLE])
    right = [by_uid[uid] for uid in uids[CORRECT]]
    weak = tuple(uid for uid in dict.fromkeys(level_uids) if uid in by_uid and by_uid[uid].weak and by_uid[uid].status != UNSCORABLE)
    return LevelScore(
        level_size=level_size,
        denominator=denominator,
        uids=uids,
        correctness=len(right) / denominator if denominator else None,
        correctness_whole_level=len(right) / level_size,
        weak=weak,
        coverage=sum(len(uids[status]) for status in JUDGED) / level_size,
        opponents={name: _against(name, right, denominator, level_size, len(weak)) for name in _opponents(right)},
    )


def _opponents(right: Sequence[ProblemResult]) -> tuple[str, ...]:
    """Opponents that anything was timed against, eager and compile first, then the better of both, then others by name."""
    timed = {name for result in right for name in result.speedup}
    both = (BEST,) if {EAGER, COMPILE} <= timed else ()
    return (*(name for name in (EAGER, COMPILE) if name in timed), *both, *sorted(timed - {EAGER, COMPILE, BEST}))


def _against(opponent: str, right: Sequence[ProblemResult], denominator: int, level_size: int, weak: int) -> OpponentScore:
    timed = [speedup for result in right if (speedup := result.speedup_against(opponent)) is not None]
    strong = [speedup for result in right if not result.weak and (speedup := result.speedup_against(opponent)) is not None]
    lows = [low for result in right if (low := result.low_against(opponent)) is not None]
    return OpponentScore(
        against=opponent,
        fast_p={p: fast_p(timed, p, denominator) for p in THRESHOLDS},
        fast_p_whole_level={p: fast_p(timed, p, level_size) for p in THRESHOLDS},
        fast_p_low={p: fast_p(lows, p, denominator) for p in THRESHOLDS},
        fast_p_without_weak={p: fast_p(strong, p, denominator - weak) for p in THRESHOLDS},
        geometric_mean=geometric_mean(timed),
        timed=len(timed),
        untimed=tuple(result.uid for result in right if result.speedup_against(opponent) is None),
    )


def _keyed(rates: Rates) -> dict[str, float | None]:
    return {str(threshold): rate for threshold, rate in rates.items()}
