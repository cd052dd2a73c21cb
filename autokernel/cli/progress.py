"""Progress on stderr: a bar or spinner where a person watches, plain lines everywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

import click

from autokernel.cli.layout import short

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from autokernel.records import Evaluation
    from autokernel.standing import Standing
    from autokernel.trials import Outcome, Trial

LONGEST_REASON = 160  # characters of a reason on a line
ENDED_BY = {
    "iterations": "--iterations", "reverts": "--max-reverts", "roofline": "--stop-roofline", "hours": "--max-hours",
    "speedup": "--stop-speedup", "closed": "--stop-closed (eager is at the roofline itself)", "minutes": "--minutes",
    "proposer": "the proposer (it has no more)",
}
"""What ends a search, by the ledger's word for it; else an option."""


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that `what` is under way until the block ends."""
    if not sys.stderr.isatty():
        click.echo(f"{what} ...", err=True)
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


class LevelProgress:
    """A line for each problem and each judged candidate; on a terminal a bar of the present problem's iterations below them."""

    def __init__(self, iterations: int) -> None:
        self._iterations = iterations
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> LevelProgress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._bar = Progress(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                                 console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=self._iterations)
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def problem_started(self, uid: str, index: int, total: int, standing: Standing) -> None:
        """Problem `index` of `total` begins, or goes on."""
        again = f", goes on after iteration {standing.iterations}" if standing.iterations else ""
        self._line(f"{uid} ({index} of {total}){again}")
        if self._bar is not None and self._task is not None:
            self._bar.reset(self._task, description=f"{uid} ({index}/{total})", completed=standing.iterations)

    def trial_done(self, trial: Trial, standing: Standing) -> None:
        """One line for the trial."""
        self._line(f"  {trial_line(trial)}")
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=standing.iterations)

    def problem_ended(self, outcome: Outcome) -> None:
        """One line for how the problem ended."""
        self._line(f"  {outcome_line(outcome)}")

    def _line(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(text, err=True)


def trial_line(trial: Trial) -> str:
    """E.g. `#3 kept      triton  1.32x eager [1.30, 1.35]  block 512  (4.1 s)`."""
    phase = "" if trial.phase == "search" else f" {trial.phase}"
    evaluation = trial.evaluation
    note = f"ended by {ENDED_BY.get(trial.note, trial.note)}" if trial.phase == "final" and trial.note else trial.note
    said = [evaluation.builder, _timed(evaluation),
            "" if evaluation.accepted else f"refused by {evaluation.refused_by}: {short(evaluation.reason, LONGEST_REASON)}",
            short(note, LONGEST_REASON)]
    return f"#{trial.iteration}{phase} {trial.decision:<8}  {'  '.join(part for part in said if part)}  ({trial.seconds:.1f} s)"


def outcome_line(outcome: Outcome) -> str:
    """E.g. `champion 1.32x eager [1.30, 1.35], 0.98x compile; ended by --max-reverts after 9 iterations`."""
    if outcome.status != "champion":
        return f"{outcome.status}: {short(outcome.reason, LONGEST_REASON)}"
    speed = f" {speedup_text(outcome.speedup, outcome.low, outcome.high, 'eager')}" if outcome.speedup is not None else ""
    compiled = f", {outcome.compile_speedup:.2f}x compile" if outcome.compile_speedup is not None else ""
    many = "1 iteration" if outcome.iterations == 1 else f"{outcome.iterations} iterations"
    proven = "" if outcome.low is None or outcome.low > 1.0 else ", no gain that the interval shows"
    return f"champion{speed}{compiled}{proven}; ended by {ENDED_BY.get(outcome.stopped_by, outcome.stopped_by)} after {many}"


def speedup_text(speedup: float, low: float | None, high: float | None, against: str = "") -> str:
    """E.g. `1.32x eager [1.30, 1.35]`."""
    name = f"x {against}" if against else "x"
    return f"{_number(speedup)}{name}" + (f" [{_number(low)}, {_number(high)}]" if low is not None and high is not None else "")


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.3g}"


def _timed(evaluation: Evaluation) -> str:
    return ", ".join(speedup_text(c.speedup, c.low, c.high, c.against) for c in evaluation.comparisons)
