"""Where workers come from: the zygote that forks them, the sandbox they are born in, the file that each is told to import.

The broker's side; no torch here.
"""

from __future__ import annotations

import json
import pickle
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import autokernel
from autokernel import builders
from autokernel.errors import InternalError
from autokernel.executor import families, wire
from autokernel.executor.faults import CONTRACT, DEADLINE, DIED, PROTOCOL, RAISED, WorkerFault
from autokernel.executor.service import Service
from autokernel.executor.text_pipe import TextPipe

JUDGE_TRITON = "judge-triton"  # the judge's Triton cache in the store
SPARE_CORES = 6  # from this many on, importing beside a measurement does not disturb it
START_S = 180.0  # for a process to import torch and make a context on a slow machine
_COMPILER_ENV = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # a pool of compile processes costs more than it saves on one problem


class WorkerHandle:
    """One worker process as the broker sees it."""

    def __init__(self, name: str, keeper: int, pid: int, sock: socket.socket, text: TextPipe, folder: Path) -> None:
        self.name, self.keeper, self.pid, self.sock, self.text, self.folder = name, keeper, pid, sock, text, folder
        self.attached = False
        self.started = False


def _interpreter_folders() -> list[str]:
    """Folders that a worker imports from: the interpreter's, its packages, our own source."""
    own = [str(Path(path).resolve().parent) for path in autokernel.__path__]
    found = {str(Path(path).resolve()) for path in (sys.prefix, sys.base_prefix, *sys.path, *own) if path}
    return [path for path in sorted(found) if Path(path).is_dir()]


