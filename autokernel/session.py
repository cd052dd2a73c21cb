"""One problem held open on one device: its facts, warm baselines, the incumbent's worker, null windows."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol

from autokernel import builders, measure
from autokernel.building import BuildRefused, build, gpu_arch
from autokernel.errors import InternalError
from autokernel.executor.broker import Executor
from autokernel.executor.extensions import folder_of
from autokernel.executor.faults import COMPILE_BASELINE, DOES_NOT_FIT, IDLE, REFERENCE_FAILS, ProblemFault, WorkerFault
from autokernel.executor.handle import WorkerHandle
from autokernel.executor.zygote import SPARE_CORES
from autokernel.gate.calls import fault_in
from autokernel.records import INCUMBENT_FAILS, Candidate
from autokernel.rules import Rules

NULL_WINDOWS = 9
NULL_ROUNDS = 4  # of so many windows at most, until the null is known
NULL_KNOWN = 0.01  # how far its interval may reach above its median, as a share of an eager window
NULL_EVEN = 4.0  # or as that many times how far it reaches below: no window stands out
ALONE_WINDOWS = 6
POOL_SHARE = 0.3  # of the device's memory for judged sets
CPU_MEMORY_BYTES = 8 << 30  # taken for the device's memory where it is the host's
START_BYTES = 1 << 30  # a process with a context on a GPU needs half as much
CPU_CACHE_BYTES = 4 << 20  # lending itself warms the larger caches


class ProblemLike(Protocol):
    """What evaluation needs of a problem."""

    @property
    def uid(self) -> str:
        """E.g. "L1/19"."""

    @property
    def hash(self) -> str:
        """Hash of its text."""

    @property
    def source(self) -> str:
        """Its text."""


class Session:
    """Opens a problem in the judge. Raises ProblemFault where it cannot be judged here."""

    def __init__(self, executor: Executor, problem: ProblemLike, rules: Rules) -> None:
        self.executor, self.problem, self.rules = executor, problem, rules
        self.workers: dict[str, WorkerHandle] = {}  # baselines and the incumbent, by name or candidate hash
        self.logs: dict[str, str] = {}
        self._nulls: dict[int, measure.Null] = {}
        self._alone: dict[tuple[str, int], list[float]] = {}
        self._audits: dict[str, dict[str, Any]] = {}
        self._prepared: dict[str, Future[None]] = {}
        self._ahead = ThreadPoolExecutor(2, "autokernel-ahead")  # the next one, and one that nobody foresaw
        memory = int(executor.machine().get("memory_bytes") or CPU_MEMORY_BYTES)
        if executor.memory_gb is not None:
            memory = min(memory, int(executor.memory_gb * 1e9))
        numbers = {"bound_times_error": rules.bound_times_error, "bound_ulps": rules.bound_ulps, "rms_times_error": rules.rms_times_error,
                   "large_set_bytes": rules.large_set_bytes, "later_call_floor_s": rules.deadlines.later_call_floor_s,
                   "later_call_times_eager": rules.deadlines.later_call_times_eager, "blind_share": rules.blind_share,
                   "precision": rules.precision, "pool_bytes": int(memory * POOL_SHARE)}
        self.facts = executor.open_problem(problem.source, problem.uid, numbers, rules.deadlines.problem_s)
        self.generation = executor.generation
        self.evaluations = 0
        self._champion = ""
        set_bytes = self.facts["input_bytes"] + self.facts["output_bytes"]
        self.large = set_bytes > rules.large_set_bytes
        l2 = int(executor.machine().get("l2_bytes") or CPU_CACHE_BYTES)
        self.calls = measure.calls_per_window(rules, self.facts["eager_ms"], set_bytes, l2, int(memory * 0.6))
        self.longer = measure.longer_windows(rules, self.calls, self.facts["eager_ms"], set_bytes, int(memory * 0.6))
        self.roofline_ms = measure.roofline_ms(self.facts, executor.ceilings())
        self.write_ms = self.facts["output_bytes"] / executor.ceilings()["write"] * 1e3  # the least time that writing the outputs takes

    @property
    def alive(self) -> bool:
        """False after the judge was restarted: everything here is gone."""
        return self.generation == self.executor.generation

    def holds(self, problem: ProblemLike) -> bool:
        """Whether this is that problem's session."""
        return self.problem.hash == problem.hash and self.problem.uid == problem.uid

    def ask(self, order: str, deadline_s: float, workers: dict[str, WorkerHandle], **arguments: Any) -> dict[str, Any]:
        """A request to the judge about this problem's workers. Raises WorkerFault and ProblemFault; where a worker that was to stand idle
        did not, ProblemFault if it can be the incumbent, else InternalError, since baselines are trusted: they begin anew then."""
        try:
            return self.executor.judge(order, deadline_s, workers, **arguments)
        except WorkerFault as fault:
            if fault.kind != IDLE:
                raise
            if self.has_incumbent:
                raise ProblemFault(INCUMBENT_FAILS, fault.message) from fault
            while self.workers:
                self.executor.stop(self.workers.popitem()[1])
            raise InternalError(f"a baseline ran while it should have stood idle ({fault.message}). Run the same command again.") from fault

    def deadline(self, calls: int) -> float:
        """Broker's deadline for an order of that many calls: the judge's own per-call limits come first, problem code included."""
        limits = self.rules.deadlines
        each: float = max(limits.later_call_floor_s, limits.later_call_times_eager * self.facts["eager_ms"] / 1e3)
        return limits.problem_s + each * calls

    def refresh(self, rules: Rules, incumbent: Candidate | None = None) -> None:
        """Before an evaluation: redraw the secret pool as often as the rules say, and whenever a candidate was kept."""
        self.rules = rules
        champion = incumbent.sha256 if incumbent else ""
        if self.evaluations % rules.fresh_every == 0 or champion != self._champion:
            self.ask("redraw", self.deadline(0), {})
            self._alone = {}
        self._champion = champion
        self.evaluations += 1

    def start(self, candidate: Candidate, artifact: Path | None, *, weights: str = "first") -> WorkerHandle:
        """A new process with the candidate built into a model. Raises BuildRefused (import) or WorkerFault (constructor).

        `weights`: "first", or of a second seed, with neutral parameters "moved" while it is constructed or "loaded" by name after; or all
        of the first seed's "replaced" by the second's.
        """
        extensions = self.extensions(candidate)
        worker = self.executor.spawn(caches=[self.kernels(candidate)], copied=[extensions] if extensions.exists() else [])
        try:
            try:
                self.executor.load(worker, candidate.source, candidate.builder, artifact=artifact, extensions=extensions,
                                   kernels=self.kernels(candidate), deadline_s=self.rules.deadlines.import_s)
            except WorkerFault as fault:
                raise BuildRefused(fault.message, worker.text.text()) from fault
            self.executor.attach(worker)
            limit = self.rules.deadlines.first_call_s
            self.ask("construct", limit + 30, {"worker": worker}, weights=weights, timeout_s=limit)
        except BaseException as error:
            self.logs["last"] = worker.text.text(0.2)
            self.executor.stop(worker)
            if isinstance(error, InternalError) and (weights != "first" or self.has_incumbent):
                self._look_for_room()
            raise error
        self.executor.spares.prepare_next()  # up before anything is timed, while this one compiles: for a second process or who comes next
        return worker

    @property
    def has_incumbent(self) -> bool:
        """Whether a process of an earlier candidate is alive."""
        return any(name not in ("eager", "compile") for name in self.workers)

    def _look_for_room(self) -> None:
        """After a process did not start beside others of candidates: raises ProblemFault where they left it no memory on the device."""
        free = self.executor.free_bytes()
        if free is not None and free < START_BYTES:
            raise ProblemFault(DOES_NOT_FIT, f"it must leave room for a further process, which did not start in {free / 1e6:.0f} MB")

    def extensions(self, candidate: Candidate) -> Path:
        """Where load_inline builds of this candidate lie."""
        return folder_of(self.executor.store, candidate.sha256)

    def kernels(self, candidate: Candidate) -> Path:
        """Triton's cache for the processes of one candidate: empty at each evaluation where the rules draw everything anew."""
        return self.executor.folder / "triton" / self._turn(candidate)

    def _turn(self, candidate: Candidate) -> str:
        """A name for what is built of a candidate for one evaluation, or for all where the rules draw nothing anew."""
        return f"{candidate.sha256[:24]}{f'-{self.evaluations}' if self.rules.fresh_every == 1 else ''}"

    def build(self, candidate: Candidate) -> Path | None:
        """Its artifact, or None where its builder makes none; raises BuildRefused and BuilderUnavailable."""
        return build(self.executor, candidate, self.rules.deadlines.build_s)

    def opponent(self, name: str, incumbent: Candidate | None = None) -> WorkerHandle:
        """The warm worker of "eager", "compile" or "incumbent". Raises ProblemFault where a baseline does not run."""
        key = incumbent.sha256 if name == "incumbent" and incumbent is not None else name
        if key in self.workers:
            return self.workers[key]
        if name == "incumbent" and incumbent is not None:
            self.end_incumbent()
            worker = self.start(incumbent, self.build(incumbent))
            self.ask("new_draws", self.deadline(1) + 60, {"worker": worker}, second=False, count=1,
                     timeout_s=self.rules.deadlines.first_call_s)
        else:
            worker = self._baseline(compiled=name == "compile")
        self.workers[key] = worker
        return worker

    def to_blame(self, fault: ProblemFault) -> str:
        """Which kind of fault it is: where an incumbent lives, without which there was room, it is the incumbent's, and ends it."""
        if fault.kind not in (INCUMBENT_FAILS, DOES_NOT_FIT) or not self.has_incumbent:
            return fault.kind
        self.end_incumbent()
        return INCUMBENT_FAILS

    def end_incumbent(self) -> None:
        """Stop the incumbent's worker, if there is one; whoever asks for it next gets a new process."""
        for old in [name for name in self.workers if name not in ("eager", "compile")]:
            self.executor.stop(self.workers.pop(old))

    def _baseline(self, *, compiled: bool) -> WorkerHandle:
        limit = self.rules.deadlines.baseline_first_call_s
        worker = self.executor.spares.take_compiler() if compiled else self.executor.spawn(trusted=True)
        try:
            self.executor.load(worker, self.problem.source, "python", class_name="Model", compiled=compiled,
                               deadline_s=self.rules.deadlines.import_s)
            self.executor.attach(worker)
            self.ask("construct", limit + 30, {"worker": worker}, weights="first", timeout_s=limit)
            answer = self.ask("new_draws", self.deadline(1) + limit, {"worker": worker}, second=False, count=1, timeout_s=limit)
        except WorkerFault as fault:
            log = worker.text.text(0.2)
            self.executor.stop(worker)
            kind = COMPILE_BASELINE if compiled else REFERENCE_FAILS
            raise ProblemFault(kind, f"{fault.message}: {log.strip().splitlines()[-1][:300] if log.strip() else 'no text'}") from fault
        if not all(figure["within"] for figure in answer["figures"]) and not compiled:
            self.executor.stop(worker)
            what = "the reference must give the same answer in a process of its own"
            raise ProblemFault(REFERENCE_FAILS, fault_in({**answer, "changed_input": None}, what) or f"{what} and does not")
        return worker

    def take_nulls(self, candidate: Candidate) -> None:
        """All nulls that its windows may need. Where some are missing, what was begun for the candidate has its end first."""
        missing = {self.calls, *self.longer, 1} - set(self._nulls)
        if missing:
            self.await_prepared(candidate)
        for calls in sorted(missing):
            self.null(calls)

    def null(self, calls: int) -> measure.Null:
        """Null windows of that many calls, from the eager baseline's worker; first taken while no candidate lives. More of them where
        one stands out: of a few windows the interval reaches from the least to the largest."""
        if calls not in self._nulls:
            eager = self.opponent("eager")
            taken: dict[str, list[float]] = {"ms": [], "least_ms": []}
            for _ in range(NULL_ROUNDS):
                answer = self.ask("null", self.deadline(calls * NULL_WINDOWS), {"worker": eager}, calls=calls, count=NULL_WINDOWS)
                for key, values in taken.items():
                    values.extend(answer[key])
                null = measure.null_of(taken["ms"], taken["least_ms"])
                above, below = null.high_ms - null.median_ms, null.median_ms - null.low_ms
                if above <= max(NULL_KNOWN * calls * self.facts["eager_ms"], NULL_EVEN * below):
                    break
            self._nulls[calls] = null
        return self._nulls[calls]

    def calls_for(self, name: str, window_ms: Sequence[float]) -> int:
        """Calls in the windows of a comparison with the opponent `name`, for a candidate whose judged windows of one call took so long."""
        own = measure.net(min(window_ms), self.null(1).median_ms, 1)
        other = own if name == "incumbent" else self.facts["eager_ms"]
        return measure.calls_for(self.rules, self.calls, self.longer, own, other)

    def alone(self, name: str, worker: WorkerHandle, *, calls: int | None = None, reuse: bool = False, after: bool = False) -> list[float]:
        """Windows of an opponent with no candidate process there, ms; `reuse` takes the pool's where it has some, and those from `after` a
        candidate are not pooled: they are what it may have left behind.

        Raises WorkerFault, and ProblemFault where the incumbent fails or an answer is wrong.
        """
        calls = calls or self.calls
        if not (reuse and (name, calls) in self._alone):
            try:
                answer = self.ask("alone", self.deadline(calls * ALONE_WINDOWS), {"worker": worker}, calls=calls,
                                  count=ALONE_WINDOWS, limit_s=self.rules.looks.budget_s)
            except WorkerFault as fault:
                if name == "incumbent":
                    raise ProblemFault(INCUMBENT_FAILS, fault.message) from fault
                raise
            if "wrong" in answer:
                kind = INCUMBENT_FAILS if name == "incumbent" else REFERENCE_FAILS
                raise ProblemFault(kind, "it gave a wrong answer while it was timed alone")
            if after:
                return list(answer["ms"])
            self._alone[name, calls] = answer["ms"]
        return self._alone[name, calls]

    def is_warm(self, rules: Rules, against: Sequence[str]) -> bool:
        """Whether a candidate's turn comes at once: the problem is audited and all its baselines are up."""
        return rules.label in self._audits and all(name in self.workers for name in against if name != "incumbent")

    def prepare(self, candidate: Candidate) -> None:
        """Begin to build a candidate, or to compile its Triton kernels, while something else is timed; on machines with cores to spare."""
        if self._turn(candidate) not in self._prepared and len(self.executor.cpus) >= SPARE_CORES:
            self._prepared[self._turn(candidate)] = self._ahead.submit(self._prepare, candidate, self.kernels(candidate))

    def await_prepared(self, candidate: Candidate) -> None:
        """Until what `prepare` began for it has ended; what it met is met again, and said, where the candidate is built."""
        begun = self._prepared.get(self._turn(candidate))
        if begun is not None:
            wait([begun])

    def _prepare(self, candidate: Candidate, kernels: Path) -> None:
        facts = self.executor.device_facts
        if candidate.builder == "triton":
            if self.facts["form"] is not None and facts.get("capability"):
                self.executor.compile_ahead(candidate.source, kernels, self.facts["form"], facts, self.rules.deadlines.first_call_s)
            return
        arch = gpu_arch(str(facts["capability"])) if facts.get("capability") else None
        builders.get(candidate.builder).build(candidate.source, self.executor.store / "builds", arch, self.rules.deadlines.build_s)

    def audited(self, rules: Rules) -> dict[str, Any]:
        """What answers without work pass under these rules (executor/audit.py); asked once."""
        if rules.label not in self._audits:
            kinds = [*rules.extended_kinds, *rules.edge_kinds]
            self._audits[rules.label] = self.ask("audit", self.deadline(2 + len(kinds)), {}, kinds=kinds)
        return self._audits[rules.label]

    def close(self) -> None:
        """End this problem's workers."""
        self._ahead.shutdown(cancel_futures=True)
        for worker in self.workers.values():
            self.executor.stop(worker)
        self.workers = {}
