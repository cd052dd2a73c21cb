"""Evaluates a KernelBench run directory: every sample once, on every device, whatever candidates crash, hang or poison."""

from __future__ import annotations

import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autokernel.compat.records import RunRecords
from autokernel.compat.result import Judged, KernelExecResult
from autokernel.compat.single import CompatOptions, Verified, evaluate_compat, kernelbench_backend, verify
from autokernel.errors import AutoKernelError, InternalError, StorageError, UsageError
from autokernel.executor.compat_builds import Once
from autokernel.executor.compat_draws import Draws
from autokernel.executor.compat_host import Answer, CompatHost
from autokernel.machine import cpu_name
from autokernel.records import Candidate
from kernelbench_bridge.errors import BridgeError
from kernelbench_bridge.run_directory import SampleFile

if TYPE_CHECKING:
    from autokernel.executor.broker import Executor
    from autokernel.session import ProblemLike

LOCK = ".autokernel-eval.lock"
RECOVERY_S = 5.0  # after a worker did not start, before one more try
BUILDERS = 8  # compile workers at most; each runs one compiler with several jobs of its own


@dataclass(frozen=True)
class BatchOptions:
    """How a run directory is evaluated."""

    options: CompatOptions = field(default_factory=CompatOptions)
    backend_by_file: bool = True  # the syntax tree decides between text and file; False takes options.backend for all
    verified: bool = False  # also the judge's ratio of windows, for right candidates
    minutes: float | None = None


@dataclass(frozen=True)
class Progress:
    """One sample's outcome, for whoever watches."""

    sample: SampleFile
    record: KernelExecResult | None  # None where only the verified ratio is new
    judged: Judged | None
    verified: Verified | None
    done: int
    total: int


Watch = Callable[[Progress], None]
if TYPE_CHECKING:
    Queue = queue.SimpleQueue[SampleFile]
else:
    Queue = queue.SimpleQueue


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps a second command out of the run directory. Raises StorageError where it is taken."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StorageError(f"cannot write in '{folder}': {error.strerror}. Check its permissions.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(f"another command is evaluating '{folder}'. Wait for it to end.") from error
        yield
    finally:
        os.close(descriptor)


def pending(samples: Sequence[SampleFile], records: RunRecords) -> list[SampleFile]:
    """The samples that have no record yet, by (problem, sample)."""
    return [sample for sample in samples if not records.has(sample.problem_id, sample.sample_id)]


