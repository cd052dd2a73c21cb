"""Where workers come from: the zygote that forks them, the sandbox they are born in, the file that each is told to import.

The broker's side; no torch here.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autokernel import builders
from autokernel.builders import light_headers
from autokernel.durable import storage_errors
from autokernel.errors import InternalError
from autokernel.executor import families, wire
from autokernel.executor.faults import CONTRACT, DEADLINE, DIED, PROTOCOL, RAISED, WorkerFault
from autokernel.executor.handle import WorkerHandle
from autokernel.executor.harvest import TooMuch, harvest
from autokernel.executor.service import Service
from autokernel.executor.text_pipe import TextPipe
from autokernel.sandbox import cgroups, environment, view

JUDGE_TRITON = "judge-triton"  # the judge's Triton cache in the store
MOST_SENT_BYTES = 64 << 20  # of a cache to a worker; what is left out it makes again
START_S = 180.0  # for a process to import torch and make a context on a slow machine
COMPILER_ENV = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # a pool of compile processes costs more than it saves on one problem


LAYERS = ("namespaces", "hiding", "seccomp", "groups")


@dataclass(frozen=True)
class Layers:
    """Which layers workers are born into. Limits, a clean environment and a private home are always on."""

    namespaces: bool = True
    hiding: bool = True  # of files, in the namespaces
    seccomp: bool = True
    groups: bool = True
    why_not: dict[str, str] = field(default_factory=dict, compare=False)  # reasons of those that are off

    @property
    def summary(self) -> str:
        """For records, e.g. "namespaces, hiding, seccomp, groups, limits", what is missing with its reason behind."""
        on = [name for name in LAYERS if getattr(self, name)] + ["limits"]
        off = [f"no {name} ({why})" for name, why in self.why_not.items()]
        return "; ".join([", ".join(on) if self.namespaces else f"none but {', '.join(on)}", *off])


class Nursery:
    """Starts workers for one device and has them import candidates. `folder` holds a folder for each, `store` outlives this process."""

    def __init__(self, device: str, store: Path, folder: Path, cpus: tuple[int, ...], *, compiles: bool) -> None:
        self.device, self.store, self.folder, self.cpus, self.compiles = device, store, folder, cpus, compiles
        self.workers: dict[str, WorkerHandle] = {}
        self.layers = Layers(namespaces=False, hiding=False, seccomp=False, groups=False)  # until a first worker came up in them
        self.no_seccomp = ""  # why the zygote could make no filter
        self._zygote: Service | None = None
        self._counter = 0
        self._spawning = threading.Lock()
        self._readable = view.readable()

    def open(self) -> None:
        """Start the zygote. Raises InternalError where it does not come up."""
        env = environment.allowed(os.environ) | {"HOME": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", "CUDA_MODULE_LOADING": "LAZY"}
        if self.device == "cpu":  # on CUDA importing the compiler makes a context, which a zygote must not have
            env |= {"CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1", "AUTOKERNEL_WARM_COMPILE": "1" if self.compiles else ""}
        cgroups.sweep()
        self._zygote = Service("autokernel.executor.zygote", self.device, env, START_S)
        hello = self._zygote.sock.recv(4096)
        if not hello:
            raise InternalError("the zygote did not start; run with AUTOKERNEL_DEBUG=1 and see its traceback above.")
        self.no_seccomp = str(json.loads(hello)["seccomp"])

    def settle(self, try_worker: Callable[[], dict[str, str]]) -> dict[str, str]:
        """Find the layers that work here: all of them, else fewer, until `try_worker` comes through; records say which are off, and why.

        `try_worker` starts a worker and uses it as workers are used, and gives the control groups that it had to do without, with the
        reasons; so does this. It raises InternalError or WorkerFault where that does not work.
        """
        why = {"seccomp": self.no_seccomp} if self.no_seccomp else {}
        whole = Layers(seccomp=not self.no_seccomp)
        open_files, bare = replace(whole, hiding=False), replace(whole, namespaces=False, hiding=False)
        tries = (whole, replace(whole, groups=False), replace(whole, seccomp=False), open_files,
                 replace(open_files, seccomp=False, groups=False), bare, replace(bare, seccomp=False, groups=False))
        for layers in dict.fromkeys(tries):
            self.layers = layers
            try:
                without = try_worker()
            except (InternalError, WorkerFault) as error:
                why = dict.fromkeys(LAYERS, str(error)) | why if layers is whole else why
                continue
            off = {name: reason for name, reason in why.items() if not getattr(layers, name)}
            if layers.groups:
                for reason in dict.fromkeys(without.values()):
                    off["group for " + ", ".join(name for name in without if without[name] == reason)] = reason
            self.layers = replace(layers, groups=layers.groups and len(without) < len(cgroups.WANTED), why_not=off)
            return without
        self.layers = replace(self.layers, why_not=why)
        return {}

    def close(self) -> None:
        """End the zygote; workers must have been stopped."""
        if self._zygote is not None:
            self._zygote.end()
            self._zygote = None

    def spawn(self, *, on_device: bool = True, trusted: bool = False, writable: Sequence[Path] = (), copied: Sequence[Path] = (),
              caches: Sequence[Path] = (), cpus: tuple[int, ...] = ()) -> WorkerHandle:
        """A new worker process, waiting for orders, on `cpus` alone if some are named. Without the device for workers that only import
        (and so compile).

        In the sandbox unless its text is `trusted`: there it has private folders in memory at the places of `writable` and `copied`,
        filled with what lies there, and of `caches`, which `load` fills; what it has added to `writable` and `caches` is taken over when
        it is stopped.
        """
        with self._spawning:  # candidates are compiled ahead from another thread
            return self._spawn(on_device, trusted, writable, copied, caches, cpus or self.cpus)

    def is_anyones(self, folder: Path) -> bool:
        """Whether a worker can make a folder of its own at this place, whatever it was born with."""
        return not self.layers.namespaces or view.in_private_memory(str(folder.resolve()), self._readable)

    def _spawn(self, on_device: bool, trusted: bool, writable: Sequence[Path], copied: Sequence[Path],
               caches: Sequence[Path], cpus: tuple[int, ...]) -> WorkerHandle:
        if self._zygote is None:
            raise InternalError("the zygote is not running; use Executor as a context manager.")
        self._counter += 1
        name = f"w{self._counter}"
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        shut_in = self.layers.namespaces and not trusted
        for path in (*writable, *copied, *caches):
            path.mkdir(parents=True, exist_ok=True)
        self._keep_living(writable)
        own, filled = [[str(path.resolve()) for path in paths] for paths in ((folder, *caches), (*writable, *copied))]
        seen = view.View(self._readable, tuple(own), tuple(filled), device=on_device and self.device != "cpu",
                         hiding=self.layers.hiding) if shut_in else view.View()
        group = cgroups.make(f"{name}-{folder.name[-8:]}", cpus) if self.layers.groups else cgroups.Group()
        ours, theirs = socket.socketpair()
        text = TextPipe()
        request = {
            "cpus": cpus, "device": self.device if on_device else "cpu", "home": str(folder.resolve()), "sandbox": shut_in,
            "view": seen.to_json(), "groups": group.entries, "seccomp": self.layers.seccomp,
            "pin": "cpuset" not in group.folders and len(cpus) < (os.cpu_count() or 1),
        }
        reply = self._ask_zygote(request, theirs, text)
        if not reply.get("worker"):
            ours.close()
            group.remove()
            said = text.text(0.5).strip()[-300:]
            raise InternalError(f"no worker could be started; run again with --debug to see more. {said}")
        worker = WorkerHandle(name, reply["keeper"], reply["worker"], ours, text, folder, group, shut_in=shut_in)
        worker.keep([*writable, *caches])
        self.workers[name] = worker
        return worker

    def _ask_zygote(self, request: dict[str, Any], theirs: socket.socket, text: TextPipe) -> dict[str, Any]:
        assert self._zygote is not None
        socket.send_fds(self._zygote.sock, [json.dumps(request).encode()], [theirs.fileno(), text.write_end])
        reply: dict[str, Any] = json.loads(self._zygote.sock.recv(4096) or b"{}")
        theirs.close()
        text.close_write_end()
        return reply

    def _keep_living(self, folders: Sequence[Path]) -> None:
        """Copy what living workers have added to these folders so far."""
        for worker in list(self.workers.values()):
            if {folder.resolve() for folder in folders} & set(worker.kept):
                self._keep(worker)

    def _keep(self, worker: WorkerHandle) -> None:
        """Copy what a living worker added to the folders that outlive it; caches only, so what cannot be had is made again."""
        try:
            for path in worker.kept if worker.loaded else ():
                harvest(worker.pid, path, path)
        except (OSError, TooMuch):
            return

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

    def load(self, worker: WorkerHandle, source: str, builder: str, *, artifact: Path | None = None, class_name: str = "ModelNew",
             compiled: bool = False, extensions: Path | None = None, kernels: Path | None = None, threads: int = 0,
             capability: str = "", deadline_s: float) -> None:
        """Have a worker import a candidate's file. Raises WorkerFault; a package that is missing is marked so.

        `extensions`: where load_inline builds lie. `kernels`: Triton's cache, shared by the processes of one candidate's evaluation.
        `threads`: torch's intra-op threads, 0 leaves its default. `capability`: of the GPU that load_inline builds for, which a worker
        without the device cannot ask.
        """
        home = worker.folder.resolve()
        kernels = (kernels or home / "triton").resolve()
        env = {"TRITON_CACHE_DIR": str(kernels), "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
               "TORCH_EXTENSIONS_DIR": str((extensions or home / "extensions").resolve()), "TMPDIR": str(home)}
        if compiled:
            env["TORCHINDUCTOR_CACHE_DIR"] = str(self.store / "baseline-compile")
            env["TRITON_CACHE_DIR"] = str(self.store / "baseline-triton")
            env |= COMPILER_ENV
        env |= builders.get(builder).worker_env(self.device)
        if extensions is not None:
            env |= light_headers.search_path(extensions)
        if capability:  # as torch has it of itself: what builds, runs or judges must agree, or it is compiled again
            env["TORCH_CUDA_ARCH_LIST"] = f"{capability}+PTX"
        files = {str(home / "candidate.py"): source.encode(), **self._driver_files(kernels)}
        if worker.shut_in and kernels in worker.kept:
            self._keep_living([kernels])
            files |= _contents(kernels)
        if artifact is not None:  # a copy of its own: of the store it sees nothing
            files[str(home / artifact.name)] = artifact.read_bytes()
        orders = {"path": str(home / "candidate.py"), "files": files, "builder": builder, "class_name": class_name, "env": env,
                  "artifact": str(home / artifact.name) if artifact else "", "compile": compiled, "threads": threads}
        reply = self._load_reply(worker, orders, deadline_s)
        if reply.status == wire.OK:
            worker.loaded = True
            if extensions is not None and extensions.resolve() in worker.kept:
                self._keep_build(worker, extensions)
            return
        what = wire.CODE_TEXT[reply.code]
        if reply.status == wire.BROKE_CONTRACT:
            raise WorkerFault(CONTRACT, what)
        raise WorkerFault(RAISED, what or "importing it raised an exception", missing=reply.code == wire.MISSING_PACKAGE)

    def compile_ahead(self, worker: WorkerHandle, terms: dict[str, Any], deadline_s: float) -> bool:
        """Have a loaded worker without the device compile its candidate's Triton kernels (executor/ahead.py); whether it could."""
        try:
            worker.sock.settimeout(deadline_s)
            wire.send_request(worker.sock, wire.Request(wire.AHEAD, 0, 3, 0, pickle.dumps(terms)))
            return wire.receive_reply(worker.sock, 3).status == wire.OK
        except (wire.WireClosed, wire.WireBroken, TimeoutError):
            return False

    def _keep_build(self, worker: WorkerHandle, folder: Path) -> None:
        try:
            harvest(worker.pid, folder.resolve(), folder, replace=True)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                with storage_errors("keep a build in", folder):
                    raise
            if families.lives(worker.pid):
                raise WorkerFault(CONTRACT, f"what it built cannot be kept ({error.strerror}); it must leave plain files") from error
            raise WorkerFault(DIED, "its process ended when it had been imported; it must not exit or crash") from error
        except TooMuch as error:
            raise WorkerFault(CONTRACT, f"its build is too large: {error}") from error

    def _driver_files(self, cache: Path) -> dict[str, bytes]:
        """Triton's own driver module, built by the judge, for a candidate's cache: no kernel, but half a second of gcc."""
        return {str(cache / built.parent.name / file.name): file.read_bytes()
                for built in (self.store / JUDGE_TRITON).glob("*/cuda_utils*") for file in built.parent.iterdir() if file.is_file()}

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
        try:
            self._keep(worker)  # before the socket is closed: that ends the process, and its files with it
        finally:
            if not worker.attached:
                worker.sock.close()
            families.kill(worker.keeper)
            worker.group.remove()
            worker.text.text()
            shutil.rmtree(worker.folder, ignore_errors=True)


def _contents(folder: Path) -> dict[str, bytes]:
    """The files of a cache by absolute path, as many as a worker is sent."""
    found: dict[str, bytes] = {}
    room = MOST_SENT_BYTES
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (room := room - path.stat().st_size) >= 0:
            found[str(path)] = path.read_bytes()
    return found
