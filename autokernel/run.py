"""A whole level: one problem after another, with the time given shared fairly among those that are left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autokernel.errors import InternalError
from autokernel.loop import Evaluate, LoopOptions, Progress, Silent, search_problem
from autokernel.proposers import LooksAhead, ProblemLike, Proposer
from autokernel.run_folder import RunFolder
from autokernel.standing import Standing
from autokernel.trials import Outcome

FINAL_SHARE = 0.2  # of a problem's time, kept back for its final trial before the first one's length is known
FINAL_SHARE_MOST = 0.5


@dataclass(frozen=True)
class LevelOutcome:
    """What one command over a level came to."""

    outcomes: tuple[Outcome, ...]  # of the problems asked for, in their order, from now and earlier
    not_reached: tuple[str, ...]  # uids the time did not suffice for; the same command goes on with them
    interrupted: bool  # Ctrl-C ended it


def run_level(problems: Sequence[ProblemLike], proposer: Proposer, evaluate: Evaluate, run: RunFolder, options: LoopOptions,
              progress: Progress | None = None, missing: Callable[[ProblemLike], Sequence[str]] | None = None,
              began: float | None = None) -> LevelOutcome:
    """Search the problems in their order; those that the run has finished already are passed over.

    `began` is the time.monotonic() from which the minutes count, now where it is None. `missing` names what this machine lacks for a
    problem: it is then recorded as "missing" and the level goes on. So it does after an InternalError, recorded as "error"; both are
    tried again when the run is resumed. Ctrl-C ends the search and is reported, not raised. Raises what `search_problem` raises besides.
    """
    watch = progress or Silent()
    ends = None if options.minutes is None else (time.monotonic() if began is None else began) + 60.0 * options.minutes
    outcomes = run.ledger.contents.outcomes
    open_problems = [problem for problem in problems if not (problem.uid in outcomes and outcomes[problem.uid].finished)]
    interrupted = False
    try:
        for index, problem in enumerate(open_problems):
            deadline = None
            if ends is not None:
                now = time.monotonic()
                if now >= ends:
                    break
                share = (ends - now) / (len(open_problems) - index)
                deadline = now + share - _kept_back(run, share)
            if isinstance(proposer, LooksAhead):
                for soon in open_problems[index:index + 2]:
                    proposer.look_ahead(soon)
            place = 1 + [asked.uid for asked in problems].index(problem.uid)
            watch.problem_started(problem.uid, place, len(problems), Standing(run.ledger.contents.of(problem.uid)))
            watch.problem_ended(_search_or_explain(problem, proposer, evaluate, run, options, watch, missing, deadline))
    except KeyboardInterrupt:
        interrupted = True
    outcomes = run.ledger.contents.outcomes
    return LevelOutcome(
        outcomes=tuple(outcomes[problem.uid] for problem in problems if problem.uid in outcomes),
        not_reached=tuple(problem.uid for problem in problems if problem.uid not in outcomes), interrupted=interrupted,
    )


def _search_or_explain(problem: ProblemLike, proposer: Proposer, evaluate: Evaluate, run: RunFolder, options: LoopOptions, watch: Progress,
                       missing: Callable[[ProblemLike], Sequence[str]] | None, deadline: float | None) -> Outcome:
    lacking = missing(problem) if missing else ()
    if lacking:
        outcome = Outcome(problem.uid, status="missing", stopped_by="problem", reason=f"needs {', '.join(lacking)}")
    else:
        try:
            return search_problem(problem, proposer, evaluate, run, options, watch, deadline)
        except InternalError as error:
            standing = Standing(run.ledger.contents.of(problem.uid))
            outcome = Outcome(problem.uid, status="error", stopped_by="problem", reason=str(error), iterations=standing.iterations,
                              kept=standing.kept, seconds=standing.seconds)
    run.ledger.end(outcome)
    return outcome


def _kept_back(run: RunFolder, share: float) -> float:
    """Seconds of a problem's share to leave for its final trial: as long as the longest of the run took, or a fixed part at first."""
    finals = [trial.seconds for trial in run.ledger.contents.trials if trial.phase == "final"]
    return min(share * FINAL_SHARE_MOST, max(finals, default=share * FINAL_SHARE))
