"""What one process of a worker or a compiler may use at most (setrlimit). Whole families are limited by control groups, where there are."""

from __future__ import annotations

import os
import resource
from pathlib import Path

FILE_BYTES = 2 << 30  # largest file; a worker's folders hold as much altogether
OPEN_FILES = 4096
MEMORY_SHARE = 0.9  # of the machine's: private memory of one process without a device
SPARE_PROCESSES = 2048  # beside those that live when the limit is set: it counts all of a user's


def limit_worker(*, on_cuda: bool) -> None:
    """Limit this process and all that it starts. Memory is left alone on CUDA, whose driver reserves terabytes of addresses."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    limit(resource.RLIMIT_NPROC, _threads() + SPARE_PROCESSES)
    if not on_cuda:
        limit(resource.RLIMIT_DATA, int(machine * MEMORY_SHARE))


def limit(which: int, most: int) -> None:
    """Both the soft and the hard limit, never above what they are."""
    hard = resource.getrlimit(which)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))


def _threads() -> int:
    """Of all processes of this machine."""
    return int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
