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

FLOOR_MS = 1e-3  # a net window below this cannot be told from the null
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
    """The empty window: its median and spread (interquartile range), ms a window."""

    median_ms: float
    spread_ms: float


def null_of(samples_ms: Sequence[float]) -> Null:
    """Median and interquartile range of null windows."""
    quarters = statistics.quantiles(samples_ms, n=4) if len(samples_ms) > 1 else [samples_ms[0]] * 3
    return Null(statistics.median(samples_ms), quarters[2] - quarters[0])


def net(window_ms: float, null: Null, calls: int) -> float:
    """One call's time in ms, the null taken off."""
    return max(window_ms - null.median_ms, FLOOR_MS * calls) / calls


def comparison(against: str, windows: Mapping[str, Sequence[float]], null: Null, calls: int, alpha: float) -> Comparison:
    """A Comparison from raw windows in ms (`candidate_ms`, `opponent_ms`, one each a pair)."""
    ours = tuple(net(w, null, calls) for w in windows["candidate_ms"])
    theirs = tuple(net(w, null, calls) for w in windows["opponent_ms"])
    ratios = [math.log(o / c) for c, o in zip(ours, theirs, strict=True)]
    interval = median_interval(ratios, alpha)
    return Comparison(
        against=against, speedup=math.exp(interval.median), low=math.exp(interval.low), high=math.exp(interval.high),
        confidence=interval.confidence, pairs=len(ratios), candidate=Measurement(ours, calls, PROTOCOL, null.median_ms),
        opponent=Measurement(theirs, calls, PROTOCOL, null.median_ms),
    )


def decided(made: Comparison, looks: Looks) -> bool:
    """Whether no further look can be needed: clearly faster, clearly slower, or a tie within one per cent."""
    return made.low > looks.keep_above or made.high < 1.0 or (made.low > 1 - looks.tie_within and made.high < 1 + looks.tie_within)


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

    What a single call costs more is launch and switch, alike on both sides. The candidate's surplus, taken alone and less its
    opponent's, must in every pair exceed `margin` of its own time and what the opponent's single calls differ by among themselves.
    """
    noise = 2 * null.spread_ms + max(one.opponent.samples_ms) - min(one.opponent.samples_ms)
    behind = [ours - theirs for ours, theirs in zip(one.candidate.samples_ms, one.opponent.samples_ms, strict=True)]
    surplus = min(behind) - (many.candidate.median_ms - many.opponent.median_ms)
    own = min(one.candidate.samples_ms) - many.candidate.median_ms
    return min(own, surplus) > margin * many.candidate.median_ms + noise


def calls_per_window(rules: Rules, eager_ms: float, set_bytes: int, l2_bytes: int, free_bytes: int) -> int:
    """K: the smallest of the rules' numbers with enough work and cold data (else the largest), as memory allows.

    `set_bytes`: inputs and outputs of one call; a window's sets lie in memory five times (drawn, lent twice, kept, copied).
    """
    fitting = [k for k in rules.window_calls if k == 1 or k * set_bytes * 5 <= free_bytes]
    for k in fitting:
        if k * eager_ms > rules.window_work_ms and k * set_bytes > rules.window_l2_times * l2_bytes:
            return k
    return fitting[-1]


def roofline_ms(facts: Mapping[str, Any], ceilings: Mapping[str, Any]) -> float:
    """The least time the problem's compulsory bytes and traced FLOPs need on this device, ms.

    The copy rate is taken at the measured working-set size nearest to the problem's own.
    """
    moved = facts["input_bytes"] + facts["weight_bytes"] + facts["output_bytes"]
    rates: list[tuple[float, float]] = [(size, rate) for size, rate in ceilings["copy"]]
    _, rate = min(rates, key=lambda entry: abs(math.log(max(moved, 1) / entry[0])))
    return float(max(moved / rate, facts["flops"] / ceilings["gemm_flops"])) * 1e3


def resolution_us(null: Null, calls: int, pairs: int) -> float:
    """What a median over `pairs` windows can tell apart, us a call: the null's spread over calls and root of pairs."""
    return null.spread_ms * 1e3 / calls / math.sqrt(max(pairs, 1))


def precision_class(rms: Sequence[float], ieee: Sequence[float], output_rms: Sequence[float], rules: Rules) -> str:
    """"ieee-grade", "fp32-emulated", or "tf32 or half", by the worst ratio of rms errors to ieee eager's over the outputs.

    An ieee error of zero counts as a quarter ulp of the output's rms: eager can be exact where sums are short.
    """
    worst = 0.0
    for ours, theirs, scale in zip(rms, ieee, output_rms, strict=True):
        worst = max(worst, ours / max(theirs, scale * 2.0 ** -26, 1e-300))
    if worst <= rules.ieee_ratio:
        return "ieee-grade"
    return "fp32-emulated" if worst <= rules.emulated_ratio else "tf32 or half"
