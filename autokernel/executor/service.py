"""A trusted process of ours that serves on a socket: judge or zygote."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

# glibc gives large blocks back at once, and the first touch of a page can take longer than the work done on it: both sides of a
# comparison, and the judge, keep what they have had.
KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}


class Service:
    """`python -m MODULE FD DEVICE`, started now with `env` and a few of ours as its whole environment; its text goes to our stderr."""

    def __init__(self, module: str, device: str, env: dict[str, str], timeout_s: float) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(timeout_s)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno()), device], pass_fds=[theirs.fileno()],
            env={**KEEP_FREED_MEMORY, **env}, stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno() if _has_fd(sys.stderr) else subprocess.DEVNULL)
        theirs.close()

    def end(self) -> None:
        """Hang up and kill it."""
        self.sock.close()
        self.process.kill()
        self.process.wait()


def _has_fd(stream: Any) -> bool:
    try:
        stream.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True
