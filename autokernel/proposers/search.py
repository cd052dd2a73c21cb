"""The built-in search: starters matched to the traced problem, launch parameters chosen by optuna. Needs no model and no torch here.

First come each template's own first choices: the likeliest of every template, and beside it what won on a problem of this run where the
template began likewise; then the second of every template, and so on. Then two of three proposals change one parameter of the fastest
candidate so far by one step, the third is optuna's own: launch parameters interact little, and random choices from a space of ten
thousand are mostly far from good.

Its state is a function of (seed, solved problems, history): each proposal is recomputed by asking and telling from the start, so that a
run which was killed goes on with the proposal it would have made.
"""

from __future__ import annotations

import hashlib
import math
import random
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from autokernel.proposers import ProblemLike, Solved, starting_text
from autokernel.proposers.graph import Unmatchable
from autokernel.proposers.learned import Lessons
from autokernel.proposers.template import Template
from autokernel.proposers.templates import templates
from autokernel.proposers.tracer import confined
from autokernel.records import Candidate, Evaluation

if TYPE_CHECKING:
    import optuna

REFUSED = 30.0  # told for a refused candidate, in log(ms): slower than anything timed
REPEATS = 60  # asks that may give a known text, one after another, before the search is over


class SearchProposer:
    """Proposes each template's first choices, then what optuna's TPE asks for; never a text twice."""

    name = "search"

    def __init__(self, backend: str = "auto", device: str = "cpu", seed: int = 0) -> None:
        self.backend, self.device, self.seed = backend, device, seed
        self._problems: dict[str, _Problem] = {}
        self._lessons = Lessons()
        self._found: dict[str, Future[list[Template]]] = {}  # begun before their problem's turn

    def learn(self, solved: Sequence[Solved]) -> None:
        """As `Learns` has it."""
        self._lessons = Lessons(solved)

    def propose(self, problem: ProblemLike, history: Sequence[Evaluation]) -> Candidate | None:
        """The next candidate, or None when every choice was tried. Where no starter fits, the reference's text, once."""
        key = _key(problem)
        if key not in self._problems:
            self._problems[key] = self._analyse(problem)
        known = self._problems[key]
        if known.reason:
            source = starting_text(problem.source)
            candidate = Candidate(source, "python", proposer=self.name, note=f"no starter: {known.reason}"[:200])
            return None if any(e.candidate == candidate.sha256 for e in history) else candidate
        return known.next(history)

    def foresee(self, problem: ProblemLike, history: Sequence[Evaluation], pending: Candidate) -> Sequence[Candidate]:
        """The next first choice that is neither judged nor pending, if any is left."""
        known = self._problems.get(_key(problem))
        return known.following({pending.sha256, *(e.candidate for e in history)}) if known is not None else ()

    def look_ahead(self, problem: ProblemLike) -> None:
        """As `LooksAhead` has it: tracing and torch.compile's seed take seconds. For a GPU, on machines with cores to spare."""
        key = _key(problem)
        if self.device == "cpu" or not confined() or key in self._problems or key in self._found:
            return
        begun = self._found[key] = Future[list[Template]]()

        def analyse() -> None:
            try:
                begun.set_result(templates(problem.source, self.backend, self.device))
            except Exception as met:  # noqa: BLE001 (whatever it is, whoever waits for it meets it)
                begun.set_exception(met)

        threading.Thread(target=analyse, name="autokernel-analysis", daemon=True).start()  # a command's end does not wait for it

    def _analyse(self, problem: ProblemLike) -> _Problem:
        begun = self._found.pop(_key(problem), None)
        try:
            found = begun.result() if begun is not None else templates(problem.source, self.backend, self.device)
        except Unmatchable as met:
            return _Problem([], self.seed, self._lessons, str(met))
        return _Problem(found, self.seed, self._lessons, "")


def _key(problem: ProblemLike) -> str:
    """What an analysis depends on: the problem's text."""
    return hashlib.sha256(problem.source.encode("utf-8", "surrogatepass")).hexdigest()


