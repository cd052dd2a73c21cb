"""The trusted process that owns the device: runs the problem's code, draws inputs, reads and compares outputs, holds the clock.

Run as `python -m autokernel.executor.judge FD DEVICE`. Answers one request at a time on the socket FD; the broker owns deadlines and
kills whoever overruns them, which a pending request here sees as the worker's end.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from autokernel.executor import audit, ceilings, control, cuda_driver, wire
from autokernel.executor.bench import Bench
from autokernel.executor.draws import ProblemFailed
from autokernel.executor.faults import DOES_NOT_FIT, IDLE, LinkFailed, out_of_memory
from autokernel.executor.link import WorkerLink
from autokernel.executor.settle import settle_math
from autokernel.executor.stopwatch import Stopwatch
from autokernel.sandbox.limits import limit

PR_SET_PDEATHSIG = 1


class Judge:
    """Dispatches the broker's requests; one problem is open at a time."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.links: dict[str, WorkerLink] = {}
        self.bench: Bench | None = None
        self.stopwatch: Stopwatch | None = None

    def hello(self, *, memory_bytes: int | None) -> dict[str, Any]:
        """Facts about this process's software and device. On the CPU `memory_bytes` is what this process may take, on a GPU what the
        device is to have: this process takes the rest and leaves it unused. None leaves the device as it is."""
        facts: dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads(), "device": str(self.device)}
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            torch.empty(1, device=self.device)
            shape = torch.cuda.get_device_properties(self.device)
            facts |= {"device_name": shape.name, "capability": f"{shape.major}.{shape.minor}", "memory_bytes": shape.total_memory,
                      "l2_bytes": shape.L2_cache_size, "sm_count": shape.multi_processor_count, "cuda": torch.version.cuda}
            if memory_bytes is not None:
                facts["memory_bytes"] = min(memory_bytes, shape.total_memory)
                self._take_all_but(memory_bytes)
        elif memory_bytes is not None:
            limit(resource.RLIMIT_DATA, memory_bytes)
        return facts

    def _take_all_but(self, memory_bytes: int) -> None:
        free, _ = torch.cuda.mem_get_info(self.device)
        if free > memory_bytes:
            cuda_driver.allocate(free - memory_bytes)

    def room(self) -> dict[str, Any]:
        """Bytes of the device that nobody holds, this process keeping none that it does not use; None on the CPU."""
        if self.device.type != "cuda":
            return {"free_bytes": None}
        torch.cuda.empty_cache()
        return {"free_bytes": torch.cuda.mem_get_info(self.device)[0]}

    def open(self, *, source: str, name: str, seed: int, rules: dict[str, Any]) -> dict[str, Any]:
        """Run a problem's code and learn its facts; forgets the problem before."""
        self.close_problem()
        self.bench = Bench(source, name, seed, rules, self.device)
        self.stopwatch = Stopwatch(self.bench)
        return self.bench.facts()

    def close_problem(self) -> None:
        """Drop everything of the open problem."""
        self.bench = self.stopwatch = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def attach(self, fd: int, *, worker: str, pid: int, keeper: int) -> dict[str, Any]:
        """Take over a worker's socket."""
        self.links[worker] = WorkerLink(socket.socket(fileno=fd), pid, keeper, self.device)
        return {}

    def probe(self, *, worker: str) -> dict[str, Any]:
        """Whether memory can be lent to this worker and read from it."""
        self.links[worker].probe()
        return {}

    def detach(self, *, worker: str) -> dict[str, Any]:
        """Let a worker go: copies waited for, mappings closed."""
        link = self.links.pop(worker, None)
        if link is not None:
            link.close()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return {"peak_bytes": link.peak_bytes if link else 0}

    def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """The reply to one request; failures of worker, problem and memory are told apart."""
        order = message.pop("order")
        try:
            if order in ("hello", "room", "open", "detach", "probe"):
                reply: dict[str, Any] = getattr(self, order)(**message)
            elif order == "attach":
                reply = self.attach(fds[0], **message)
            elif order == "ceilings":
                reply = ceilings.measure(self.device)
            else:
                if self.bench is None or self.stopwatch is None:
                    raise ProblemFailed("a problem must be open first")
                for role in ("worker", "candidate", "opponent"):
                    if role in message:
                        message[role] = self.links[message[role]]
                if order == "audit":
                    return {"ok": True, **audit.audit(self.bench, message["kinds"])}
                needed = [link for link in message.values() if isinstance(link, WorkerLink)]
                self._make_room(order, needed)
                if order in control.TIMED:
                    with self._others_stopped(needed):
                        reply = getattr(self.stopwatch, order)(**message)
                else:
                    reply = getattr(self.bench, order)(**message)
            return {"ok": True, **reply}
        except LinkFailed as error:
            return {"ok": False, "who": "worker", "kind": error.kind, "message": error.message, "opponent": error.opponent}
        except ProblemFailed as error:
            return {"ok": False, "who": "problem", "kind": "failed", "message": str(error)}
        except Exception as error:  # the problem's own code may raise anything
            if out_of_memory(error):
                gc.collect()
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()
                return {"ok": False, "who": "problem", "kind": DOES_NOT_FIT, "message": self._what_is_needed(error)}
            return {"ok": False, "who": "problem", "kind": "failed", "message": f"{type(error).__name__}: {error}"}

    def _what_is_needed(self, error: Exception) -> str:
        said = (str(error).splitlines() or ["out of memory"])[0]
        if self.bench is None:
            return said
        return (f"{said} (a call's inputs take {self.bench.input_bytes / 1e9:.3g} GB, its outputs {self.bench.output_bytes / 1e9:.3g} GB, "
                "and float64 answers twice that)")

    @contextmanager
    def _others_stopped(self, needed: list[WorkerLink]) -> Iterator[None]:
        """With every family stopped that is not timed: an incumbent of the search could work on beside whoever follows it."""
        idle = [link for link in self.links.values() if link not in needed]
        try:
            for link in idle:
                with _blaming_idle():
                    link.freeze()
            yield
        finally:
            restless = [fault for link in idle if (fault := _let_run(link)) is not None]
        if restless:
            raise restless[0]

    def _make_room(self, order: str, needed: list[WorkerLink]) -> None:
        """Before a judged call on a large problem, idle workers give their memory back: the float64 oracle needs it."""
        if order == "call" and self.bench is not None and self.bench.large and self.device.type == "cuda":
            for link in self.links.values():
                if link not in needed:
                    try:
                        link.release()
                    except LinkFailed:
                        continue  # a baseline that died says so when it is asked for itself

    def serve(self, sock: socket.socket) -> None:
        """Answer until the broker closes the socket."""
        while True:
            message, fds = control.receive(sock)
            control.send(sock, self.answer(message, fds))


@contextmanager
def _blaming_idle() -> Iterator[None]:
    """A fault in here is that of a worker nobody asked for anything."""
    try:
        yield
    except LinkFailed as fault:
        fault.kind = IDLE
        raise


def _let_run(link: WorkerLink) -> LinkFailed | None:
    """Let an idle worker run again; the fault, where it had run meanwhile."""
    try:
        with _blaming_idle():
            link.thaw()
    except LinkFailed as fault:
        return fault
    return None


def main() -> None:
    """Serve the broker on the inherited socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settle_math()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        Judge(sys.argv[2]).serve(socket.socket(fileno=int(sys.argv[1])))
    except wire.WireClosed:
        return


if __name__ == "__main__":
    main()
