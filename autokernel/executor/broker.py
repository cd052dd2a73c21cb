"""The broker's hand: starts judge, zygote and workers, owns every deadline, kills whoever overruns one, restarts the others.

Imports no torch. One Executor serves one device; use it as a context manager.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from autokernel import builders
from autokernel.errors import InternalError, JudgeDied, MissingOnMachine
from autokernel.executor import control, families, wire
from autokernel.executor.faults import ProblemFault, WorkerFault
from autokernel.executor.text_pipe import TextPipe
from autokernel.machine import describe

GRACE_S = 20.0  # for the judge to notice that a worker was killed
JUDGE_TRITON = "judge-triton"
_COMPILER_ENV = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # a pool of compile processes costs more than it saves on one problem
SPARE_CORES = 6  # from this many on, importing beside a measurement does not disturb it
START_S = 180.0  # for judge and zygote to import torch on a slow machine


class WorkerHandle:
    """One worker process as the broker sees it."""

    def __init__(self, name: str, keeper: int, pid: int, sock: socket.socket, text: TextPipe, folder: Path) -> None:
        self.name, self.keeper, self.pid, self.sock, self.text, self.folder = name, keeper, pid, sock, text, folder
        self.attached = False
        self.started = False


class Executor:
    """Runs evaluation work on one device ("cpu", "cuda:0"). `store` keeps builds and baseline caches between runs.

    `seed` makes a session's secret draws repeatable; None takes a fresh secret. `compiles` has workers start with torch.compile
    imported, which saves seconds for each torch.compile baseline. Raises MissingOnMachine where torch is not installed.
    """

    def __init__(self, device: str, store: Path, *, memory_gb: float | None = None, seed: int | None = None,
                 compiles: bool = False) -> None:
        self.device, self.store, self.memory_gb, self.compiles = device, store, memory_gb, compiles
        self.seed = secrets.randbits(62) if seed is None else seed
        self.folder = Path(tempfile.mkdtemp(prefix="autokernel-"))
        self.cpus = tuple(sorted(os.sched_getaffinity(0)))
        self.workers: dict[str, WorkerHandle] = {}
        self.generation = 0  # rises when the judge was restarted and with it everything it held was lost
        self._counter = 0
        self._spare: WorkerHandle | None = None  # a compiler's worker, warming or warm
        self.sandboxed = False  # set when a first worker came up in the sandbox
        self.why_no_sandbox = ""
        self._judge: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._zygote: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._hello: dict[str, Any] = {}
        self._ceilings: dict[str, Any] | None = None

    def __enter__(self) -> Executor:
        if importlib.util.find_spec("torch") is None:
            raise MissingOnMachine("torch is not installed.", hint='Install it: pip install "torch>=2.9,<2.14".')
        self.store.mkdir(parents=True, exist_ok=True)
        self._judge = self._start("autokernel.executor.judge", self._judge_env())  # imports torch while the zygote does
        self._start_zygote()
        self._hello = self._ask("hello", START_S)
        self._probe_sandbox()
        return self

    def _probe_sandbox(self) -> None:
        """Start one worker in the sandbox, device and all; where that fails, records say `sandbox: none`."""
        self.sandboxed = True
        try:
            worker = self.spawn()
            self._await_start(worker)
            self.attach(worker)
            self._ask("probe", START_S, suspects=[worker], worker=worker.name)
            self.stop(worker)
        except (InternalError, WorkerFault) as error:
            self.sandboxed, self.why_no_sandbox = False, str(error)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for worker in list(self.workers.values()):
            self.stop(worker)
        for helper in (self._judge, self._zygote):
            if helper is not None:
                helper[1].close()
                helper[0].kill()
                helper[0].wait()
        self._judge = self._zygote = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, module: str, env: dict[str, str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", module, str(theirs.fileno()), self.device]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                                   stdout=sys.stderr.fileno() if _has_fd(sys.stderr) else subprocess.DEVNULL)
        theirs.close()
        ours.settimeout(START_S)
        return process, ours

    def _start_judge(self) -> None:
        self._judge = self._start("autokernel.executor.judge", self._judge_env())
        self._hello = self._ask("hello", START_S)

    def _judge_env(self) -> dict[str, str]:
        # the judge's idle threads must not spin on the workers' cores; its kernels are compiled once for all runs
        return {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "TRITON_CACHE_DIR": str(self.store / JUDGE_TRITON)}

    def _start_zygote(self) -> None:
        env = {"PYTHONDONTWRITEBYTECODE": "1", "CUDA_MODULE_LOADING": "LAZY"}
        if self.device == "cpu":  # on CUDA importing the compiler makes a context, which a zygote must not have
            env |= {"CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1", "AUTOKERNEL_WARM_COMPILE": "1" if self.compiles else ""}
        self._zygote = self._start("autokernel.executor.zygote", env)
        if not self._zygote[1].recv(16):
            raise InternalError("the zygote did not start.", hint="Run with AUTOKERNEL_DEBUG=1 and see its traceback above.")

    def machine(self) -> dict[str, Any]:
        """Facts about this machine, its software and the device."""
        return {**describe(self._hello, self.device), "sandbox": "namespaces" if self.sandboxed else "none"}

    def ceilings(self) -> dict[str, Any]:
        """Measured copy and GEMM rates of the device, once a session."""
        if self._ceilings is None:
            self._ceilings = self._ask("ceilings", 300.0)
        return self._ceilings

    # --- the judge -------------------------------------------------------------------------------------------------------------

    def _ask(self, order: str, deadline_s: float, *, fds: Sequence[int] = (), suspects: Sequence[WorkerHandle] = (),
             **arguments: Any) -> dict[str, Any]:
        """One request to the judge. `suspects` are killed when the deadline passes; then the judge itself, if it still hangs.

        Raises WorkerFault, ProblemFault, JudgeDied.
        """
        if self._judge is None:
            raise InternalError("the judge is not running.", hint="Use Executor as a context manager.")
        process, sock = self._judge
        overrun = False
        try:
            sock.settimeout(deadline_s)
            control.send(sock, {"order": order, **arguments}, fds)
            try:
                reply, _ = control.receive(sock)
            except TimeoutError:
                overrun = True
                for suspect in suspects:
                    families.kill(suspect.keeper)
                sock.settimeout(GRACE_S if suspects else 0.1)
                reply, _ = control.receive(sock)
        except (wire.WireClosed, TimeoutError) as error:
            self._restart_judge(process, sock)
            if overrun and not suspects:
                raise ProblemFault("reference fails", f"the problem's own code took longer than {deadline_s:.0f} s") from error
            if order == "open":
                raise ProblemFault("reference fails", "the judge's process died while it ran the problem's code") from error
            raise JudgeDied(f"the judge's process died during '{order}'.", hint="Run again with --debug if it happens twice.") from error
        if reply.pop("ok"):
            return reply
        if reply["who"] == "worker":
            if overrun:
                raise WorkerFault("deadline", f"no answer within {deadline_s:.0f} s")
            raise WorkerFault(reply["kind"], reply["message"])
        raise ProblemFault("does not fit" if reply["kind"] == "does not fit" else "reference fails", reply["message"])

    def _restart_judge(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self.generation += 1
        sock.close()
        process.kill()
        process.wait()
        for worker in list(self.workers.values()):  # all were attached to the judge that is gone
            worker.attached = False
            self.stop(worker)
        self._start_judge()

    def open_problem(self, source: str, name: str, rules: dict[str, Any], deadline_s: float) -> dict[str, Any]:
        """Have the judge run a problem's code; its facts. Raises ProblemFault."""
        self._counter += 1
        return self._ask("open", deadline_s, source=source, name=name, seed=self.seed + self._counter, rules=rules)

    def judge(self, order: str, deadline_s: float, workers: dict[str, WorkerHandle], **arguments: Any) -> dict[str, Any]:
        """One request about attached workers, by role. The first of them is killed if the deadline passes."""
        names: dict[str, Any] = {role: worker.name for role, worker in workers.items()}
        return self._ask(order, deadline_s, suspects=list(workers.values())[:1], **names, **arguments)

    # --- workers ---------------------------------------------------------------------------------------------------------------

    def spawn(self, *, on_device: bool = True, trusted: bool = False, writable: Sequence[Path] = (),
              copied: Sequence[Path] = ()) -> WorkerHandle:
        """A new worker process, waiting for orders. Without the device for workers that only import (and so compile).

        In the sandbox unless its text is `trusted`: there it may write to its own folder and to `writable`, and sees private copies of
        the folders `copied`.
        """
        if self._zygote is None:
            raise InternalError("the zygote is not running.", hint="Use Executor as a context manager.")
        self._counter += 1
        name = f"w{self._counter}"
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        ours, theirs = socket.socketpair()
        text = TextPipe()
        control_sock = self._zygote[1]
        for path in (*writable, *copied):
            path.mkdir(parents=True, exist_ok=True)
        request = json.dumps({
            "cpus": self.cpus, "device": self.device if on_device else "cpu", "sandbox": self.sandboxed and not trusted,
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
        """A worker for a torch.compile baseline. On CUDA, where cores are many, the next one imports the compiler ahead of its need."""
        worker = self._spare or self.spawn(trusted=True)
        if self._spare is not None and not self._finish_warming(worker):
            worker = self.spawn(trusted=True)
        self._spare = None
        if self.compiles and self.device != "cpu" and len(self.cpus) >= SPARE_CORES:
            self._spare = self.spawn(trusted=True)
            wire.send_request(self._spare.sock, wire.Request(wire.WARM, 0, 2, 0, pickle.dumps(_COMPILER_ENV)))
        return worker

    def _await_start(self, worker: WorkerHandle) -> None:
        """Until the worker says that it is up, with the device's context made. That it is not is no candidate's fault."""
        if worker.started:
            return
        try:
            worker.sock.settimeout(START_S)
            wire.receive_reply(worker.sock, 0)
            worker.started = True
        except (wire.WireClosed, wire.WireBroken, TimeoutError) as error:
            said = worker.text.text(0.5).strip()[-400:]
            self.stop(worker)
            message = f"a worker process did not start on {self.device}; check the device with `autokernel doctor`. {said}"
            raise InternalError(message) from error

    def _finish_warming(self, worker: WorkerHandle) -> bool:
        self._await_start(worker)
        try:
            worker.sock.settimeout(START_S)
            return wire.receive_reply(worker.sock, 2).status == wire.OK
        except (wire.WireClosed, wire.WireBroken, TimeoutError):
            self.stop(worker)
            return False

    def load(self, worker: WorkerHandle, source: str, builder: str, *, artifact: Path | None = None, class_name: str = "ModelNew",
             compiled: bool = False, extensions: Path | None = None, kernels: Path | None = None, deadline_s: float) -> None:
        """Have a worker import a candidate's file. Raises WorkerFault; a package that is missing is marked so.

        `extensions`: where load_inline builds lie. `kernels`: Triton's cache, shared by the processes of one candidate's evaluation.
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
                  "env": env, "compile": compiled, "threads": self._hello.get("threads", 0)}
        reply = self._load_reply(worker, orders, deadline_s)
        if reply.status == wire.OK:
            return
        what = wire.CODE_TEXT[reply.code]
        if reply.status == wire.BROKE_CONTRACT:
            raise WorkerFault("contract", what)
        raise WorkerFault("raised", what or "importing it raised an exception", missing=reply.code == wire.MISSING_PACKAGE)

    def _seed_triton(self, cache: Path) -> None:
        """Put Triton's own driver module, built by the judge, into a candidate's cache: no kernel, but half a second of gcc."""
        cache.mkdir(parents=True, exist_ok=True)
        if any(cache.iterdir()):
            return
        for built in (self.store / JUDGE_TRITON).glob("*/cuda_utils*"):
            shutil.copytree(built.parent, cache / built.parent.name, dirs_exist_ok=True)

    def _load_reply(self, worker: WorkerHandle, orders: dict[str, Any], deadline_s: float) -> wire.Reply:
        self._await_start(worker)
        worker.sock.settimeout(deadline_s)
        try:
            wire.send_request(worker.sock, wire.Request(wire.LOAD, 0, 1, 0, pickle.dumps(orders)))
            return wire.receive_reply(worker.sock, 1)
        except TimeoutError as error:
            families.kill(worker.keeper)
            raise WorkerFault("deadline", f"importing it took longer than {deadline_s:.0f} s") from error
        except wire.WireClosed as error:
            raise WorkerFault("died", "its process ended while it was imported") from error
        except wire.WireBroken as error:
            raise WorkerFault("protocol", str(error)) from error

    def attach(self, worker: WorkerHandle) -> None:
        """Hand a loaded worker's socket to the judge."""
        self._ask("attach", 30.0, fds=[worker.sock.fileno()], worker=worker.name, pid=worker.pid, keeper=worker.keeper)
        worker.sock.close()
        worker.attached = True

    def stop(self, worker: WorkerHandle) -> None:
        """End a worker: the judge lets go first (copies waited for, mappings closed), then its whole family is killed."""
        if self.workers.pop(worker.name, None) is None:
            return
        if worker is self._spare:
            self._spare = None
        if worker.attached and self._judge is not None:
            try:
                self._ask("detach", 60.0, worker=worker.name)
            except (JudgeDied, WorkerFault, ProblemFault):
                worker.attached = False  # the judge was restarted, and with it every mapping is gone
        else:
            worker.sock.close()
        families.kill(worker.keeper)
        worker.text.text()
        shutil.rmtree(worker.folder, ignore_errors=True)


def _has_fd(stream: Any) -> bool:
    try:
        stream.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True