class _Problem:
    """One problem's templates and the study over their choices."""

    def __init__(self, found: Sequence[Template], seed: int, lessons: Lessons, reason: str) -> None:
        self.templates = {t.name: t for t in found}
        self.learned = {t.name: choice for t in found if (choice := lessons.choice(t)) is not None}
        self.queue = self._queue()
        self.seed = seed
        self.reason = reason
        self._study: optuna.Study | None = None
        self._values: dict[str, float] = {}  # sha256 -> told value
        self._open: tuple[optuna.trial.Trial, Candidate] | None = None  # asked, not told yet
        self._asked: list[dict[str, Any]] = []  # what each trial was asked with, by trial number

    def next(self, history: Sequence[Evaluation]) -> Candidate | None:
        """The first proposal that the history has no evaluation of; None when the choices are used up."""
        judged = {e.candidate: value(e) for e in history}
        if self._study is None or any(judged.get(sha) != v for sha, v in self._values.items()):
            self._study, self._values, self._open, self._asked = self._fresh(), {}, None, []
        best = min((e for e in history if e.accepted), key=value, default=None)
        repeats = 0
        while repeats < REPEATS:
            trial, candidate = self._open or self._ask(self._study, best)
            self._open = None
            if candidate.sha256 in self._values:
                self._study.tell(trial, self._values[candidate.sha256])
                repeats += 1
            elif candidate.sha256 in judged:
                self._values[candidate.sha256] = judged[candidate.sha256]
                self._study.tell(trial, judged[candidate.sha256])
                repeats = 0
            else:
                self._open = trial, candidate
                return candidate
        return None

    def following(self, seen: set[str]) -> tuple[Candidate, ...]:
        """The first choice that comes first of those not seen; none when all were."""
        for template, choice in self.queue:
            candidate = Candidate(template.render(dict(choice)), template.builder, proposer=SearchProposer.name)
            if candidate.sha256 not in seen:
                return (candidate,)
        return ()

    def _queue(self) -> list[tuple[Template, Mapping[str, Any]]]:
        """The first choices in the order in which they are tried."""
        queue: list[tuple[Template, Mapping[str, Any]]] = []
        for place in range(max((len(t.firsts) for t in self.templates.values()), default=0)):
            for name, template in self.templates.items():
                queue += [(template, choice) for choice in template.firsts[place:place + 1]]
                queue += [(template, self.learned[name])] if place == 0 and name in self.learned else []
        return queue

    def _fresh(self) -> optuna.Study:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self.seed, n_startup_trials=8))
        for template, choice in self.queue:
            study.enqueue_trial({"template": template.name, **{f"{template.name}.{k}": choice[k] for k in template.space}})
        return study

    def _ask(self, study: optuna.Study, best: Evaluation | None) -> tuple[optuna.trial.Trial, Candidate]:
        fastest = self._fastest(study)
        waiting = len(self._asked) < len(self.queue)
        near = self._near(fastest) if fastest is not None and not waiting and len(self._asked) % 3 != 2 else None
        if near is not None:
            study.enqueue_trial(near)
        trial = study.ask()
        template = self.templates[trial.suggest_categorical("template", list(self.templates))]
        params: dict[str, Any] = dict(template.params)
        params.update({k: trial.suggest_categorical(f"{template.name}.{k}", choices) for k, choices in template.space.items()})
        self._asked.append(dict(trial.params))
        chosen = ", ".join(f"{k}={v}" for k, v in params.items() if k in template.space)
        how = self._how(template, params, near is not None)
        return trial, Candidate(template.render(params), template.builder, parent=best.candidate if best else None,
                                proposer=SearchProposer.name, note=f"{template.idea}; {how}: {chosen}"[:200])

    def _how(self, template: Template, params: Mapping[str, Any], near: bool) -> str:
        """Why these were chosen, in a few words."""
        if any(all(params[k] == choice[k] for k in template.space) for choice in template.firsts):
            return "first choice"
        learned = self.learned.get(template.name)
        if learned is not None and all(params[k] == learned[k] for k in template.space):
            return "what won where it began likewise"
        return "a step from the fastest" if near else "optuna's choice"

    def _fastest(self, study: optuna.Study) -> dict[str, Any] | None:
        """What the fastest accepted candidate was asked with."""
        told = [t for t in study.get_trials(deepcopy=False) if t.value is not None and t.value < REFUSED and t.number < len(self._asked)]
        return self._asked[min(told, key=lambda t: (t.value or 0.0, t.number)).number] if told else None

    def _near(self, fastest: dict[str, Any]) -> dict[str, Any] | None:
        """The fastest choice with one parameter a step away, not asked yet; None where all were."""
        template = self.templates[fastest["template"]]
        near = [{**fastest, name: step} for key, choices in template.space.items() for name in (f"{template.name}.{key}",)
                for step in _steps(choices, fastest[name])]
        fresh = [choice for choice in near if choice not in self._asked]
        return random.Random(f"{self.seed} {len(self._asked)}").choice(fresh) if fresh else None


def _steps(choices: Sequence[Any], chosen: Any) -> list[Any]:
    """The choices beside the chosen one."""
    place = choices.index(chosen) if chosen in choices else 0
    return [choices[i] for i in (place - 1, place + 1) if 0 <= i < len(choices)]


def value(evaluation: Evaluation) -> float:
    """What the study minimises: log of the candidate's median ms, whatever it was compared with; REFUSED if it was refused."""
    times = [c.candidate.median_ms for c in evaluation.comparisons]
    if not evaluation.accepted or not times or min(times) <= 0:
        return REFUSED
    return math.log(min(times))


PROPOSER = SearchProposer
