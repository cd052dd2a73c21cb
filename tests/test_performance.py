"""Interference, on windows that are written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from autokernel import measure, performance
from autokernel.records import Comparison
from autokernel.rules import STRICT
from autokernel.session import Session

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


EVEN = [5.15, 5.16, 5.18, 5.2, 5.23, 5.23, 5.26, 5.3, 5.32]


@pytest.mark.parametrize(("rounds", "taken", "known"), [
    ([EVEN], 1, True), ([[*EVEN[1:], 9.26], EVEN], 2, True), ([[*EVEN[2:], 9.26, 9.3]] * 4, 4, True),
    ([[*EVEN[:6], 7.0, 9.0, 11.0]] * 9, 4, False),
])
def test_more_nulls_are_taken_where_one_stands_out(rounds: list[list[float]], taken: int, known: bool) -> None:
    session, left, asked = object.__new__(Session), iter(rounds), []

    def ask(order: str, deadline_s: float, workers: object, *, calls: int, count: int) -> dict[str, list[float]]:
        asked.append((order, calls, count))
        return {"ms": next(left), "least_ms": [4.8] * count}

    vars(session).update(_nulls={}, facts={"eager_ms": 9.0}, opponent=lambda name: None, deadline=lambda calls: 1.0, ask=ask)
    null = session.null(1)
    assert asked == [("null", 1, 9)] * taken and session.null(1) is null
    assert (null.high_ms < 5.5) is known
