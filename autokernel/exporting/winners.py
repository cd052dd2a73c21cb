"""Winners that may leave: champions of a run, or one candidate judged strict here, each with the evaluation that says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autokernel import ledger
from autokernel.errors import AutoKernelError, UsageError
from autokernel.records import Candidate, Evaluation
from autokernel.rules import STRICT
from autokernel.store import CandidateStore
from exporters import ExportError, refused


class NamedProblem(Protocol):
    """What export needs of a problem."""

    @property
    def uid(self) -> str:
        """E.g. "L1/19"."""

    @property
    def name(self) -> str:
        """E.g. "19_ReLU"."""

    @property
    def hash(self) -> str:
        """Hash of its text."""

    @property
    def source(self) -> str:
        """Its text."""


@dataclass(frozen=True)
class Winner:
    """A candidate, its problem, and the evaluation that accepted it."""

    problem: NamedProblem
    candidate: Candidate
    evaluation: Evaluation


def check_verified(evaluation: Evaluation) -> None:
    """Raise ExportError unless the evaluation is one that a card may rest on: accepted, under the full rules, timed."""
    uid = evaluation.problem
    if not evaluation.accepted:
        raise refused(f"the gate refused this candidate on {uid} ({evaluation.refused_by}: {evaluation.reason}). "
                      "Mend the candidate and judge it again: autokernel kb eval.", rule="accepted")
    if evaluation.rules.partition("/")[0] != STRICT.name:  # an older version will do: the proof is made under today's
        raise refused(f"the evaluation on {uid} was made under {evaluation.rules}, and only {STRICT.name} counts. "
                      "Judge the candidate again under --rules strict, or export the file with --problem.", rule="verified")
    if not evaluation.comparisons:
        why = f" ({evaluation.labels[0]})" if evaluation.labels else ""
        raise refused(f"the evaluation on {uid} has no measured time{why}. "
                      "Judge it on a device that the kernel runs on; interpreted Triton is not timed.", rule="verified")


def check_gain(winner: Winner) -> None:
    """Raise ExportError unless the winner is faster than eager with the whole interval: a run also ends with champions that are not."""
    pair = winner.evaluation.against("eager")
    if pair is not None and pair.low <= 1.0:
        raise refused(f"it is no gain over eager ({pair.speedup:.2f}x, {pair.low:.2f} to {pair.high:.2f}). "
                      "Name it with --problems to export it all the same.", rule="gain")


def winners_of_run(folder: Path, load: Callable[[str, str], NamedProblem], ids: Sequence[int] | None, source: str | None) -> list[Winner]:
    """The run's champions, in the order of their ids; `ids` picks some of them. `load(uid, source)` gives a problem.

    Raises UsageError where the folder holds no run or a problem asked for has no champion, ExportError naming the rule for those that may
    not leave, StorageError besides.
    """
    contents = ledger.read(folder)
    if contents.header is None:
        raise UsageError(f"the run in '{folder}' has no first line yet. Run it first: autokernel kb run --out DIR.")
    champions = contents.champions()
    numbers = {uid: int(uid.rpartition("/")[2]) for uid in champions if uid.rpartition("/")[2].isdigit()}
    missing = [number for number in ids or () if number not in numbers.values()]
    if missing:
        raise refused(f"problem {missing[0]} has no champion in '{folder}': nothing there passed its final judgement. "
                      "Leave it out of --problems, or go on with the run first.", rule="verified")
    if not champions:
        raise refused(f"no candidate of the run in '{folder}' passed its final judgement. "
                      "Go on with the run first.", rule="verified")
    named = source or str(contents.header.options.get("source") or "auto")
    store = CandidateStore(folder / "candidates")
    winners = []
    for uid in sorted(champions, key=lambda uid: (numbers.get(uid, 0), uid)):
        if ids is not None and numbers.get(uid) not in ids:
            continue
        trial = champions[uid]
        problem = load(uid, named)
        if problem.hash != trial.evaluation.problem_hash:
            raise UsageError(f"{uid} of '{named}' is not the problem that the run judged (its text differs). "
                             "Pass --source with the problems of the run.")
        candidate = Candidate(source=store.text(trial.evaluation.candidate), builder=trial.evaluation.builder, proposer=trial.proposer)
        winners.append(Winner(problem, candidate, trial.evaluation))
    return winners


def sift(winners: Sequence[Winner], check: Callable[[Winner], None]) -> tuple[list[Winner], list[tuple[Winner, str]]]:
    """Those that `check` lets pass, and the others with why: one winner that may not leave does not keep a whole run here."""
    good, left = [], []
    for winner in winners:
        try:
            check(winner)
            good.append(winner)
        except (ExportError, AutoKernelError) as error:
            left.append((winner, str(error)))
    return good, left
