"""The broker's side of an evaluation under KernelBench's rules: a fresh sandboxed worker for each, deadlines, kept draws. No torch.

There is no judge here: KernelBench compares and times inside the candidate's process. What comes back is that process's word.
"""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from autokernel import builders
from autokernel.builders import light_headers
from autokernel.errors import InternalError
from autokernel.executor import compat_wire, extensions, families, wire
from autokernel.executor.compat_builds import Once
from autokernel.executor.compat_draws import Draws
from autokernel.executor.compat_wire import Report
from autokernel.executor.handle import WorkerHandle
from autokernel.executor.nursery import START_S, Nursery

DIED, DEADLINE, PROTOCOL = "died", "deadline", "protocol"
MOST_DRAWS = 200  # files handed over with one order; the kernel takes 253


@dataclass(frozen=True)
class Facts:
    """What the device and its software are."""

    torch: str
    device_name: str  # "" on the CPU
    cuda: str
    capability: str


@dataclass(frozen=True)
class Answer:
    """How one order to a worker ended: its report, or how it failed instead."""

    report: Report | None
    fault: str = ""  # died, deadline or protocol
    message: str = ""
    log: str = ""  # the worker's own text
    seconds: float = 0.0

    @property
    def loaded(self) -> bool:
        """Whether it was an order to load alone, and went well."""
        return self.report is not None and self.report.outcome == compat_wire.LOADED


@contextmanager
def opened(draws: Mapping[int, str]) -> Iterator[tuple[list[int], list[int]]]:
    """The seeds and descriptors of kept draws that are still there, for as long as the block runs."""
    seeds: list[int] = []
    descriptors: list[int] = []
    try:
        for seed, path in list(draws.items())[:MOST_DRAWS]:
            try:
                descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            except FileNotFoundError:
                continue  # dropped for others meanwhile; the evaluation draws it itself
            seeds.append(seed)
        yield seeds, descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


