"""Statistics of a list of times as KernelBench rounds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scorer.errors import ScorerError

DIGITS = 3  # significant ones that KernelBench keeps of every figure


class NoTimes(ScorerError, ValueError):
    """An empty list of times."""


def timing_stats(elapsed_ms: Sequence[float], *, hardware: str = "", device: str = "") -> dict[str, Any]:
    """`mean`, `std` (of the population), `min`, `max`, each to 3 significant digits, and `num_trials`; ms.

    `hardware` and `device` are added where `device` is given. numpy adds up, as KernelBench has it: in another order the third digit
    could differ. Raises NoTimes, which is a ValueError, for an empty list. Source: KernelBench `get_timing_stats`.
    """
    if not len(elapsed_ms):
        raise NoTimes("there are no times to take statistics of; measure at least one.")
    import numpy

    times = numpy.asarray(elapsed_ms, dtype=numpy.float64)
    figures = {"mean": times.mean(), "std": times.std(), "min": times.min(), "max": times.max()}
    stats: dict[str, Any] = {name: float(f"{figure:.{DIGITS}g}") for name, figure in figures.items()}
    stats["num_trials"] = len(elapsed_ms)
    if device:
        stats["hardware"], stats["device"] = hardware, device
    return stats
