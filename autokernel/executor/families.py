"""A worker's whole family of processes: list it, freeze it, thaw it, kill it. Needs only /proc and signals.

Orphans are adopted by the family's keeper, so walking down from it finds everybody, whatever session or group they moved to.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


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


def freeze(keeper: int) -> None:
    """Stop every process of the family; looks again until a second listing shows no new one, then waits until all have stopped."""
    stopped: set[int] = set()
    while new := members(keeper) - stopped:
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        stopped |= new
    deadline = time.monotonic() + 1.0  # a process inside a system call stops when it comes back
    while any(_runs(pid) for pid in stopped) and time.monotonic() < deadline:
        time.sleep(0.0002)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "TtZX"


def thaw(keeper: int) -> None:
    """Let the family run again."""
    for pid in members(keeper):
        _signal(pid, signal.SIGCONT)


def kill(keeper: int, patience_s: float = 5.0) -> bool:
    """SIGKILL the family until nobody is left, the keeper last. False if someone would not die (stuck in the driver)."""
    deadline = time.monotonic() + patience_s
    while family := members(keeper):
        for pid in family:
            _signal(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    _signal(keeper, signal.SIGKILL)
    return True
