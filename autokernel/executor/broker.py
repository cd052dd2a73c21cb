"""The broker's hand: starts judge, zygote and workers, owns every deadline, kills whoever overruns one, restarts the others.

Imports no torch. One Executor serves one device; use it as a context manager.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from autokernel.errors import InternalError, JudgeDied, MissingOnMachine
from autokernel.executor import control, families, wire
from autokernel.executor.faults import DEADLINE, DOES_NOT_FIT, REFERENCE_FAILS, ProblemFault, WorkerFault
from autokernel.executor.handle import WorkerHandle
from autokernel.executor.nursery import JUDGE_TRITON, START_S, Nursery
from autokernel.executor.prune import prune
from autokernel.executor.service import Service
from autokernel.executor.spares import Spares
from autokernel.machine import describe, memory_bytes

OWN_CORE_FROM = 8  # from this many processors on, one is the judge's and the broker's alone
JUDGE_SHARE = 0.7  # of the machine's memory, where the device is the machine: the rest is for the workers
AHEAD_CORES = 2  # that a candidate may use while it is compiled ahead
GRACE_S = 20.0  # for the judge to notice that a worker was killed


def worker_cpus(allowed: Sequence[int], device: str) -> tuple[int, ...]:
    """The processors of candidates and baselines alike; where CPU code is judged and there are enough, the first is left to the others."""
    return tuple(allowed[1:] if device == "cpu" and len(allowed) >= OWN_CORE_FROM else allowed)


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
        self.cpus = worker_cpus(sorted(os.sched_getaffinity(0)), device)
        self.nursery = Nursery(device, store, self.folder, self.cpus, compiles=compiles)
        self.spares = Spares(self.nursery)
        self.generation = 0  # rises when the judge was restarted and with it everything it held was lost
        self._unanswered = False  # the judge was asked something and its reply not awaited
        self._counter = 0
        self.freezes = "signals"  # or "group": what stops a family while the other is timed
        self._judge: Service | None = None
        self._hello: dict[str, Any] = {}
        self._ceilings: dict[str, Any] | None = None

    def __enter__(self) -> Executor:
        if importlib.util.find_spec("torch") is None:
            raise MissingOnMachine('torch is not installed; install it: pip install "torch>=2.9,<2.14".')
        self.store.mkdir(parents=True, exist_ok=True)
        prune(self.store / "extensions")
        self._start_judge()  # imports torch while the zygote does
        self.nursery.open()
        self._hello = self._greet()
        without = self.nursery.settle(self._try_worker)
        self.freezes = "signals" if "freezer" in without or not self.nursery.layers.groups else "group"
        self.spares.warm_compiler()
        self.spares.prepare_next()
        return self

    def _try_worker(self) -> dict[str, str]:
        """A worker in the layers as they are set, read and lent to once; the control groups that it had to do without, with the reasons."""
        worker = self.spawn()
        try:
            self.nursery.await_start(worker)
            self.attach(worker)
            self._ask("probe", START_S, suspects=[worker], worker=worker.name)
        finally:
            self.stop(worker)
        return worker.group.without

    @property
    def sandboxed(self) -> bool:
        """Whether candidates are shut into namespaces here."""
        return self.nursery.layers.namespaces

    @property
    def why_no_sandbox(self) -> str:
        """Why they are not, else empty."""
        return self.nursery.layers.why_not.get("namespaces", "")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._judge is not None and self._unanswered:
            self._judge.end()
            self._judge = None
        self.spares.close()
        for worker in list(self.nursery.workers.values()):
            self.stop(worker)
        if self._judge is not None:
            self._judge.end()
            self._judge = None
        self.nursery.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _greet(self) -> dict[str, Any]:
        """Have the judge say what it is, and keep to its share of the memory."""
        memory = None if self.memory_gb is None else int(self.memory_gb * 1e9)
        if self.device == "cpu":
            memory = int(JUDGE_SHARE * min(memory_bytes(), memory or memory_bytes()))
        return self._ask("hello", START_S, memory_bytes=memory)

    def _start_judge(self) -> None:
        # its idle threads must not spin on the workers' cores; its kernels are compiled once for all runs
        env = {**os.environ, "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "TRITON_CACHE_DIR": str(self.store / JUDGE_TRITON)}
        self._judge = Service("autokernel.executor.judge", self.device, env, START_S)

    def machine(self) -> dict[str, Any]:
        """Facts about this machine, its software and the device."""
        return {**describe(self._hello, self.device), "sandbox": self.nursery.layers.summary, "freeze": self.freezes}

    @property
    def device_facts(self) -> dict[str, Any]:
        """What the judge says of its device (Judge.hello)."""
        return self._hello

    def free_bytes(self) -> int | None:
        """Memory of the device that nobody holds; None on the CPU."""
        free: int | None = self._ask("room", START_S)["free_bytes"]
        return free

    def ceilings(self) -> dict[str, Any]:
        """Measured copy and GEMM rates of the device, once a session."""
        if self._ceilings is None:
            self.spares.settle()
            self._ceilings = self._ask("ceilings", 300.0)
        return self._ceilings

    def _ask(self, order: str, deadline_s: float, *, fds: Sequence[int] = (), suspects: Sequence[WorkerHandle] = (),
             **arguments: Any) -> dict[str, Any]:
        """One request to the judge. `suspects` are killed when the deadline passes; then the judge itself, if it still hangs.

        Raises WorkerFault, ProblemFault, JudgeDied.
        """
        if self._judge is not None and self._unanswered:
            self._restart_judge()  # a request was interrupted here; its late reply must not answer this one
        if self._judge is None:
            raise InternalError("the judge is not running; use Executor as a context manager.")
        sock, overrun = self._judge.sock, False
        self._unanswered = True
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
            self._restart_judge()
            if overrun and not suspects:
                raise ProblemFault(REFERENCE_FAILS, f"the problem's own code must end within {deadline_s:.0f} s") from error
            if order == "open":
                raise ProblemFault(REFERENCE_FAILS, "the judge's process died while it ran the problem's code") from error
            raise JudgeDied(f"the judge's process died during '{order}'; run again with --debug if it happens twice.") from error
        self._unanswered = False
        if reply.pop("ok"):
            return reply
        if reply["who"] == "worker":
            if overrun:
                raise WorkerFault(DEADLINE, f"a call must answer within {deadline_s:.0f} s")
            raise WorkerFault(reply["kind"], reply["message"], opponent=reply["opponent"])
        raise ProblemFault(DOES_NOT_FIT if reply["kind"] == DOES_NOT_FIT else REFERENCE_FAILS, reply["message"])

    def _restart_judge(self) -> None:
        self.generation += 1
        self._unanswered = False
        if self._judge is not None:
            self._judge.end()
            self._judge = None
        for worker in list(self.nursery.workers.values()):  # all were attached to the judge that is gone
            self.nursery.bury(worker)
        self._start_judge()
        self._hello = self._greet()

    def open_problem(self, source: str, name: str, rules: dict[str, Any], deadline_s: float) -> dict[str, Any]:
        """Have the judge run a problem's code; its facts. Raises ProblemFault."""
        self._counter += 1
        return self._ask("open", deadline_s, source=source, name=name, seed=self.seed + self._counter, rules=rules)

    def judge(self, order: str, deadline_s: float, workers: dict[str, WorkerHandle], **arguments: Any) -> dict[str, Any]:
        """One request about attached workers, by role. The first of them is killed if the deadline passes."""
        if order in control.TIMED:
            self.spares.settle()
        names: dict[str, Any] = {role: worker.name for role, worker in workers.items()}
        return self._ask(order, deadline_s, suspects=list(workers.values())[:1], **names, **arguments)

    def spawn(self, *, trusted: bool = False, copied: Sequence[Path] = (), caches: Sequence[Path] = ()) -> WorkerHandle:
        """A new worker process on the device, waiting for orders; see Nursery.spawn."""
        spare = None if trusted or copied else self.spares.take_next(caches)
        return spare or self.nursery.spawn(trusted=trusted, copied=copied, caches=caches)

    def load(self, worker: WorkerHandle, source: str, builder: str, *, artifact: Path | None = None, class_name: str = "ModelNew",
             compiled: bool = False, extensions: Path | None = None, kernels: Path | None = None, deadline_s: float) -> None:
        """Have a worker import a candidate's file; see Nursery.load. Raises WorkerFault."""
        self.nursery.load(worker, source, builder, artifact=artifact, class_name=class_name, compiled=compiled, extensions=extensions,
                          kernels=kernels, threads=min(int(self._hello.get("threads", 0)), len(self.cpus)),
                          capability=str(self._hello.get("capability") or ""), deadline_s=deadline_s)

    def compile_ahead(self, source: str, kernels: Path, form: dict[str, Any], device: dict[str, Any], deadline_s: float) -> bool:
        """Compile a Triton candidate's kernels into the folder `kernels`, in a worker without the device; whether that could be done.

        `form`: how the model is constructed and called; `device`: facts of the device compiled for (executor/ahead.py). May be called
        from another thread while the judge is at work.
        """
        few = self.cpus[-AHEAD_CORES:] if len(self.cpus) > AHEAD_CORES else ()  # it may run beside what is timed
        worker = self.nursery.spawn(on_device=False, caches=[kernels], cpus=few)
        try:
            self.nursery.load(worker, source, "triton", kernels=kernels, deadline_s=deadline_s)
            return self.nursery.compile_ahead(worker, {**form, "device": device}, deadline_s)
        except WorkerFault:
            return False  # whoever evaluates it meets the fault, and says so
        finally:
            self.nursery.bury(worker)

    def attach(self, worker: WorkerHandle) -> None:
        """Hand a loaded worker's socket to the judge."""
        self._ask("attach", 30.0, fds=[worker.sock.fileno()], worker=worker.name, pid=worker.pid, keeper=worker.keeper)
        worker.sock.close()
        worker.attached = True

    def stop(self, worker: WorkerHandle) -> None:
        """End a worker: the judge lets go first (copies waited for, mappings closed), then its whole family is killed."""
        if worker.name not in self.nursery.workers:
            return
        if worker.attached and self._judge is not None:
            try:
                self._ask("detach", 60.0, worker=worker.name)
            except (JudgeDied, WorkerFault, ProblemFault):
                pass  # the judge was restarted, and with it every mapping is gone
        self.nursery.bury(worker)
