"""Workers started before they are asked for: one for the next candidate, its context on the device made, and one for a baseline, with
torch.compile's compiler imported. On CUDA, where cores are many; elsewhere a fork is soon done, and would disturb what is measured."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from autokernel.errors import InternalError
from autokernel.executor import families, wire
from autokernel.executor.handle import WorkerHandle
from autokernel.executor.nursery import COMPILER_ENV, START_S, Nursery
from autokernel.executor.zygote import SPARE_CORES


class Spares:
    """At most one worker of each kind; the nursery has them all, and buries them."""

    def __init__(self, nursery: Nursery) -> None:
        self.nursery = nursery
        self.worth_while = nursery.device != "cpu" and len(nursery.cpus) >= SPARE_CORES
        self._next: Future[WorkerHandle] | None = None
        self._compiler: WorkerHandle | None = None
        self._thread = ThreadPoolExecutor(1, "autokernel-spares")

    def prepare_next(self) -> None:
        """Begin to start a worker for the next candidate, in the sandbox, if none is there."""
        if self.worth_while and self._next is None and self.nursery.is_anyones(self.nursery.folder):
            self._next = self._thread.submit(self.nursery.spawn)

    def settle(self) -> None:
        """Until what was begun for a candidate is up and idle: from there on it disturbs nothing that is timed."""
        worker = self._living()
        if worker is not None:
            try:
                self.nursery.await_start(worker)
            except InternalError:
                self._next = None  # buried; who needs a worker starts one, and says what is wrong

    def take_next(self, caches: Sequence[Path]) -> WorkerHandle | None:
        """The candidate's worker, if one is there and these folders can be its own though it was born without them."""
        if not all(self.nursery.is_anyones(folder) for folder in caches):
            return None
        worker, self._next = self._living(), None
        if worker is not None:
            worker.keep(caches)
        return worker

    def _living(self) -> WorkerHandle | None:
        try:
            worker = self._next.result() if self._next is not None else None
        except (InternalError, OSError):
            worker = None
        if worker is None or worker.name not in self.nursery.workers:
            return None
        if not families.lives(worker.pid):
            self.nursery.bury(worker)
            return None
        return worker

    def take_compiler(self) -> WorkerHandle:
        """A worker for a torch.compile baseline; it has imported the compiler if it was warmed. The next one begins to."""
        worker, self._compiler = self._compiler, None
        if worker is None or worker.name not in self.nursery.workers or not self._has_warmed(worker):
            worker = self.nursery.spawn(trusted=True)
        self.warm_compiler()
        return worker

    def warm_compiler(self) -> None:
        """Have a worker import torch.compile's compiler, where the executor was told that one will be asked for."""
        if self.worth_while and self.nursery.compiles and self._compiler is None:
            self._compiler = self.nursery.spawn(trusted=True)
            wire.send_request(self._compiler.sock, wire.Request(wire.WARM, 0, 2, 0, pickle.dumps(COMPILER_ENV)))

    def _has_warmed(self, worker: WorkerHandle) -> bool:
        try:
            self.nursery.await_start(worker)
            worker.sock.settimeout(START_S)
            return wire.receive_reply(worker.sock, 2).status == wire.OK
        except (wire.WireClosed, wire.WireBroken, TimeoutError):
            self.nursery.bury(worker)
            return False
        except InternalError:  # buried already
            return False

    def close(self) -> None:
        """Wait for what was begun."""
        self._thread.shutdown()
        self._next = self._compiler = None
