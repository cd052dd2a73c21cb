"""The broker's end of the tracing process: started once, asked for one problem after another, restarted when it hangs or dies."""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import autokernel
from autokernel.executor.zygote import SPARE_CORES

TIMEOUT_S = 240.0
CORES = 2  # that it has where there are many, so that it may run beside what is timed


def confined() -> tuple[int, ...]:
    """The processors that the tracing process is confined to; none where there are too few to spare any."""
    cpus = sorted(os.sched_getaffinity(0))
    return tuple(cpus[-CORES:]) if len(cpus) >= SPARE_CORES else ()


class Tracer:
    """Traces problems in a process of its own, so that this one needs no torch and survives what a problem does."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._asking = threading.Lock()

    def trace(self, source: str) -> dict[str, Any]:
        """The trace of a problem's text. What goes wrong is an answer with "error", never an exception."""
        return self._ask("trace", source)

    def seed(self, source: str) -> dict[str, Any]:
        """What torch's compiler writes for a problem: "code" and "arguments", or "error"."""
        return self._ask("seed", source)

    def _ask(self, verb: str, source: str) -> dict[str, Any]:
        with self._asking:  # analyses that were begun ahead are made in another thread
            return self._answer(verb, source)

    def _answer(self, verb: str, source: str) -> dict[str, Any]:
        body = source.encode("utf-8", "surrogatepass")
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(f"{verb} {len(body)}\n".encode() + body)
            process.stdin.flush()
            answer = json.loads(self._reply(process))
        except TimeoutError:
            self.close()
            return {"error": f"tracing took longer than {TIMEOUT_S:.0f} s"}
        except (OSError, ValueError):
            self.close()
            return {"error": "the tracer ended before it answered"}
        return answer if isinstance(answer, dict) else {"error": "the tracer gave no trace"}

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            root = str(Path(autokernel.__path__[0]).parent)  # and no other: beside a source tree may lie files that shadow modules
            path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
            self._process = subprocess.Popen([sys.executable, "-m", "autokernel.proposers.trace"], stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path})
            if cpus := confined():
                with suppress(OSError):  # it has ended already: the first request says so
                    os.sched_setaffinity(self._process.pid, cpus)
        return self._process

    def _reply(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        fd, ends, data = process.stdout.fileno(), time.monotonic() + TIMEOUT_S, b""
        while True:
            head, newline, body = data.partition(b"\n")
            if newline and len(body) >= int(head):
                return body
            if not select.select([fd], [], [], max(ends - time.monotonic(), 0.0))[0]:
                raise TimeoutError
            part = os.read(fd, 1 << 20)
            if not part:
                raise OSError("the tracer closed its output; run autokernel.proposers.trace by hand to see why")
            data += part

    def close(self) -> None:
        """End the process; the next problem starts another."""
        process, self._process = self._process, None
        if process is not None:
            with process:  # closes its pipes and waits
                process.kill()


TRACER = Tracer()
atexit.register(TRACER.close)
"""One for this process: importing torch once serves every problem."""
