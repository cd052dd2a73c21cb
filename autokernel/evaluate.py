"""The one path from a candidate to a verdict: build, gate stage by stage, measure against opponents."""

from __future__ import annotations

import datetime
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autokernel import gate, measure, performance
from autokernel.builders.syntax import unreadable
from autokernel.building import BuildRefused, way_of_building
from autokernel.errors import JudgeDied
from autokernel.executor.broker import Executor
from autokernel.executor.faults import COMPILE_BASELINE, DEADLINE, DOES_NOT_FIT, RAISED, REFERENCE_FAILS, ProblemFault, WorkerFault
from autokernel.executor.handle import WorkerHandle
from autokernel.judged_calls import JudgedCalls
from autokernel.records import INCUMBENT_FAILS, UNSCORABLE, WEAK, Candidate, Comparison, Evaluation, Verdict
from autokernel.rules import Rules
from autokernel.session import ProblemLike, Session

LOG_CHARACTERS = 8000
Refusal = tuple[str, str] | None  # stage and reason
_sessions: weakref.WeakKeyDictionary[Executor, Session] = weakref.WeakKeyDictionary()


def evaluate(problem: ProblemLike, candidate: Candidate, *, rules: Rules, executor: Executor, incumbent: Candidate | None = None,
             against: tuple[str, ...] = ("eager",)) -> Evaluation:
    """Judge one candidate on one problem, and time it against "eager", "compile" and "incumbent" as asked.

    A candidate at fault is a refused Evaluation, a problem at fault one refused by "problem". Raises BuilderUnavailable and other
    AutoKernelErrors for faults of this machine.
    """
    run = _Run(problem, candidate, rules, executor)
    if (fault := unreadable(candidate.source)) is not None:
        return run.refused("build", fault)
    for attempt in range(2):
        try:
            return run.judge(incumbent, against)
        except JudgeDied as death:
            if attempt == 1 and not run.began:
                return run.refused("problem", f"{REFERENCE_FAILS}: twice {death}")
            if attempt == 1:
                return run.refused("smoke", "kills the judge: the trusted process died twice while this candidate was attached")
        except _NoRoom as found:
            if attempt == 1:
                return run.refused(found.stage, f"leaves the judge no memory, which had enough before it came: {found}")
        except _Late as found:
            if attempt == 1:
                return run.refused(found.stage, str(found))
            run.again = ["judged twice: it missed a deadline after it had answered rightly"]
    raise AssertionError("unreachable")


class Evaluator:
    """`evaluate` on one executor, as the search calls it."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def __call__(self, problem: ProblemLike, candidate: Candidate, *, rules: Rules, incumbent: Candidate | None = None,
                 against: tuple[str, ...] = ("eager",)) -> Evaluation:
        """As `evaluate`."""
        return evaluate(problem, candidate, rules=rules, executor=self.executor, incumbent=incumbent, against=against)

    def prepare(self, problem: ProblemLike, candidate: Candidate) -> None:
        """Begin to build a candidate that will come soon, where its problem is open and cores are to spare."""
        if (session := _sessions.get(self.executor)) is not None and session.alive and session.holds(problem):
            session.prepare(candidate)


class _Again(Exception):
    """What one evaluation met that a second one may not."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage


class _NoRoom(_Again):
    """The judge ran out of memory beside a candidate, and had enough for this problem before."""


class _Late(_Again):
    """A candidate that had passed a stage missed a deadline: it is slow, or something else kept this machine busy."""


def session_for(problem: ProblemLike, rules: Rules, executor: Executor) -> Session:
    """The executor's open session if it is this problem's, else a new one. Raises ProblemFault."""
    session = _sessions.get(executor)
    if session is None or not (session.alive and session.holds(problem) and session.rules.precision == rules.precision):
        if session is not None and session.alive:
            session.close()
        _sessions.pop(executor, None)
        session = Session(executor, problem, rules)
        _sessions[executor] = session
    return session