class CompatHost:
    """Serves one device; use it as a context manager. Its methods may be called from several threads.

    Hosts of several devices share `draws` and `builds`.
    """

    def __init__(self, device: str, store: Path, draws: Draws | None = None, builds: Once[Answer] | None = None) -> None:
        self.device, self.store = device, store
        self.draws = draws or Draws(store / "draws")
        self._own_draws = draws is None
        self.builds: Once[Answer] = builds or Once()
        self.folder = Path(tempfile.mkdtemp(prefix="autokernel-compat-"))
        self.nursery = Nursery(device, store, self.folder, tuple(sorted(os.sched_getaffinity(0))), compiles=False)
        self.facts = Facts("", "", "", "")
        self._spawning = threading.Lock()

    def __enter__(self) -> CompatHost:
        self.store.mkdir(parents=True, exist_ok=True)
        self.draws.drawer.start()
        self.nursery.open()
        self.nursery.settle(self._try_worker)
        self.facts = self._look()
        return self

    def _try_worker(self) -> dict[str, str]:
        worker = self.nursery.spawn()
        try:
            self.nursery.await_start(worker)
        finally:
            self.nursery.bury(worker)
        return worker.group.without

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for worker in list(self.nursery.workers.values()):
            self.nursery.bury(worker)
        self.nursery.close()
        if self._own_draws:
            self.draws.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _look(self) -> Facts:
        answer = self._order({"what": "facts", "env": {}}, START_S, on_device=True)
        if answer.report is None:
            raise InternalError(f"a worker on {self.device} must answer, and did not ({answer.message}). {answer.log.strip()[-300:]}")
        said = answer.report
        return Facts(said.error_name, said.error, said.trace, said.second)

    def trial_seeds(self, seed: int, trials: int) -> tuple[int, ...]:
        """The seeds that torch's generator gives the correctness trials. Raises InternalError."""
        return self.draws.drawer.trial_seeds(seed, trials)

    def build(self, orders: Mapping[str, Any], key: str, deadline_s: float) -> Answer | None:
        """Have a candidate that compiles on import built ahead, away from the device. None where nothing is to be done.

        No build is made twice. `key` is the sha256 of the candidate's text.
        """
        if not builders.get("python").needs_import_build(orders["candidate"]) or extensions.is_whole(extensions.folder_of(self.store, key)):
            return None
        return self.builds.get(key, lambda: self._build(orders, key, deadline_s))

    def _build(self, orders: Mapping[str, Any], key: str, deadline_s: float) -> Answer:
        folder = extensions.folder_of(self.store, key)
        extensions.begin(folder)
        answer = self._order({**orders, "what": "load", "env": self._env(folder)}, deadline_s, on_device=False, writable=[folder])
        if answer.loaded:
            extensions.mark(folder, light_headers.STOCK)
        else:
            extensions.discard(folder)
        return answer

    def evaluate(self, orders: Mapping[str, Any], key: str, deadline_s: float, draws: Mapping[int, str] | None = None) -> Answer:
        """One evaluation in a fresh worker, which gets the files of `draws` by descriptor: it need not see where they lie."""
        folder = extensions.folder_of(self.store, key)
        built = extensions.is_whole(folder)
        writable = [Path(orders["build_dir"]).absolute()] if orders["build_dir"] else []
        env = self._env(folder) if built else {name: value for name, value in self._env(folder).items() if name != "TORCH_EXTENSIONS_DIR"}
        return self._order({**orders, "env": env}, deadline_s, on_device=True, writable=writable, copied=[folder] if built else [],
                           draws=draws)

    def baseline(self, orders: Mapping[str, Any], deadline_s: float, draws: Mapping[int, str]) -> Answer:
        """Time a reference alone in a fresh worker: the problem's own text, trusted as the judge trusts it."""
        caches = self.store / "baseline-inductor"
        env = {"TORCHINDUCTOR_CACHE_DIR": str(caches), "TRITON_CACHE_DIR": str(caches / "triton"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        return self._order({**orders, "what": "baseline", "env": env}, deadline_s, on_device=True, trusted=True, draws=draws)

    def keep_draws(self, reference: str, seeds: Sequence[int]) -> dict[int, str]:
        """Paths of the inputs drawn from these seeds, drawn now if they are not there; those that do not fit are left out."""
        return self.draws.paths(reference, self.facts.torch, seeds)

    def _env(self, folder: Path) -> dict[str, str]:
        env = {"TORCH_EXTENSIONS_DIR": str(folder.resolve()), **builders.get("python").worker_env(self.device)}
        if self.facts.capability:  # as torch has it of itself: what builds, runs or judges it must agree, or it is compiled again
            env["TORCH_CUDA_ARCH_LIST"] = f"{self.facts.capability}+PTX"
        return env

    def _order(self, orders: Mapping[str, Any], deadline_s: float, *, on_device: bool, trusted: bool = False,
               writable: Sequence[Path] = (), copied: Sequence[Path] = (), draws: Mapping[int, str] | None = None) -> Answer:
        start = time.monotonic()
        with self._spawning:
            worker = self.nursery.spawn(on_device=on_device, trusted=trusted, writable=writable, copied=copied)
        try:
            self.nursery.await_start(worker)
            home = worker.folder.resolve()
            own = {"TMPDIR": str(home), "TRITON_CACHE_DIR": str(home / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
                   "TORCH_EXTENSIONS_DIR": str(home / "extensions")}
            with opened(draws or {}) as (seeds, descriptors):
                body = pickle.dumps({**orders, "env": {**own, **orders["env"]}, "draws": seeds})
                report, fault, message = self._exchange(worker, body, descriptors, deadline_s)
            worker.loaded = report is not None  # so that what it added to `writable`, its build, is taken over when it is buried
            return Answer(report, fault, message, worker.text.text(0.0 if report else 0.3), time.monotonic() - start)
        finally:
            with self._spawning:  # the nursery's own lists are for one thread at a time
                self.nursery.bury(worker)

    def _exchange(self, worker: WorkerHandle, body: bytes, descriptors: Sequence[int], deadline_s: float) -> tuple[Report | None, str, str]:
        end = time.monotonic() + deadline_s
        watchdog = threading.Timer(deadline_s, families.kill, [worker.keeper])  # a socket's timeout begins anew with every byte
        watchdog.start()
        worker.sock.settimeout(deadline_s + 5.0)
        try:
            wire.send_request(worker.sock, wire.Request(wire.COMPAT, 0, 1, 0, body))
            if descriptors:
                socket.send_fds(worker.sock, [b"."], list(descriptors))
            return compat_wire.receive(worker.sock), "", ""
        except wire.WireBroken as error:
            return None, PROTOCOL, str(error)
        except (wire.WireClosed, TimeoutError, ConnectionError):
            if time.monotonic() >= end:
                return None, DEADLINE, f"it must end within {deadline_s:g} s"
            return None, DIED, "its process ended before it answered"
        finally:
            watchdog.cancel()
