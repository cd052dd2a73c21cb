"""The two formulas of a score."""

from __future__ import annotations

import math
from collections.abc import Iterable

THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)  # KernelBench's


def fast_p(speedups: Iterable[float], p: float, count: int) -> float | None:
    """Share of `count` problems that are right and more than `p` times as fast; None where `count` is 0.

    `speedups` holds one for each right problem, 1.0 = as fast as the opponent. Strictly more: 1.0 is not in fast_1.
    Source: KernelBench `fast_p`, the denominator being the caller's choice.
    """
    if count == 0:
        return None
    return sum(speedup > p for speedup in speedups) / count


def geometric_mean(speedups: Iterable[float]) -> float | None:
    """Geometric mean of positive speedups, or None where there are none. By logarithms, so that no product overflows."""
    logarithms = [math.log(speedup) for speedup in speedups]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else None
