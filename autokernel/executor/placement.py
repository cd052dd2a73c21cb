"""Which processor each thread of a worker runs on while it is timed on the CPU. Both sides of a comparison are placed alike.

A team of threads that is woken all at once can be put on one processor with another idle beside it; while one of them waits for the
others by spinning, a call then takes several times as long, at random. So the threads are spread from outside before each window.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Placement:
    """The threads of one worker's process, over the processors that it was given."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.cpus: list[int] = []
        with contextlib.suppress(ProcessLookupError):  # it ended before it was taken over, which its first request will say
            self.cpus = sorted(os.sched_getaffinity(pid))
        self._placed: dict[int, int] = {}

    def spread(self) -> None:
        """A processor for each thread, those that have run the longest first, so that sleepers share with somebody."""
        if not self.cpus:
            return
        threads = sorted(self._threads(), key=lambda thread: -thread[1])
        wanted = {thread: self.cpus[place % len(self.cpus)] for place, (thread, _) in enumerate(threads)}
        for thread, cpu in wanted.items():
            if self._placed.get(thread) != cpu:
                _allow(thread, {cpu})
        self._placed = wanted

    def release_first(self) -> None:
        """Let the process's first thread go where it likes once it runs, so that threads which it starts are free too."""
        _allow(self.pid, set(self.cpus))
        self._placed.pop(self.pid, None)

    def _threads(self) -> list[tuple[int, int]]:
        """Each thread with the ns that it has run."""
        found = []
        with contextlib.suppress(OSError):  # it ended while we looked; whoever asks it next is told so
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                found.append((int(thread), _ran(self.pid, thread)))
        return found


def _ran(pid: int, thread: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
    except OSError:  # it ended, or a kernel that does not count
        return 0


def _allow(thread: int, cpus: set[int]) -> None:
    with contextlib.suppress(OSError):  # it ended, or its control group has other processors: then it stays where it is
        os.sched_setaffinity(thread, cpus)
