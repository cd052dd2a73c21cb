"""What ledgers say of each problem, as one row: the champion's final figures, or why there is none."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autokernel.ledger import LedgerContents
from autokernel.records import Comparison, Evaluation
from autokernel.trials import Outcome, RunHeader, Trial

CLEAR = 1.05  # a speedup that counts as one
TWICE = 2.0


@dataclass(frozen=True)
class Row:
    """One problem of one run."""

    uid: str
    status: str  # an Outcome's
    kernel: str  # the champion's builder and idea, else empty
    reason: str
    eager: Comparison | None
    compiled: Comparison | None
    precision: str
    roofline: float | None
    tries: int
    ended_by: str
    command: str  # judges the champion again; empty where there is none
    trials: tuple[Trial, ...]

    @property
    def number(self) -> int:
        """The problem's number in its level."""
        return int(self.uid.split("/")[1])

    @property
    def searched(self) -> tuple[Trial, ...]:
        """The trials that were tries of the search, not measured again."""
        return tuple(trial for trial in self.trials if trial.phase == "search")

    @property
    def speedups(self) -> Mapping[str, Comparison]:
        """The final comparisons by opponent."""
        return {made.against: made for made in (self.eager, self.compiled) if made is not None}


def rows(runs: Mapping[str, LedgerContents]) -> list[Row]:
    """The rows of runs by folder, in the problems' order."""
    made = [_row(folder, contents, outcome) for folder, contents in runs.items() for outcome in contents.outcomes.values()]
    return sorted(made, key=lambda row: row.number)


def _row(folder: str, contents: LedgerContents, outcome: Outcome) -> Row:
    trials = tuple(contents.of(outcome.problem))
    final = contents.champions().get(outcome.problem) if outcome.status == "champion" else None
    evaluation = final.evaluation if final is not None else None
    return Row(
        uid=outcome.problem, status=outcome.status, kernel=_kernel(evaluation, trials), reason=outcome.reason,
        eager=evaluation.against("eager") if evaluation else None, compiled=evaluation.against("compile") if evaluation else None,
        precision=(evaluation.precision_class or "") if evaluation else "", roofline=evaluation.roofline if evaluation else None,
        tries=outcome.iterations, ended_by=outcome.stopped_by,
        command=_command(folder, contents.header, outcome.problem) if evaluation and contents.header else "", trials=trials,
    )


def _kernel(champion: Evaluation | None, trials: Sequence[Trial]) -> str:
    if champion is None:
        return ""
    note = next((trial.note for trial in trials if trial.evaluation.candidate == champion.candidate), "")
    return f"{champion.builder}: {'the reference as it is' if note.startswith('no starter') else note.split(':')[0].split(';')[0]}"


def _command(folder: str, header: RunHeader, uid: str) -> str:
    source = str(header.options.get("source") or "auto")
    return shlex.join(["autokernel", "kb", "eval", uid, str(Path(folder) / "winners" / f"{uid.replace('/', '_')}.py"),
                       "--against", "eager,compile", "--source", source])


def spread(made: Comparison | None) -> str:
    """A speedup with its interval, e.g. "2.00 (1.90 to 2.10)"."""
    return f"{made.speedup:.2f} ({made.low:.2f} to {made.high:.2f})" if made else "not timed"


def summary(against: str, made: Sequence[Comparison]) -> str:
    """How many are faster, by the interval's lower end and by the median, and the geometric mean."""
    sure = sum(pair.low > CLEAR for pair in made)
    fast, twice = (sum(pair.speedup > least for pair in made) for least in (CLEAR, TWICE))
    mean = statistics.geometric_mean([pair.speedup for pair in made]) if made else 0.0
    return (f"Against {against}: {len(made)} timed, {sure} above {CLEAR}x with the whole interval, {fast} by the median, {twice} above "
            f"{TWICE:g}x; geometric mean {mean:.2f}x.")
