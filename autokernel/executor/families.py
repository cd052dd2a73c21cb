"""A worker's whole family of processes: list it, stop it and prove that it stood still, let it run, kill it.

Orphans are adopted by the family's keeper, so walking down from it finds everybody, whatever session or group they moved to. A family
in a control group is frozen by the kernel; without one every process is sent SIGSTOP, and hostile ones can wake each other: so who
does not stop, or has run when it is woken, is found out and named.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from autokernel.sandbox import cgroups

PATIENCE_S = 3.0  # for a process inside a system call to stop when it comes back
ROUNDS = 200  # a chain of forks shows new processes in every one


class Restless(Exception):
    """Somebody of the family ran while it should have stood still."""


@dataclass(frozen=True)
class Still:
    """A family that has been stopped: by its control group, or each process by a signal, with what each thread had done by then."""

    freezer: cgroups.Freezer | None = None
    work: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)  # by process and thread


def members(keeper: int) -> set[int]:
    """Pids of everybody below the keeper, as /proc shows them now."""
    found: set[int] = set()
    stack = [keeper]
    while stack:
        pid = stack.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                children = [int(child) for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
                stack.extend(child for child in children if child not in found)
                found.update(children)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
    return found


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended by itself


def freeze(keeper: int, *, by_signals: bool = False) -> Still:
    """Stop everybody of the family, the keeper too. Raises Restless where it cannot be stopped; it runs again then.

    `by_signals` does without the control group.
    """
    freezer = None if by_signals else cgroups.freezer_of(keeper)
    if freezer is None:
        return _stop(keeper)
    if not freezer.freeze(PATIENCE_S):
        freezer.thaw()
        raise Restless(f"it did not stand still within {PATIENCE_S:g} s of being frozen")
    return Still(freezer)


def _stop(keeper: int) -> Still:
    """SIGSTOP to everybody until a listing shows no new process, none that runs, and no thread that did anything since the last one."""
    until = time.monotonic() + PATIENCE_S
    stopped: set[int] = set()
    before: dict[tuple[int, int], tuple[str, ...]] | None = None
    for _ in range(ROUNDS):
        family = members(keeper) | {keeper}
        running = {pid for pid in family if _runs(pid)}
        for pid in (family - stopped) | running:
            _signal(pid, signal.SIGSTOP)
        work = _work(family)
        if family <= stopped and not running and work == before:
            return Still(None, work)
        before, stopped = work, stopped | family
        if time.monotonic() > until:
            break
        if running:
            time.sleep(0.0002)
    wake(keeper)
    raise Restless("it did not stand still when it was stopped: new processes, or stopped ones that ran on")


def _runs(pid: int) -> bool:
    """Whether any thread of the process is not stopped or dead."""
    try:
        stats = [Path(f"/proc/{pid}/task/{task}/stat").read_text() for task in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(stat.rpartition(")")[2].split()[0] not in "TtZX" for stat in stats)


def lives(pid: int) -> bool:
    """Whether the process is there and neither dead nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _work(family: set[int]) -> dict[tuple[int, int], tuple[str, ...]]:
    """What each thread has done so far: ns on a processor and times it was put on one, or switches where that is not counted."""
    found: dict[tuple[int, int], tuple[str, ...]] = {}
    for pid in family:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                place = Path(f"/proc/{pid}/task/{task}")
                try:
                    time_ns, _, slices = (place / "schedstat").read_text().split()
                    found[pid, int(task)] = (time_ns, slices)
                except FileNotFoundError:  # a kernel without these figures
                    found[pid, int(task)] = tuple(line for line in (place / "status").read_text().splitlines() if "ctxt_switches" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def thaw(keeper: int, still: Still) -> float:
    """Let the family run again; the time.perf_counter() at which it stood still for the last time, before anybody of it can have run.

    Raises Restless, after it runs, where somebody has run since it was stopped.
    """
    before = time.perf_counter()
    if still.freezer is not None:
        try:
            held = still.freezer.holds()
            before = time.perf_counter()
            still.freezer.thaw()
        except OSError:
            return before  # the family was killed meanwhile, and its group is gone; whoever asks it next is told so
        if not held:
            raise Restless("its control group was not frozen any more when it was to be let go")
        return before
    if not lives(keeper):
        return before
    family = members(keeper) | {keeper}
    new = family - {pid for pid, _ in still.work}
    running = {pid for pid in family if _runs(pid)}
    ran = {pid for (pid, task), done in _work(family).items() if still.work.get((pid, task)) != done}
    before = time.perf_counter()
    wake(keeper)
    if new or running or ran:
        what = "processes appeared" if new else "stopped processes were woken" if running else "a stopped process did work"
        raise Restless(f"it was to stand still while the other side was timed, and {what}")
    return before


def wake(keeper: int) -> None:
    """SIGCONT to everybody of the family."""
    for pid in members(keeper) | {keeper}:
        _signal(pid, signal.SIGCONT)


def kill(keeper: int, patience_s: float = 5.0) -> bool:
    """SIGKILL the family until nobody is left, the keeper last. False if someone would not die (stuck in the driver)."""
    deadline = time.monotonic() + patience_s
    freezer = cgroups.freezer_of(keeper)
    if freezer is not None:
        try:
            freezer.thaw()  # the frozen do not die
        except FileNotFoundError:
            pass  # the group went with its last process
    while family := members(keeper):
        for pid in family:
            _signal(pid, signal.SIGKILL)
        _signal(keeper, signal.SIGCONT)  # who is stopped reaps nobody
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    _signal(keeper, signal.SIGKILL)
    while lives(keeper):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0005)
    return True
