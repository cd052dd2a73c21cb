"""Paired comparison by window time: distribution-free intervals, sequential looks, what the windows can resolve.

Numbers in, numbers out, but for `compare`, which has the judge run the pairs. Source: design, laws 4 and 5.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autokernel.records import Comparison, Measurement
from autokernel.rules import Looks, Rules

INCUMBENT_SHARE = 4.0  # times faster than eager that an incumbent is taken to be, where its windows are planned
FLOOR_MS = 1e-3  # a net call below this cannot be told from the null
NULL_ALPHA = 0.005  # two-sided error of the null's interval, which is looked at up to four times
PROTOCOL = "window/1"


@dataclass(frozen=True)
class Interval:
    """Median with an order-statistic interval. `confidence` is what the order statistics give, not what was asked."""

    median: float
    low: float
    high: float
    confidence: float


def median_interval(values: Sequence[float], alpha: float) -> Interval:
    """Sign-test interval of the median at error `alpha` (two-sided); the widest there is where n is too small for it.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("an interval needs at least one value; check that windows were taken")
    ordered, n = sorted(values), len(values)
    rank, tail = 1, 0.5 ** n
    total = tail
    while rank < (n + 1) // 2:
        following = total + math.comb(n, rank) * 0.5 ** n
        if 2 * following > alpha:
            break
        total, rank = following, rank + 1
    return Interval(statistics.median(ordered), ordered[rank - 1], ordered[n - rank], max(1.0 - 2 * total, 0.0))


@dataclass(frozen=True)
class Null:
    """The empty window, ms: its median with an interval's ends, its spread (interquartile range), and the least that it could be,
    for a worker that does none of the shim's part of it."""

    median_ms: float
    low_ms: float
    high_ms: float
    spread_ms: float
    least_ms: float

    def slack_us(self, calls: int) -> float:
        """How far a call's net time can be off, us: by the null's own uncertainty, and by what a worker may leave out."""
        return max(self.high_ms - self.low_ms, self.median_ms - self.least_ms) * 1e3 / calls


def null_of(samples_ms: Sequence[float], least_ms: Sequence[float]) -> Null:
    """The null from windows with and without the shim's part."""
    quarters = statistics.quantiles(samples_ms, n=4) if len(samples_ms) > 1 else [samples_ms[0]] * 3
    found = median_interval(samples_ms, NULL_ALPHA)
    return Null(found.median, found.low, found.high, quarters[2] - quarters[0], min(found.low, median_interval(least_ms, NULL_ALPHA).low))


def net(window_ms: float, null_ms: float, calls: int, floor_ms: float = 0.0) -> float:
    """One call's time in ms, the null taken off; no less than the floor of a window."""
    return max(window_ms - null_ms, floor_ms, FLOOR_MS * calls) / calls


def comparison(against: str, windows: Mapping[str, Sequence[float]], null: Null, calls: int, alpha: float) -> Comparison:
    """A Comparison from raw windows in ms (`candidate_ms`, `opponent_ms`, one each a pair).

    The interval holds for every null within its own interval; net times end at the null's spread, below which nothing is resolved.
    """
    def ratios(ours_ms: float, theirs_ms: float) -> Interval:
        sides = zip(windows["candidate_ms"], windows["opponent_ms"], strict=True)
        return median_interval([math.log(net(o, theirs_ms, calls, null.spread_ms) / net(c, ours_ms, calls, null.spread_ms))
                                for c, o in sides], alpha)

    middle = ratios(null.median_ms, null.median_ms)
    ends = [middle, ratios(null.low_ms, null.low_ms), ratios(null.high_ms, null.high_ms)]
    low, high = min(end.low for end in ends), max(end.high for end in ends)
    sides = [Measurement(tuple(net(window, null.median_ms, calls, null.spread_ms) for window in windows[key]), calls, PROTOCOL,
                         null.median_ms) for key in ("candidate_ms", "opponent_ms")]
    return Comparison(
        against=against, speedup=math.exp(middle.median), low=math.exp(low), high=math.exp(high), confidence=middle.confidence,
        pairs=len(windows["candidate_ms"]), candidate=sides[0], opponent=sides[1],
        verified_low=math.exp(min(low, ratios(null.least_ms, null.high_ms).low)),
    )


def decided(made: Comparison, looks: Looks) -> bool:
    """Whether no further look is needed: clearly faster or slower by an amount known well, or a tie within one per cent."""
    apart = (made.low > looks.keep_above or made.high < 1.0) and made.high <= looks.narrow * made.low
    return apart or (made.low > 1 - looks.tie_within and made.high < 1 + looks.tie_within)