class _Run:
    """State of one evaluation while it is made."""

    def __init__(self, problem: ProblemLike, candidate: Candidate, rules: Rules, executor: Executor) -> None:
        self.problem, self.candidate, self.rules, self.executor = problem, candidate, rules, executor
        self.verdicts: list[Verdict] = []
        self.comparisons: list[Comparison] = []
        self.labels: list[str] = []
        self.breakdown: dict[str, float] = {}
        self.times: dict[str, float] = {}
        self.answers: list[Mapping[str, Any]] = []
        self.log = ""
        self.session: Session | None = None
        self.began = False  # the candidate's code may have run beside the judge
        self.again: list[str] = []  # why it is judged a second time

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Adds the block's seconds to the breakdown."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.breakdown[phase] = round(self.breakdown.get(phase, 0.0) + time.perf_counter() - start, 4)

    def judge(self, incumbent: Candidate | None, against: Sequence[str]) -> Evaluation:
        """All stages in order; the first refusal ends it."""
        self.verdicts, self.comparisons, self.labels, self.answers, self.began = [], [], [*self.again], [], False
        try:
            with self.timed("problem"):
                session = self.session = session_for(self.problem, self.rules, self.executor)
                session.refresh(self.rules, incumbent)
                if not session.is_warm(self.rules, against):
                    session.prepare(self.candidate)
                unscorable = self._audit(session)
                if unscorable:
                    return self.refused("problem", unscorable)
                opponents = self._opponents(session, incumbent, against)
                if opponents:
                    session.take_nulls(self.candidate)  # now, while no candidate is there that could slow them
        except ProblemFault as fault:
            return self._problem_fails(fault)
        worker: WorkerHandle | None = None
        try:
            with self.timed("build"):
                session.await_prepared(self.candidate)
                artifact = session.build(self.candidate)
            with self.timed("alone"):
                for name, other in opponents.items():
                    session.alone(name, other, reuse=not self.rules.second_process)
            self.began = True
            with self.timed("start"):
                worker = session.start(self.candidate, artifact)
            refusal = self._gate(session, worker, artifact) or self._measure(session, worker, opponents)
            if refusal is None and self.rules.second_process:
                worker, refusal = self._without_interference(session, worker, opponents, artifact)
                refusal = refusal or self._too_fast(session, opponents, artifact)
        except BuildRefused as fault:
            self.log = fault.digest
            return self.refused("build", f"{fault.reason}{_last_line(fault.telling)}")
        except ProblemFault as fault:
            if fault.kind == DOES_NOT_FIT and worker is not None:
                raise _NoRoom(self._stage(), fault.message) from fault
            return self._problem_fails(fault)
        except WorkerFault as fault:
            self.log = worker.text.text(0.2) if worker else session.logs.get("last", "")
            what = "" if fault.kind == RAISED and fault.message.startswith("it raised") else f"{_FAULTS[fault.kind]}: "
            reason = f"{what}{fault.message}{_last_line(self.log)}"
            if fault.kind == DEADLINE and self.verdicts:
                raise _Late(self._stage(), reason) from fault
            return self.refused(self._stage(), reason)
        finally:
            if worker is not None:
                self.log = self.log or worker.text.text(0.0)
                with self.timed("stop"):
                    self.executor.stop(worker)
            self.executor.spares.prepare_next()
        return self._evaluation(refusal)

    def _problem_fails(self, fault: ProblemFault) -> Evaluation:
        kind = self.session.to_blame(fault) if self.session is not None else fault.kind
        return self.refused("problem", f"{kind}: {fault.message}")

    def _audit(self, session: Session) -> str:
        """Why no candidate may be judged on this problem, or nothing; labels a weak one."""
        found = session.audited(self.rules)
        if found["unscorable"] and self.rules.second_process:  # fewer checks than strict's are no reason to give a problem up
            return f"{UNSCORABLE}: {', '.join(found['unscorable'])} would pass every check, and take no work"
        if found["weak"]:
            self.labels.append(f"{WEAK}: {', '.join(found['weak'])} would pass on its own inputs")
        elif found["blind"] > self.rules.blind_share:
            self.labels.append(f"{WEAK}: {found['blind']:.0%} of its outputs lie below their error bound")
        return ""

    def _opponents(self, session: Session, incumbent: Candidate | None, against: Sequence[str]) -> dict[str, WorkerHandle]:
        if incumbent is None:
            session.end_incumbent()  # nobody but the candidate and the baselines is there then
        opponents = {"eager": session.opponent("eager")}
        if self.candidate.builder == "triton" and self.executor.device == "cpu":
            self.labels.append("interpreted: judged for correctness, not timed")
            return {}
        if "compile" in against:
            try:
                opponents["compile"] = session.opponent("compile")
            except ProblemFault as fault:
                if fault.kind != COMPILE_BASELINE:
                    raise
                self.labels.append(f"compile baseline: none ({fault.message})")
        if "incumbent" in against and incumbent is not None:
            try:
                opponents["incumbent"] = session.opponent("incumbent", incumbent)
            except (BuildRefused, WorkerFault) as fault:
                raise ProblemFault(INCUMBENT_FAILS, str(fault)) from fault
        return {name: opponents[name] for name in ("incumbent", "eager", "compile") if name in against and name in opponents}

    def _stage(self) -> str:
        done = [verdict.stage for verdict in self.verdicts]
        return next((name for name, _ in gate.STAGES if name not in done), "performance")

    def _gate(self, session: Session, worker: WorkerHandle, artifact: Path | None) -> Refusal:
        calls = JudgedCalls(session, worker, self.candidate, artifact, self.answers)
        for name, stage in gate.STAGES:
            with self.timed(name):
                verdict = stage(calls, self.rules)
            self.verdicts.append(verdict)
            if not verdict.passed:
                return name, verdict.reason
        return self._precision()

    def _precision(self) -> Refusal:
        """Refuses arithmetic below eager's class, where the oracle is float64 and the outputs floating."""
        answer = next((a for a in reversed(self.answers) if a.get("kind") == "difference"), None) or next(iter(self.answers), None)
        if answer is None or not answer["ieee_rms"]:
            return None
        ours = measure.precision_class([f["rms_error"] for f in answer["figures"]], answer["ieee_rms"], answer["output_rms"], self.rules)
        eager = measure.precision_class(answer["eager_rms"], answer["ieee_rms"], answer["output_rms"], self.rules)
        self.precision = ours
        if ours != measure.LOW:
            return None
        if eager != ours:
            return "stability", f"precision: {ours}, where eager is {eager}; use fp32 arithmetic or its emulation (bf16x3, tf32x3)"
        worst = max((f["rms_error"] / rms for f, rms in zip(answer["figures"], answer["eager_rms"], strict=True) if rms > 0), default=0.0)
        if worst > self.rules.tf32_ratio:
            return "stability", f"precision: {worst:.3g} times the rms error of eager's TF32; use TF32, rounded to nearest, or better"
        return None

    precision: str | None = None

    def _measure(self, session: Session, worker: WorkerHandle, opponents: Mapping[str, WorkerHandle]) -> Refusal:
        self.comparisons = []
        for name, opponent in opponents.items():
            calls = session.calls_for(name, [answer["ms"] for answer in self.answers])
            got = performance.checked(session, worker, name, opponent, calls, self.timed)
            if isinstance(got, str):
                return "performance", got
            self.comparisons.append(got)
            self.times["candidate"], self.times[name] = got.candidate.median_ms, got.opponent.median_ms
            if performance.falls_behind(session, got):
                break
        return None

    def _without_interference(self, session: Session, worker: WorkerHandle, opponents: Mapping[str, WorkerHandle],
                              artifact: Path | None) -> tuple[WorkerHandle | None, Refusal]:
        """Opponents alone, after the candidate is dead; where they were slower beside it, all is timed once more in a fresh process."""
        self.log = worker.text.text(0.0)
        self.executor.stop(worker)
        if self._interference(session, opponents) is None:
            return None, None
        fresh = session.start(self.candidate, artifact)
        try:
            JudgedCalls(session, fresh, self.candidate, artifact, self.answers).call("own", 0)
            refusal = self._measure(session, fresh, opponents)
        finally:
            self.log = self.log or fresh.text.text(0.0)
            self.executor.stop(fresh)
        return None, refusal or self._interference(session, opponents)

    def _too_fast(self, session: Session, opponents: Mapping[str, WorkerHandle], artifact: Path | None) -> Refusal:
        """Below the reference's roofline a candidate is timed once more, one call at a time in a fresh process; it may do less work,
        but not move it elsewhere, and it must write its outputs."""
        for made in self.comparisons[:1]:
            reason = performance.impossible(session, made)
            if reason:
                return "performance", reason
            if not performance.below_roofline(session, made):
                continue
            self.labels.append("below the reference's roofline")
            fresh = session.start(self.candidate, artifact)
            try:
                with self.timed("too fast"):
                    JudgedCalls(session, fresh, self.candidate, artifact, self.answers).call("own", 0)
                    reason = performance.control(session, fresh, opponents[made.against], made)
            finally:
                self.executor.stop(fresh)
            if reason:
                return "performance", reason
        return None

    def _interference(self, session: Session, opponents: Mapping[str, WorkerHandle]) -> Refusal:
        with self.timed("alone"):
            reason = performance.interference(session, self.comparisons, opponents)
        return ("performance", reason) if reason else None

    def refused(self, stage: str, reason: str) -> Evaluation:
        """The evaluation of a candidate refused by `stage`."""
        return self._evaluation((stage, reason))

    def _evaluation(self, refusal: Refusal) -> Evaluation:
        oracle = next((a["oracle"] for a in self.answers if a.get("oracle")), "")
        mine, bound = self.times.get("candidate"), self.session.roofline_ms if self.session else None
        share = bound / mine if mine and bound else None
        return Evaluation(
            problem=self.problem.uid, problem_hash=self.problem.hash, candidate=self.candidate.sha256, builder=self.candidate.builder,
            rules=self.rules.label, accepted=refusal is None, refused_by=refusal[0] if refusal else None,
            reason=_printable(refusal[1]) if refusal else "", verdicts=tuple(self.verdicts), comparisons=tuple(self.comparisons),
            machine=self.executor.machine(), oracle=f"eager fp32: {oracle}" if oracle else "fp64", precision_class=self.precision,
            labels=(*self.labels, *way_of_building(self.executor.store, self.candidate)),
            flops=sum(self.session.facts["products"].values()) if self.session else None,
            times_ms=dict(self.times), breakdown_s=dict(self.breakdown), verified=self._verified(), roofline=share,
            log=self.log[-LOG_CHARACTERS:], created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        )

    def _verified(self) -> str:
        if not self.comparisons or self.session is None or not self.session.alive:
            return ""
        made = self.comparisons[0]
        slack = self.session.null(made.candidate.calls_per_window).slack_us(made.candidate.calls_per_window)
        return "window" if slack < 0.02 * made.candidate.median_ms * 1e3 else f"within +-{slack:.1f} us"


_FAULTS = {
    "died": "crashed", "deadline": "too slow", "protocol": "broke the protocol", "raised": "raised an exception",
    "contract": "output contract", "unreadable": "unreadable", "restless": "ran while it should stand still",
}


def _printable(text: str) -> str:
    """The text on one line that no terminal obeys: parts of it are a candidate's own words."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return f" ({lines[-1][:300]})" if lines else ""
