"""A trusted process of ours that serves on a socket: judge or zygote."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any


class Service:
    """`python -m MODULE FD DEVICE`, started now with `env` as its whole environment; its text goes to our stderr."""

    def __init__(self, module: str, device: str, env: dict[str, str], timeout_s: float) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(timeout_s)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno()), device], pass_fds=[theirs.fileno()], env=env,
            stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno() if _has_fd(sys.stderr) else subprocess.DEVNULL)
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
