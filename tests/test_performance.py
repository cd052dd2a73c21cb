"""Interference, on windows that are written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from autokernel import measure, performance
from autokernel.records import Comparison
from autokernel.rules import STRICT

NULL = measure.Null(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass
class Windows:
    """As much of a session as interference asks: an opponent's windows before a candidate and, by length, after it; one call's ms."""

    before: float
    after: dict[int, float]
    calls: int = 1
    rules: Any = STRICT
    asked: list[tuple[int, bool]] = field(default_factory=list)

    def null(self, calls: int) -> measure.Null:
        return NULL

    def alone(self, name: str, worker: object, *, calls: int | None = None, reuse: bool = False, after: bool = False) -> list[float]:
        assert reuse is not after, "what was taken before stays what it is held against"
        length = calls or self.calls
        self.asked.append((length, after))
        each = self.after[length] if after else self.before
        return [length * each * (1 + 0.001 * n) for n in range(6)]


def beside(ms: float, calls: int) -> Comparison:
    windows = {"candidate_ms": [calls * 0.1] * 12, "opponent_ms": [calls * ms * (1 + 0.001 * n) for n in range(12)]}
    return measure.comparison("eager", windows, NULL, calls, 0.05)


@pytest.mark.parametrize(("windows", "made", "said"), [
    (Windows(1.0, {1: 1.0}), beside(1.0, 1), ""),
    (Windows(1.0, {1: 1.0}), beside(1.3, 1), "beside this candidate"),
    (Windows(1.0, {1: 1.3}), beside(1.3, 1), "after this candidate"),  # what it left behind slows its opponent still
    (Windows(1.0, {1: 1.05}), beside(1.05, 1), ""),  # a device that drifts
    (Windows(1.4, {1: 1.4, 4: 1.0}), beside(1.0, 4), ""),  # short windows take longer a call
    (Windows(1.4, {1: 1.4, 4: 1.0}), beside(1.3, 4), "beside this candidate"),
    (Windows(1.0, {1: 1.3, 4: 1.3}), beside(1.3, 4), "after this candidate"),
])
def test_an_opponent_slower_beside_a_candidate_or_after_it_is_interfered_with(windows: Windows, made: Comparison, said: str) -> None:
    found = performance.interference(windows, [made], {"eager": object()})  # type: ignore[arg-type, dict-item]
    assert (said in found and "leave nothing running" in found) if said else found == ""
    again = performance.interference(windows, [made], {"eager": object()})  # type: ignore[arg-type, dict-item]
    assert again == found