def compare(against: str, pairs: Callable[[int, int], Mapping[str, Any]], null: Null, calls: int, rules: Rules,
            now: Callable[[], float]) -> Comparison | Mapping[str, Any]:
    """Look after each number of pairs in the rules until decided or out of budget.

    `pairs(count, first)` runs pairs and gives raw windows, or {"wrong": side, ...}, which is handed on.
    """
    looks, start = rules.looks, now()
    windows: dict[str, list[float]] = {key: [] for key in ("candidate_ms", "opponent_ms", "candidate_event_ms", "opponent_event_ms")}
    made: Comparison | None = None
    for wanted, alpha in zip(looks.pairs, looks.alpha, strict=True):
        have = len(windows["candidate_ms"])
        got = pairs(wanted - have, have)
        if "wrong" in got:
            return got
        for key, values in windows.items():
            values.extend(got[key])
        made = comparison(against, windows, null, calls, alpha)
        if made.pairs < wanted or decided(made, looks) or now() - start > looks.budget_s:
            break
    if made is None:
        raise ValueError("rules without looks; check the preset")
    return made


def work_moved(one: Comparison, many: Comparison, null: Null, margin: float) -> bool:
    """Whether single calls (`one`) cost a candidate more, over calls in windows of several (`many`), than they cost its opponent.

    What a single call costs more is launch and switch, alike on both sides. The candidate's surplus in the middle of its calls, taken
    alone and less its opponent's, must exceed `margin` of its own time and what the clock resolves.
    """
    behind = [ours - theirs for ours, theirs in zip(one.candidate.samples_ms, one.opponent.samples_ms, strict=True)]
    surplus = statistics.median(behind) - (many.candidate.median_ms - many.opponent.median_ms)
    own = one.candidate.median_ms - many.candidate.median_ms
    return min(own, surplus) > margin * many.candidate.median_ms + 2 * null.spread_ms


def contradicts(one: Comparison, many: Comparison, alpha: float) -> bool:
    """Whether the speedup of single calls lies below that of windows of several, each known but for `alpha`."""
    ends = [median_interval([math.log(o / c) for o, c in zip(made.opponent.samples_ms, made.candidate.samples_ms, strict=True)], alpha)
            for made in (one, many)]
    return ends[0].high < ends[1].low


def calls_per_window(rules: Rules, eager_ms: float, set_bytes: int, l2_bytes: int, free_bytes: int) -> int:
    """K: the smallest of the rules' numbers with enough work and cold data (else the largest), as memory allows.

    `set_bytes`: inputs and outputs of one call; a window's sets lie in memory five times (drawn, lent twice, kept, copied).
    """
    fitting = _fitting(rules, set_bytes, free_bytes)
    for k in fitting:
        if k * eager_ms > rules.window_work_ms and k * set_bytes > rules.window_l2_times * l2_bytes:
            return k
    return fitting[-1]


def longer_windows(rules: Rules, calls: int, eager_ms: float, set_bytes: int, free_bytes: int) -> tuple[int, ...]:
    """Numbers above `calls` that windows may have for a candidate whose own work in `calls` is too little for the clock; an incumbent may
    be its opponent, which takes a fraction of eager's time."""
    return tuple(k for k in _fitting(rules, set_bytes, free_bytes)
                 if k > calls and 2 * k * set_bytes <= rules.large_set_bytes and k * eager_ms <= INCUMBENT_SHARE * rules.window_most_ms)


def calls_for(rules: Rules, calls: int, longer: Sequence[int], own_ms: float, other_ms: float) -> int:
    """The least of `calls` and the `longer` ones with enough of a candidate's own work, else the most with no more than the rules allow of
    its opponent's."""
    chosen = calls
    for k in longer:
        if chosen * own_ms >= rules.window_work_ms or k * other_ms > rules.window_most_ms:
            break
        chosen = k
    return chosen


def _fitting(rules: Rules, set_bytes: int, free_bytes: int) -> list[int]:
    return [k for k in rules.window_calls if k == 1 or k * set_bytes * 5 <= free_bytes]


def roofline_ms(facts: Mapping[str, Any], ceilings: Mapping[str, Any]) -> float:
    """The least time the problem's compulsory bytes and the FLOPs of its `products` need on this device, ms.

    The copy rate is taken at the measured working-set size nearest to the problem's own.
    """
    moved = facts["input_bytes"] + facts["weight_bytes"] + facts["output_bytes"]
    rates: list[tuple[float, float]] = [(size, rate) for size, rate in ceilings["copy"]]
    _, rate = min(rates, key=lambda entry: abs(math.log(max(moved, 1) / entry[0])))
    arithmetic = sum(flops / ceilings["products"][kind] for kind, flops in facts["products"].items())
    return float(max(moved / rate, arithmetic)) * 1e3


LOW = "tf32 or half"


def precision_class(rms: Sequence[float], ieee: Sequence[float], output_rms: Sequence[float], rules: Rules) -> str:
    """"ieee-grade", "fp32-emulated", or "tf32 or half", by the worst ratio of rms errors to ieee eager's over the outputs.

    An ieee error of zero counts as a quarter ulp of the output's rms: eager can be exact where sums are short.
    """
    worst = 0.0
    for ours, theirs, scale in zip(rms, ieee, output_rms, strict=True):
        worst = max(worst, ours / max(theirs, scale * 2.0 ** -26, 1e-300))
    if worst <= rules.ieee_ratio:
        return "ieee-grade"
    return "fp32-emulated" if worst <= rules.emulated_ratio else LOW
