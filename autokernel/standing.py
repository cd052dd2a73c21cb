"""Where the search on one problem stands: a fold over its trials, the same whether they were just made or read from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autokernel.records import Evaluation
from autokernel.trials import Trial

MOST_DOUBTS = 3  # candidates that an incumbent may cost by failing beside them, though it passes alone


class Standing:
    """The state of one problem's search. It changes by `apply` and by nothing else, so that a resumed run stands where the first did."""

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self.searched: dict[int, Trial] = {}  # by iteration
        self.chain: list[Trial] = []  # kept and not refused since, oldest first; the last is the incumbent
        self.rechecked: dict[int, Trial] = {}  # by iteration: the strict trial that a kept candidate passed
        self.champion: Trial | None = None  # the final trial that stood
        self.unjudged: Trial | None = None  # a trial saying that the problem itself cannot be judged
        self.doubted: int | None = None  # iteration of the incumbent beside which the problem could not be judged
        self._doubts: Counter[int] = Counter()  # by iteration, how often it was so
        self.reverts_in_a_row = 0
        self.seconds = 0.0
        self._history: dict[int, Evaluation] = {}
        self._given_up: set[int] = set()
        for trial in trials:
            self.apply(trial)

    def apply(self, trial: Trial) -> None:
        """Take in the next trial of this problem."""
        self.seconds += trial.seconds
        if trial.evaluation.refused_by == "problem":
            # The problem could be judged when the incumbent was, so now the incumbent may be what fails as an opponent.
            if trial.phase == "search" and self.chain:
                self._doubt(self.chain[-1].iteration)
            elif trial.evaluation.unjudgeable:
                self.unjudged = trial
        if trial.phase == "search":
            self.searched[trial.iteration] = trial
            self._history[trial.iteration] = trial.evaluation
            self.reverts_in_a_row = 0 if trial.kept else self.reverts_in_a_row + 1
            if trial.kept:
                self.chain.append(trial)
        elif not trial.kept:
            self.chain = [kept for kept in self.chain if kept.iteration != trial.iteration]
            self._given_up.add(trial.iteration)
            self._history[trial.iteration] = trial.evaluation
        elif trial.phase == "strict":
            self.rechecked[trial.iteration] = trial
        else:
            self.champion = trial

    def _doubt(self, iteration: int) -> None:
        """The incumbent may be what failed as an opponent: it is to be judged again, and if it passed that, dropped when it has cost too
        many candidates."""
        self.doubted = iteration
        self._doubts[iteration] += 1
        if iteration in self.rechecked and self._doubts[iteration] >= MOST_DOUBTS:
            self.chain.pop()
            self._given_up.add(iteration)

    @property
    def iterations(self) -> int:
        """The number of the last iteration, 0 before the first."""
        return max(self.searched, default=0)

    @property
    def kept(self) -> int:
        """How many search iterations were kept, those refused later among them."""
        return sum(trial.kept for trial in self.searched.values())

    @property
    def incumbent(self) -> Trial | None:
        """The search trial that candidates are compared with, or None where that is eager."""
        return self.chain[-1] if self.chain else None

    @property
    def history(self) -> tuple[Evaluation, ...]:
        """One evaluation an iteration, in order; where a kept candidate was refused later, that refusal stands in its place."""
        return tuple(self._history[number] for number in sorted(self._history))

    @property
    def speedup(self) -> float | None:
        """The incumbent's best known speedup against eager (strict before quick), or None."""
        best = self._best_evaluation()
        comparison = best.against("eager") if best else None
        return comparison.speedup if comparison else None

    @property
    def roofline(self) -> float | None:
        """The share of the roofline that the incumbent reaches, or None where it is not known."""
        best = self._best_evaluation()
        return best.roofline if best else None

    @property
    def eager_roofline(self) -> float | None:
        """The share of the roofline that eager surely reaches itself, by the upper ends of what was measured; None before that."""
        return max((share for share in map(_eager_roofline, self.history) if share is not None), default=None)

    @property
    def unchecked_since(self) -> int | None:
        """The iteration of the oldest kept candidate since the last one that passed the strict rules; None if none waits.

        The newest stands for all of them: if it passes, older ones are needed no more.
        """
        last_passed = max(self.rechecked, default=0)
        return next((trial.iteration for trial in self.chain if trial.iteration > last_passed), None)

    def fallback(self, tries: int) -> Trial | None:
        """The fastest right candidate that was never kept, for problems where none beat eager; None after `tries` of them fell."""
        rest = [trial for number, trial in self.searched.items() if trial.evaluation.accepted and not trial.kept]
        fallen = sum(trial.iteration in self._given_up for trial in rest)
        if fallen >= tries:
            return None
        left = [trial for trial in rest if trial.iteration not in self._given_up]
        return max(left, key=lambda trial: (_eager_speedup(trial.evaluation), -trial.iteration), default=None)

    def _best_evaluation(self) -> Evaluation | None:
        if self.incumbent is None:
            return None
        return self.rechecked.get(self.incumbent.iteration, self.incumbent).evaluation


def _eager_speedup(evaluation: Evaluation) -> float:
    comparison = evaluation.against("eager")
    return comparison.speedup if comparison else 0.0


def _eager_roofline(evaluation: Evaluation) -> float | None:
    comparison = evaluation.against("eager")
    return evaluation.roofline / comparison.high if comparison and evaluation.roofline is not None else None