class Nursery:
    """Starts workers for one device and has them import candidates. `folder` holds a folder for each, `store` outlives this process."""

    def __init__(self, device: str, store: Path, folder: Path, cpus: tuple[int, ...], *, compiles: bool) -> None:
        self.device, self.store, self.folder, self.cpus, self.compiles = device, store, folder, cpus, compiles
        self.workers: dict[str, WorkerHandle] = {}
        self.sandboxed = False  # set when a first worker came up in the sandbox
        self._spare: WorkerHandle | None = None  # a compiler's worker, warming or warm
        self._zygote: Service | None = None
        self._counter = 0

    def open(self) -> None:
        """Start the zygote. Raises InternalError where it does not come up."""
        env = {"PYTHONDONTWRITEBYTECODE": "1", "CUDA_MODULE_LOADING": "LAZY"}
        if self.device == "cpu":  # on CUDA importing the compiler makes a context, which a zygote must not have
            env |= {"CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1", "AUTOKERNEL_WARM_COMPILE": "1" if self.compiles else ""}
        self._zygote = Service("autokernel.executor.zygote", self.device, env, START_S)
        if not self._zygote.sock.recv(16):
            raise InternalError("the zygote did not start; run with AUTOKERNEL_DEBUG=1 and see its traceback above.")

    def close(self) -> None:
        """End the zygote; workers must have been stopped."""
        if self._zygote is not None:
            self._zygote.end()
            self._zygote = None

    def spawn(self, *, on_device: bool = True, trusted: bool = False, writable: Sequence[Path] = (),
              copied: Sequence[Path] = ()) -> WorkerHandle:
        """A new worker process, waiting for orders. Without the device for workers that only import (and so compile).

        In the sandbox unless its text is `trusted`: there it may write to its own folder and to `writable`, and sees private copies of
        the folders `copied`.
        """
        if self._zygote is None:
            raise InternalError("the zygote is not running; use Executor as a context manager.")
        self._counter += 1
        name = f"w{self._counter}"
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        ours, theirs = socket.socketpair()
        text = TextPipe()
        control_sock = self._zygote.sock
        for path in (*writable, *copied):
            path.mkdir(parents=True, exist_ok=True)
        request = json.dumps({
            "cpus": self.cpus, "device": self.device if on_device else "cpu", "sandbox": self.sandboxed and not trusted,
            "readable": [*_interpreter_folders(), str(self.store.resolve())],
            "writable": [str(path) for path in (folder, *writable)], "copied": [str(path) for path in copied],
        }).encode()
        socket.send_fds(control_sock, [request], [theirs.fileno(), text.write_end])
        reply = json.loads(control_sock.recv(4096) or b"{}")
        theirs.close()
        text.close_write_end()
        if not reply.get("worker"):
            ours.close()
            said = text.text(0.5).strip()[-300:]
            raise InternalError(f"no worker could be started; run again with --debug to see more. {said}")
        worker = WorkerHandle(name, reply["keeper"], reply["worker"], ours, text, folder)
        self.workers[name] = worker
        return worker

    def spawn_compiler(self) -> WorkerHandle:
        """A worker for a torch.compile baseline. On CUDA, where cores are many, it has imported the compiler already."""
        worker = self._spare or self.spawn(trusted=True)
        if self._spare is not None and not self._finish_warming(worker):
            worker = self.spawn(trusted=True)
        self._spare = None
        self.warm_spare()
        return worker

    def warm_spare(self) -> None:
        """Have a worker import torch.compile's compiler ahead of its need, where that disturbs no measurement."""
        if self.compiles and self._spare is None and self.device != "cpu" and len(self.cpus) >= SPARE_CORES:
            self._spare = self.spawn(trusted=True)
            wire.send_request(self._spare.sock, wire.Request(wire.WARM, 0, 2, 0, pickle.dumps(_COMPILER_ENV)))

    def await_start(self, worker: WorkerHandle) -> None:
        """Until the worker says that it is up, with the device's context made. That it is not is no candidate's fault."""
        if worker.started:
            return
        try:
            worker.sock.settimeout(START_S)
            wire.receive_reply(worker.sock, 0)
            worker.started = True
        except (wire.WireClosed, wire.WireBroken, TimeoutError) as error:
            said = worker.text.text(0.5).strip()[-400:]
            self.bury(worker)
            message = f"a worker process did not start on {self.device}; check the device with `autokernel doctor`. {said}"
            raise InternalError(message) from error

    def _finish_warming(self, worker: WorkerHandle) -> bool:
        self.await_start(worker)
        try:
            worker.sock.settimeout(START_S)
            return wire.receive_reply(worker.sock, 2).status == wire.OK
        except (wire.WireClosed, wire.WireBroken, TimeoutError):
            self.bury(worker)
            return False

    def load(self, worker: WorkerHandle, source: str, builder: str, *, artifact: Path | None = None, class_name: str = "ModelNew",
             compiled: bool = False, extensions: Path | None = None, kernels: Path | None = None, threads: int = 0,
             deadline_s: float) -> None:
        """Have a worker import a candidate's file. Raises WorkerFault; a package that is missing is marked so.

        `extensions`: where load_inline builds lie. `kernels`: Triton's cache, shared by the processes of one candidate's evaluation.
        `threads`: torch's intra-op threads, 0 leaves its default.
        """
        path = worker.folder / "candidate.py"
        path.write_text(source, encoding="utf-8")
        kernels = kernels or worker.folder / "triton"
        self._seed_triton(kernels)
        env = {"TRITON_CACHE_DIR": str(kernels), "TORCHINDUCTOR_CACHE_DIR": str(worker.folder / "inductor"),
               "TORCH_EXTENSIONS_DIR": str(extensions or worker.folder / "extensions"), "TMPDIR": str(worker.folder)}
        if compiled:
            env["TORCHINDUCTOR_CACHE_DIR"] = str(self.store / "baseline-compile")
            env["TRITON_CACHE_DIR"] = str(self.store / "baseline-triton")
            env |= _COMPILER_ENV
        env |= builders.get(builder).worker_env(self.device)
        orders = {"path": str(path), "builder": builder, "artifact": str(artifact) if artifact else "", "class_name": class_name,
                  "env": env, "compile": compiled, "threads": threads}
        reply = self._load_reply(worker, orders, deadline_s)
        if reply.status == wire.OK:
            return
        what = wire.CODE_TEXT[reply.code]
        if reply.status == wire.BROKE_CONTRACT:
            raise WorkerFault(CONTRACT, what)
        raise WorkerFault(RAISED, what or "importing it raised an exception", missing=reply.code == wire.MISSING_PACKAGE)

    def _seed_triton(self, cache: Path) -> None:
        """Put Triton's own driver module, built by the judge, into a candidate's cache: no kernel, but half a second of gcc."""
        cache.mkdir(parents=True, exist_ok=True)
        if any(cache.iterdir()):
            return
        for built in (self.store / JUDGE_TRITON).glob("*/cuda_utils*"):
            shutil.copytree(built.parent, cache / built.parent.name, dirs_exist_ok=True)

    def _load_reply(self, worker: WorkerHandle, orders: dict[str, Any], deadline_s: float) -> wire.Reply:
        self.await_start(worker)
        worker.sock.settimeout(deadline_s)
        try:
            wire.send_request(worker.sock, wire.Request(wire.LOAD, 0, 1, 0, pickle.dumps(orders)))
            return wire.receive_reply(worker.sock, 1)
        except TimeoutError as error:
            families.kill(worker.keeper)
            raise WorkerFault(DEADLINE, f"importing it took longer than {deadline_s:.0f} s and must take less") from error
        except wire.WireClosed as error:
            raise WorkerFault(DIED, "its process ended while it was imported; it must not exit or crash") from error
        except wire.WireBroken as error:
            raise WorkerFault(PROTOCOL, str(error)) from error

    def bury(self, worker: WorkerHandle) -> None:
        """Kill a worker's whole family and remove its folder; whoever held its memory has let go."""
        self.workers.pop(worker.name, None)
        if worker is self._spare:
            self._spare = None
        if not worker.attached:
            worker.sock.close()
        families.kill(worker.keeper)
        worker.text.text()
        shutil.rmtree(worker.folder, ignore_errors=True)