class Batch:
    """One evaluation of a run directory on some devices. Records go to disk as they come, one step each."""

    def __init__(self, records: RunRecords, problems: Mapping[int, ProblemLike], batch: BatchOptions, devices: Sequence[str],
                 store: Path, watch: Watch) -> None:
        self.records, self.problems, self.batch, self.devices, self.store, self.watch = records, problems, batch, devices, store, watch
        self.draws = Draws(store / "draws")
        self.builds: Once[Answer] = Once()
        self.failure: BaseException | None = None
        self.lost: dict[str, InternalError] = {}  # devices on which no worker comes up any more
        self.end = time.monotonic() + 60 * batch.minutes if batch.minutes else float("inf")
        self.done = self.total = 0
        self._recording = threading.Lock()

    def run(self, samples: Sequence[SampleFile]) -> bool:
        """Evaluate those without a record; then, where asked, have the judge time those that are right, in processes of their own.

        One after the other, so that the judge's memory is not there while KernelBench's evaluator runs. False where the minutes ran
        out before the last. Raises what a device's thread met, if it was ours.
        """
        left = pending(samples, self.records)
        if left:
            self.draws.drawer.start()  # from this thread: a process of ours ends with the thread that started it
        try:
            whole = self._share(left, self._serve) if left else True
        finally:
            self.draws.close()
        if not (whole and self.batch.verified and self.batch.options.measure):
            return whole
        untimed = [sample for sample in samples if self.records.wants_ratio(sample)]
        return self._share(untimed, self._verify) if untimed else True

    def _share(self, samples: Sequence[SampleFile], serve: Callable[[str, Queue, Queue], None]) -> bool:
        """Have a thread for each device take samples until none is left."""
        self.done, self.total = 0, len(samples)
        work, ahead = Queue(), Queue()
        for sample in samples:
            work.put(sample)
            ahead.put(sample)
        threads = [threading.Thread(target=self._guarded, args=(serve, device, work, ahead), name=device, daemon=True)
                   for device in self.devices]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.5)  # in parts, so that Ctrl-C is heard
        except BaseException as error:
            self.failure = error  # the others stop at their next sample
            raise
        if self.failure is None and self.lost and self.done < self.total and time.monotonic() < self.end:
            self.failure = next(iter(self.lost.values()))
        if self.failure is not None:
            raise self.failure
        return self.done == self.total

    def _guarded(self, serve: Callable[[str, Queue, Queue], None], device: str, work: Queue, ahead: Queue) -> None:
        if self._over():
            return
        try:
            serve(device, work, ahead)
        except InternalError as error:  # this device is lost; the others take its samples, and if none is left the run ends
            self.lost[device] = error
        except BaseException as error:  # noqa: BLE001  (handed to the thread that waits, which raises it)
            self.failure = self.failure or error

    def _next(self, work: Queue) -> SampleFile | None:
        """The next sample, None where there is none or the time is over."""
        if self._over():
            return None
        try:
            return work.get_nowait()
        except queue.Empty:
            return None

    def _serve(self, device: str, work: Queue, ahead: Queue) -> None:
        with CompatHost(device, self.store, self.draws, self.builds) as host:
            builders = [threading.Thread(target=self._build_ahead, args=(host, ahead), daemon=True)
                        for _ in range(self._builders() if device == self.devices[0] else 0)]
            for thread in builders:
                thread.start()
            try:
                self._all(work, lambda sample: self._one(host, sample))
            finally:
                for thread in builders:
                    thread.join()  # they use this host

    def _verify(self, device: str, work: Queue, ahead: Queue) -> None:
        """The strict path's clock on right candidates."""
        from autokernel.executor.broker import Executor

        with Executor(device, self.store) as executor:
            self._all(work, lambda sample: self._ratio(executor, sample))

    def _ratio(self, executor: Executor, sample: SampleFile) -> None:
        try:
            made = verify(executor, self.problems[sample.problem_id], Candidate(sample.read(), "python"), self.batch.options.precision)
        except (AutoKernelError, BridgeError) as error:  # this candidate has no verified ratio, and the record says why
            made = Verified(verdict=f"not judged: {error.message}")
        with self._recording:
            self.records.add_ratio(sample, made)
            self.done += 1
            self.watch(Progress(sample, None, None, made, self.done, self.total))

    def _all(self, work: Queue, one: Callable[[SampleFile], None]) -> None:
        """Take samples until none is left; one that met a fault of ours goes back for another device."""
        while (sample := self._next(work)) is not None:
            try:
                one(sample)
            except InternalError:
                work.put(sample)
                raise

    def _over(self) -> bool:
        return self.failure is not None or time.monotonic() > self.end

    @staticmethod
    def _builders() -> int:
        return max(1, min(BUILDERS, len(os.sched_getaffinity(0)) // 2))

    def _build_ahead(self, host: CompatHost, ahead: Queue) -> None:
        """Compile samples before their turn comes, in its order; a sample's own turn meets the result, and any failure."""
        while not self._over():
            try:
                sample = ahead.get_nowait()
                text = sample.read()
                options = _with_backend(self.batch.options, self._backend(text))
                orders = options.orders(self.problems[sample.problem_id].source, text, host.device)
                if not options.build_dir:
                    host.build(orders, Candidate(text, "python").sha256, options.rules.build_s)
            except queue.Empty:
                return
            except (AutoKernelError, BridgeError):
                continue  # its own turn says what is wrong

    def _backend(self, text: str) -> str:
        return kernelbench_backend(text) if self.batch.backend_by_file else self.batch.options.backend

    def _one(self, host: CompatHost, sample: SampleFile) -> None:
        found: Judged | None = None
        try:
            text = sample.read()
            options = _with_backend(self.batch.options, self._backend(text))
        except (UsageError, BridgeError) as error:  # this sample's file is at fault, not the run
            name = f"{type(error).__module__}.{type(error).__name__}"
            facts = {"hardware": host.facts.device_name or cpu_name(), "device": host.device}
            record = KernelExecResult(metadata={**facts, "compilation_error_name": name, "compilation_error": error.message})
        else:
            problem = self.problems[sample.problem_id]
            candidate = Candidate(text, "python")
            try:
                found = evaluate_compat(host, problem.source, candidate, options)
            except InternalError:  # no worker came up: the one before may have left the device ill, which passes
                time.sleep(RECOVERY_S)
                found = evaluate_compat(host, problem.source, candidate, options)
            record = found.batch
        with self._recording:
            self.records.add(sample, record, found)
            self.done += 1
            self.watch(Progress(sample, record, found, None, self.done, self.total))


def _with_backend(options: CompatOptions, backend: str) -> CompatOptions:
    from dataclasses import replace

    return options if options.backend == backend else replace(options, backend=backend)


def facts_of(record: Mapping[str, Any]) -> str:
    """A record of eval_results.json in a few words: "correct 1.23 ms", "wrong", "crashed", "not compiled"."""
    metadata = record.get("metadata") or {}
    if record.get("correctness"):
        runtime = float(record.get("runtime", -1.0))
        return f"correct, {runtime:g} ms (unverified)" if runtime > 0 else "correct, not timed"
    if "error" in metadata:
        return str(metadata["error"])
    if not record.get("compiled"):
        name = next((metadata[key] for key in ("compilation_error_name", "cuda_error_name", "other_error_name") if key in metadata), "")
        return f"not compiled: {name}" if name else "not compiled"
    return f"wrong: {metadata.get('correctness_issue') or metadata.get('runtime_error_name') or 'no reason recorded'}"
