"""The clock: null windows, opponents alone, and pairs of windows on fresh sets, every output of which is compared."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from autokernel import compare
from autokernel.executor import wire
from autokernel.executor.bench import Bench, Fresh, judge_fresh, plain
from autokernel.executor.faults import DEADLINE, LinkFailed
from autokernel.executor.link import Window, WorkerLink

WARM_WINDOWS = 2
PAIR_TRIES = 3
DAWDLING_S = 60.0  # that a candidate's side of a comparison may take longer than its opponent's


class Stopwatch:
    """Times workers on an open problem. Times are of whole windows, in ms."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def null(self, *, worker: WorkerLink, calls: int, count: int) -> dict[str, Any]:
        """Windows in which forward returns ready outputs, in ms: what lending, two round trips and reading cost alone.

        `ms`: with the shim's own work, as any worker that keeps to the protocol does it; `least_ms`: without it.
        """
        sets = [self.bench.code.draw(self.bench.next_seed()) for _ in range(calls)]
        self.bench.patient_window(worker, sets, 1, self.bench.deadline(calls))
        times: dict[str, list[float]] = {"ms": [], "least_ms": []}
        for number in range(count + 1):
            for key, order in (("ms", wire.GO_NULL), ("least_ms", wire.GO_LEAST)):
                window = self.bench.window(worker, sets, 1, self.bench.deadline(calls), order)
                if number:  # the first round warms up
                    times[key].append(window.ms)
        return dict(times)

    def alone(self, *, worker: WorkerLink, calls: int, count: int, limit_s: float) -> dict[str, Any]:
        """Window times of one worker on fresh sets with nobody beside it, in ms; one warm window does not count.

        After `limit_s` seconds three must do. {"wrong": True} where an answer was wrong.
        """
        times: list[float] = []
        start = time.monotonic()
        while len(times) < count + 1 and (len(times) < 4 or time.monotonic() - start < limit_s):
            seed, sets, answers = self._timed_sets(calls)
            window = self.bench.window(worker, sets, seed, self.bench.deadline(calls))
            wrong = self._check_window(window, answers, worker, sets)  # as in a pair, so that the device is in the same state
            if wrong is not None:
                return {"wrong": True}
            times.append(window.ms)
        return {"ms": times[1:]}

    def pairs(self, *, candidate: WorkerLink, opponent: WorkerLink, calls: int, count: int, first: int, fewest: int, limit_s: float,
              slower_below: float) -> dict[str, Any]:
        """`count` pairs of windows on fresh sets, order alternating; every output compared. Pair numbers begin at `first`.

        `first` 0 is preceded by windows that do not count. Stops early after `limit_s` seconds, but not before `fewest` pairs in
        all, or after three pairs that are all below the speedup `slower_below`. Of the seconds no more are the candidate's than its
        opponent's: who could end the comparison by dawdling would do so while it is in luck.
        """
        spent = _Budget(candidate, opponent)
        times: dict[str, list[float]] = {"candidate_ms": [], "opponent_ms": [], "candidate_event_ms": [], "opponent_event_ms": []}
        sides = [("candidate", candidate, opponent), ("opponent", opponent, candidate)]
        for number in range(first - (WARM_WINDOWS if first == 0 else 0), first + count):
            pair = self._pair(sides if number % 2 == 0 else sides[::-1], calls)
            if "wrong" in pair:
                return pair
            if number >= first:
                for key, value in pair.items():
                    times[key].append(value)
            if number + 1 >= fewest and spent.seconds() > limit_s:
                break
            ratios = [o / c for c, o in zip(times["candidate_ms"], times["opponent_ms"], strict=True)]
            if first == 0 and number == 2 and max(ratios) < slower_below:
                break
        return dict(times)

    def _timed_sets(self, calls: int) -> tuple[int, list[tuple[Any, ...]], list[list[Fresh]]]:
        bench, seed = self.bench, self.bench.next_seed()
        sets = [bench.code.draw(seed + call) for call in range(calls)]
        return seed, sets, [bench.fresh(bench.oracle.eager(bench.oracle.given(given), seed + call)) for call, given in enumerate(sets)]

    def _pair(self, sides: list[tuple[str, WorkerLink, WorkerLink]], calls: int) -> dict[str, Any]:
        """One window a side on one fresh set. Where a mapping had to be opened inside one, or memory ran out, the whole pair is
        drawn anew: nobody is timed on inputs that it has seen."""
        for attempt in range(PAIR_TRIES):
            seed, sets, answers = self._timed_sets(calls)
            got: dict[str, Any] = {}
            again = False
            for name, link, other in sides:
                try:
                    window = self._timed(link, other, sets, seed, opponent=name == "opponent")
                except LinkFailed as fault:
                    if not fault.out_of_memory or self.bench.device.type != "cuda" or attempt + 1 == PAIR_TRIES:
                        raise
                    torch.cuda.empty_cache()
                    again = True
                    break
                wrong = self._check_window(window, answers, link, sets)
                if wrong is not None:
                    return {"wrong": name, **wrong}
                got |= {f"{name}_ms": window.ms, f"{name}_event_ms": window.event_ms}
                again |= window.reopened
                del window
            if not again:
                break
        return got

    def _timed(self, link: WorkerLink, other: WorkerLink, sets: list[tuple[Any, ...]], seed: int, *, opponent: bool) -> Window:
        with _blaming(not opponent):
            other.freeze()
        try:
            with _blaming(opponent):
                return self.bench.window(link, sets, seed, self.bench.deadline(len(sets)))
        finally:
            with _blaming(not opponent):
                other.thaw()

    def _check_window(self, window: Window, answers: list[list[Fresh]], link: WorkerLink,
                      sets: list[tuple[Any, ...]]) -> dict[str, Any] | None:
        for outputs, expected in zip(window.outputs, answers, strict=True):
            for number, (answer, fresh) in enumerate(zip(outputs, expected, strict=True)):
                if fresh.bound is not None and compare.surely_within(compare.as_real(answer), fresh.eager, fresh.bound):
                    continue
                error = judge_fresh(fresh, answer)
                if not error.within:
                    return {"output": number, "figures": [plain(error)], "changed_input": None}
        changed = None if self.bench.oracle.mutates else link.unchanged(sets)
        return None if changed is None else {"output": 0, "figures": [], "changed_input": changed}


class _Budget:
    """The time that pairs take, of which a candidate cannot take more than its opponent."""

    def __init__(self, candidate: WorkerLink, opponent: WorkerLink) -> None:
        self.sides = [(link, link.waited_s) for link in (candidate, opponent)]
        self.start = time.monotonic()

    def seconds(self) -> float:
        """Spent so far. Raises LinkFailed where the candidate has kept everybody waiting."""
        ours, theirs = (link.waited_s - before for link, before in self.sides)
        if ours - theirs > DAWDLING_S:
            raise LinkFailed(DEADLINE, f"its windows must not take {DAWDLING_S:.0f} s longer than its opponent's, with what is around them")
        return time.monotonic() - self.start - ours + min(ours, theirs)


@contextmanager
def _blaming(opponent: bool) -> Iterator[None]:
    """A fault in here is the candidate's opponent's, or the candidate's."""
    try:
        yield
    except LinkFailed as fault:
        fault.opponent = opponent
        raise
