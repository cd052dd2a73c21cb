"""The search on one problem: propose, judge, keep or revert, and judge the champion once more before anything is reported.

Algorithm 1 of the original AutoKernel, with its threshold read as the lower end of an interval, and with every decision on record
before anything follows from it, so that the same command goes on after a kill at any moment.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from autokernel.errors import InternalError, UsageError
from autokernel.moveon import MoveOn
from autokernel.proposers import Foresees, Learns, Observer, ProblemLike, Proposer
from autokernel.records import INCUMBENT_FAILS, Candidate, Evaluation
from autokernel.rules import QUICK, STRICT, Rules
from autokernel.run_folder import RunFolder, describe
from autokernel.standing import Standing
from autokernel.trials import Outcome, Trial, keeps
from autokernel.workspace import Workspace


class Evaluate(Protocol):
    """The one path to a verdict, with its executor bound."""

    def __call__(self, problem: ProblemLike, candidate: Candidate, *, rules: Rules, incumbent: Candidate | None = None,
                 against: tuple[str, ...] = ("eager",)) -> Evaluation:
        """The candidate's evaluation; a bad candidate is a refused one. Raises AutoKernelError for the machine's faults."""


@runtime_checkable
class Prepares(Protocol):
    """What an `Evaluate` has besides if it can build ahead."""

    def prepare(self, problem: ProblemLike, candidate: Candidate) -> None:
        """Begin to build a candidate that will come soon, while another one is judged."""


class Progress(Protocol):
    """Who watches a search; the CLI draws it."""

    def problem_started(self, uid: str, index: int, total: int, standing: Standing) -> None:
        """Problem `index` of `total` (from 1) begins, or goes on from where `standing` is."""

    def trial_done(self, trial: Trial, standing: Standing) -> None:
        """A trial is on record."""

    def problem_ended(self, outcome: Outcome) -> None:
        """A problem is through, for good or for now."""


class Silent:
    """A Progress that shows nothing."""

    def problem_started(self, uid: str, index: int, total: int, standing: Standing) -> None:
        """Nothing."""

    def trial_done(self, trial: Trial, standing: Standing) -> None:
        """Nothing."""

    def problem_ended(self, outcome: Outcome) -> None:
        """Nothing."""


@dataclass(frozen=True)
class LoopOptions:
    """What a search may spend and by which rules it goes."""

    iterations: int = 50  # a problem, 1 to 300
    move_on: MoveOn = field(default_factory=MoveOn)
    inner: Rules = QUICK  # every iteration
    outer: Rules = STRICT  # kept candidates and champions
    strict_within: int = 10  # iterations after which a kept candidate has been through `outer`
    search_against: tuple[str, ...] = ("incumbent", "eager")  # eager alone while there is no incumbent
    final_against: tuple[str, ...] = ("eager", "compile")
    fallbacks: int = 2  # right but slower candidates to try as champion where nothing was kept
    minutes: float | None = None  # wall time of one command, shared over its problems

    def __post_init__(self) -> None:
        if not 1 <= self.iterations <= 300:
            raise UsageError(f"{self.iterations} iterations are out of range. Pass 1 to 300; 50 is the default.")
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"a budget of {self.minutes} minutes leaves no time. Pass more than 0 minutes, or leave it out.")


def search_problem(problem: ProblemLike, proposer: Proposer, evaluate: Evaluate, run: RunFolder, options: LoopOptions,
                   progress: Progress | None = None, deadline: float | None = None) -> Outcome:
    """Search one problem, or go on with it, until a rule ends it; record and return the outcome.

    `deadline` is a time.monotonic() by which the last iteration should have ended, judged by the shortest one; one is made in any case.
    Raises UsageError if the run judged another text under this uid, and what `evaluate`, `proposer` and the disk raise.
    """
    earlier = run.ledger.contents.outcomes.get(problem.uid)
    if earlier is not None and earlier.finished:
        return earlier
    trials = run.ledger.contents.of(problem.uid)
    if any(trial.evaluation.problem_hash != problem.hash for trial in trials):
        raise UsageError(f"the run in '{run.folder}' judged another version of {problem.uid}. "
                         "Pass --fresh to set it aside and begin anew, or --out to choose another folder.")
    standing = Standing(trials)
    workspace = run.workspace(problem, standing)
    if isinstance(proposer, Learns):
        proposer.learn(run.solved(problem.uid))
    if trials and isinstance(proposer, Observer):
        proposer.observe(problem, trials[-1], standing.incumbent)
    search = _Search(problem, proposer, evaluate, run, options, progress or Silent(), deadline, standing, workspace)
    outcome = search.run_to_end()
    run.ledger.end(outcome)
    return outcome


@dataclass
class _Search:
    problem: ProblemLike
    proposer: Proposer
    evaluate: Evaluate
    run: RunFolder
    options: LoopOptions
    progress: Progress
    deadline: float | None
    standing: Standing
    workspace: Workspace
    exhausted: bool = False

    def run_to_end(self) -> Outcome:
        standing = self.standing
        stop = None
        while standing.champion is None and standing.unjudged is None:
            stop = self._stop()
            if stop is None:
                if self._recheck_is_due():
                    self._recheck()
                else:
                    self._iterate()
                continue
            target = standing.incumbent or standing.fallback(self.options.fallbacks)
            if target is None:
                break
            # A refusal here takes the target away and may leave the rule that stopped the search unmet: then it goes on.
            self._judge_again(target, "final", self.options.final_against, note=stop)
        return self._outcome(stop)

    def _stop(self) -> str | None:
        if self.standing.iterations >= self.options.iterations:
            return "iterations"
        rule = self.options.move_on.stops(self.standing)
        if rule is not None:
            return rule
        if self.exhausted:
            return "proposer"
        if self.deadline is not None and self.standing.iterations:
            least_s = min(trial.seconds for trial in self.standing.searched.values())
            if time.monotonic() + least_s > self.deadline:
                return "minutes"
        return None

    def _iterate(self) -> None:
        started = time.monotonic()
        candidate = self.proposer.propose(self.problem, self.standing.history)
        if candidate is None:
            self.exhausted = True
            return
        self.run.store.put(candidate)
        self.workspace.write(candidate.source)
        incumbent = self.standing.incumbent
        opponents = self.options.search_against if incumbent else ("eager",)
        if isinstance(self.evaluate, Prepares) and isinstance(self.proposer, Foresees):
            for likely in self.proposer.foresee(self.problem, self.standing.history, candidate):
                self.evaluate.prepare(self.problem, likely)
        evaluation = self._evaluated(candidate, self.options.inner, opponents, incumbent)
        keep = keeps(evaluation, incumbent.evaluation if incumbent else None, self.options.inner.looks.keep_above)
        trial = Trial(
            iteration=self.standing.iterations + 1, phase="search", decision="kept" if keep else "reverted", evaluation=evaluation,
            proposer=candidate.proposer or self.proposer.name, parent=candidate.parent, note=candidate.note,
            seconds=time.monotonic() - started,
        )
        self._record(trial)
        if keep:
            self.workspace.commit(candidate.source, describe(trial))
        else:
            self.workspace.revert(candidate.source)
            self._go_back_from(incumbent, "it failed as an opponent too often")
        self._announce(trial)

    def _recheck_is_due(self) -> bool:
        since, incumbent = self.standing.unchecked_since, self.standing.incumbent
        if since is None or incumbent is None:
            return False
        return self.standing.doubted == incumbent.iteration or self.standing.iterations - since >= self.options.strict_within

    def _recheck(self) -> None:
        assert self.standing.incumbent is not None  # something is unchecked
        self._judge_again(self.standing.incumbent, "strict", ("eager",), note="")

    def _judge_again(self, target: Trial, phase: str, opponents: tuple[str, ...], note: str) -> None:
        started = time.monotonic()
        candidate = self.run.candidate(target)
        evaluation = self._evaluated(candidate, self.options.outer, opponents, None)
        trial = Trial(
            iteration=target.iteration, phase=phase, decision="kept" if evaluation.accepted else "reverted", evaluation=evaluation,
            proposer=target.proposer, parent=target.parent, note=note, seconds=time.monotonic() - started,
        )
        before = self.standing.incumbent
        self._record(trial)
        self._go_back_from(before, f"{evaluation.rules} refused iteration {target.iteration} ({evaluation.refused_by})")
        self._announce(trial)

    def _go_back_from(self, before: Trial | None, why: str) -> None:
        """Commit the text of whoever is the incumbent now, where `before` is it no more."""
        incumbent = self.standing.incumbent
        if incumbent is not before:
            text = self.run.store.text(incumbent.evaluation.candidate) if incumbent else self.workspace.start
            back_to = f"iteration {incumbent.iteration}" if incumbent else "the start"
            self.workspace.commit(text, f"back to {back_to}: {why}")

    def _evaluated(self, candidate: Candidate, rules: Rules, opponents: tuple[str, ...], incumbent: Trial | None) -> Evaluation:
        held = self.run.candidate(incumbent) if incumbent else None
        evaluation = self.evaluate(self.problem, candidate, rules=rules, incumbent=held, against=opponents)
        if evaluation.problem != self.problem.uid or evaluation.candidate != candidate.sha256:
            raise InternalError(f"asked about {candidate.sha256[:12]} on {self.problem.uid}, evaluate answered about "
                                f"{evaluation.candidate[:12]} on {evaluation.problem}; check the caller.")
        doubtful = held is not None and evaluation.reason.startswith(INCUMBENT_FAILS)
        if evaluation.refused_by == "problem" and not evaluation.unjudgeable and not doubtful:
            # Recorded, it would end the problem for good or throw a candidate away, for what may be the machine's fault.
            raise InternalError(f"it could not be judged this time ({evaluation.reason.rstrip('.')}). "
                                "Run the same command again, and check the machine with `autokernel doctor` if it comes back.")
        return evaluation

    def _record(self, trial: Trial) -> None:
        self.run.record(trial)
        self.standing.apply(trial)

    def _announce(self, trial: Trial) -> None:
        if isinstance(self.proposer, Observer):
            self.proposer.observe(self.problem, trial, self.standing.incumbent)
        self.progress.trial_done(trial, self.standing)

    def _outcome(self, stop: str | None) -> Outcome:
        standing = self.standing
        outcome = Outcome(problem=self.problem.uid, status="none", stopped_by=stop or "proposer", iterations=standing.iterations,
                          kept=standing.kept, seconds=standing.seconds)
        if standing.champion is not None:
            self.run.write_winner(self.problem, standing.champion)
            evaluation = standing.champion.evaluation
            eager, compiled = evaluation.against("eager"), evaluation.against("compile")
            return replace(
                outcome, status="champion", stopped_by=standing.champion.note, champion=evaluation.candidate,
                speedup=eager.speedup if eager else None, low=eager.low if eager else None, high=eager.high if eager else None,
                compile_speedup=compiled.speedup if compiled else None, reason=evaluation.reason,
            )
        if standing.unjudged is not None:
            return replace(outcome, status="unjudged", stopped_by="problem", reason=standing.unjudged.evaluation.reason)
        last = standing.history[-1].reason if standing.history else "the proposer had none"
        return replace(outcome, reason=f"no candidate passed: {last}")
