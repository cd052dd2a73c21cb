"""Forks workers fast: a process that has imported torch but never touched CUDA and never run a parallel region.

Run as `python -m autokernel.executor.zygote FD`. Each request on the socket FD carries two descriptors: the worker's end of
its judge socket and the write end of its text pipe. A keeper stands between zygote and worker: it adopts whatever the worker's
children leave behind, so that the whole family can be listed, frozen and killed.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from autokernel.sandbox import limits, namespaces, seccomp
from autokernel.sandbox.view import View

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SPARE_CORES = 6  # from this many on, importing beside a measurement does not disturb it
FIRST_FD, LAST_FD = 3, 4096  # beside standard input and output; what a zygote has open beyond is not a candidate's


class Filters:
    """The system-call filters of this zygote, made once: with and without a free choice of processors."""

    def __init__(self) -> None:
        self.why_not = ""
        self._made: dict[bool, seccomp.Filter] = {}
        try:
            self._made = {pin: seccomp.Filter(pin=pin) for pin in (False, True)}
        except seccomp.NoSeccomp as error:
            self.why_not = str(error)

    def load(self, *, pin: bool) -> None:
        """Into this process. Raises NoSeccomp."""
        if not self._made:
            raise seccomp.NoSeccomp(self.why_not)
        self._made[pin].load()


def keep(fds: list[int], report: int, request: dict[str, Any], filters: Filters) -> None:
    """In the keeper: join the family's control groups, start the worker, say its pid, adopt and reap until nobody is left."""
    libc = ctypes.CDLL(None)
    os.setsid()
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        for entry in request["groups"]:
            Path(entry).write_text("0")
        pid = _start_in_sandbox(fds, request, filters) if request["sandbox"] else _fork_worker(fds, request, filters)
    except (namespaces.SandboxFailed, OSError) as error:
        os.write(fds[1], f"sandbox: {error}\n".encode())
        os._exit(71)
    os.write(report, str(pid).encode())
    os.close(report)
    for fd in fds:
        os.close(fd)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            os._exit(0)


def _fork_worker(fds: list[int], request: dict[str, Any], filters: Filters) -> int:
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.setpgid(0, 0)
        from autokernel.executor import worker
        try:
            _close_all_but(fds)
            limits.limit_worker(on_cuda=request["device"] != "cpu")
            if request["cpus"]:
                os.sched_setaffinity(0, request["cpus"])
            if request["seccomp"]:
                filters.load(pin=request["pin"])
            worker.main(socket.socket(fileno=fds[0]), fds[1], request["device"], Path(request["home"]))
        except BaseException:  # the text pipe is all that tells of it: this process ends without Python's own epilogue
            os.dup2(fds[1], 2)
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(0)
    return pid


def _close_all_but(fds: list[int]) -> None:
    edges = [FIRST_FD - 1, *sorted(fds), LAST_FD]
    for before, after in itertools.pairwise(edges):
        os.closerange(before + 1, after)


def _start_in_sandbox(fds: list[int], request: dict[str, Any], filters: Filters) -> int:
    """Fork the namespaces' first process, which shuts itself in, forks the worker and ends when that ends; the worker's pid out here."""
    namespaces.leave_namespaces()
    ready, done = os.pipe()
    first = os.fork()
    if first == 0:
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            os.close(ready)
            namespaces.shut_in(View.from_json(request["view"]))
            child = _fork_worker(fds, request, filters)
            os.write(done, b"up")
            os.close(done)
            for fd in fds:
                os.close(fd)
            while os.wait()[0] != child:
                pass  # an orphan of the worker's was reaped
        except namespaces.SandboxFailed as error:
            os.write(done, f"{error}".encode()[:400])
        finally:
            os._exit(0)  # and with it everybody in the namespaces
    os.close(done)
    said = os.read(ready, 512)
    os.close(ready)
    if said != b"up":
        raise namespaces.SandboxFailed(said.decode(errors="replace") or "its first process died")
    return int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])


def hash_triton() -> None:
    """The hash of Triton's own files, half a second that every process's first kernel takes otherwise."""
    try:
        from triton.runtime.cache import triton_key
    except ImportError:
        return
    triton_key()


def import_triton() -> None:
    """What Triton imports at a process's first kernel, 0.2 s."""
    for name in ("compiler.code_generator", "tools.tensor_descriptor", "experimental.gluon", "experimental.gluon.nvidia.hopper"):
        with suppress(ImportError):  # modules of some versions
            importlib.import_module(f"triton.{name}")


def import_shapes() -> None:
    """What torch imports when it first needs an output's layout on meta tensors (executor/ahead.py), a second or two."""
    import torch.fx.experimental.symbolic_shapes  # noqa: F401


LEISURE = (hash_triton, import_triton, import_shapes)


def serve(control: socket.socket, filters: Filters, leisure: Sequence[Callable[[], None]]) -> None:
    """Fork a worker for each request until the broker closes the socket. `leisure` is done once a first worker is up, one at a time
    where nobody waits: later workers are born with it."""
    waiting, forked = [*leisure], False
    while True:
        while forked and waiting and not select.select([control], [], [], 0)[0]:
            with suppress(Exception):  # it only saves time
                waiting.pop(0)()
        message, fds, _, _ = socket.recv_fds(control, 65536, 2)
        if not message:
            return
        request = json.loads(message)
        read_end, report = os.pipe()
        keeper = os.fork()
        if keeper == 0:
            try:
                control.close()
                os.close(read_end)
                keep(list(fds), report, request, filters)
            finally:
                os._exit(70)
        os.close(report)
        for fd in fds:
            os.close(fd)
        pid = int(os.read(read_end, 32) or b"0")
        os.close(read_end)
        control.send(json.dumps({"keeper": keeper, "worker": pid}).encode())
        forked = True


def main() -> None:
    """Import what every worker needs, then serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the broker's to handle
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    control = socket.socket(fileno=int(sys.argv[1]))
    import torch

    from autokernel.executor.settle import settle_math

    settle_math()
    try:
        import triton  # noqa: F401
    except ImportError:
        pass  # builders say so where a candidate needs it
    if os.environ.get("AUTOKERNEL_WARM_COMPILE"):
        import torch._inductor.compile_fx  # noqa: F401  imports only; compiling happens in the workers
    import autokernel.executor.worker  # noqa: F401
    filters = Filters()
    control.send(json.dumps({"seccomp": filters.why_not}).encode())
    serve(control, filters, LEISURE if sys.argv[2] != "cpu" and len(os.sched_getaffinity(0)) >= SPARE_CORES else ())


if __name__ == "__main__":
    main()
