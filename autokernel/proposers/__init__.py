"""Where candidates come from: one strategy a file in this folder, found by scanning.

A strategy's module has a module-level `PROPOSER`: a class or function that makes a `Proposer` from any of `Setup`'s fields, which it
asks for by naming its parameters after them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from autokernel.errors import InternalError, UsageError
from autokernel.records import Candidate, Evaluation
from autokernel.trials import Trial

_OPTIONS = {"folder": "--candidates", "path": "--watch"}  # the command line's words for Setup's fields, where they differ


class ProblemLike(Protocol):
    """What the search reads of a problem; the bridge's `Problem` has it."""

    @property
    def uid(self) -> str:
        """E.g. "L1/19"."""

    @property
    def name(self) -> str:
        """The file's name without .py."""

    @property
    def source(self) -> str:
        """The problem's text, with class Model."""

    @property
    def hash(self) -> str:
        """Hash of the text."""


class Proposer(Protocol):
    """A search strategy."""

    name: str

    def propose(self, problem: ProblemLike, history: Sequence[Evaluation]) -> Candidate | None:
        """The next candidate, or None where the strategy has no more.

        `history` holds one evaluation an iteration, oldest first, also after a resume: a strategy that derives its state from it
        resumes for nothing. Where a kept candidate was refused by the full rules later, that refusal stands in its place.
        """


@runtime_checkable
class Foresees(Protocol):
    """What a strategy has besides if it can say what is likely to come next, so that it is built while another candidate is timed."""

    def foresee(self, problem: ProblemLike, history: Sequence[Evaluation], pending: Candidate) -> Sequence[Candidate]:
        """One or more candidates likely to be proposed after `pending`, whatever becomes of it; may be none, and may be wrong."""


@runtime_checkable
class LooksAhead(Protocol):
    """What a strategy has besides if it has much to do before a problem's first candidate."""

    def look_ahead(self, problem: ProblemLike) -> None:
        """Called with the problem whose turn is next, before the present one's candidates are timed. Returns at once; may do nothing."""


@dataclass(frozen=True)
class Solved:
    """A problem of this run that has a champion: the texts tried on it, oldest first, and the one that stood."""

    tried: tuple[str, ...]
    champion: str


@runtime_checkable
class Learns(Protocol):
    """What a strategy has besides if it goes by what won on other problems."""

    def learn(self, solved: Sequence[Solved]) -> None:
        """Called before a problem's search begins or goes on, with those that were solved before it began, oldest first."""


@runtime_checkable
class Observer(Protocol):
    """What a strategy has besides if it wants to hear the loop's decisions."""

    def observe(self, problem: ProblemLike, trial: Trial, incumbent: Trial | None) -> None:
        """Called after each trial is on record, and once with the last one when a run is resumed."""


@dataclass(frozen=True)
class Setup:
    """What a strategy may ask for. A field that is None was not given."""

    backend: str = "auto"
    device: str = "cpu"
    seed: int = 0
    folder: Path | None = None  # replay: the folder of candidates
    workspace: Path | None = None  # the run's folder of workspaces
    path: Path | None = None  # file: the file to watch, if it is not the workspace's
    timeout_s: float | None = None  # file: how long to wait for an edit; None waits for good


def names() -> tuple[str, ...]:
    """The strategies in this folder, sorted: the modules that set PROPOSER. None is imported, since some are slow to import."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if _sets_proposer(module.name)))


def create(name: str, setup: Setup) -> Proposer:
    """The strategy of that name, set up. Raises UsageError for an unknown name or where something it needs was not given."""
    if name not in names():
        raise UsageError(f"no proposer named '{name}'; choose one of {', '.join(names())}.")
    module = importlib.import_module(f"{__name__}.{name}")
    factory = module.PROPOSER
    arguments = {}
    for parameter in inspect.signature(factory).parameters.values():
        if not hasattr(setup, parameter.name):
            if parameter.default is inspect.Parameter.empty:
                raise InternalError(f"the proposer '{name}' asks for '{parameter.name}', which no Setup has; check its signature.")
            continue
        value = getattr(setup, parameter.name)
        if value is None and parameter.default is inspect.Parameter.empty:
            raise UsageError(f"the proposer '{name}' needs a {parameter.name}. "
                             f"Pass it with {_OPTIONS.get(parameter.name, '--' + parameter.name)}.")
        if value is not None:
            arguments[parameter.name] = value
    return cast(Proposer, factory(**arguments))


def _sets_proposer(module: str) -> bool:
    return any(re.search(r"^PROPOSER\b", path.read_text("utf-8"), re.MULTILINE)
               for folder in __path__ if (path := Path(folder, f"{module}.py")).is_file())


def starting_text(source: str) -> str:
    """A candidate that does what the problem does: its text and a `ModelNew` that is its `Model` under another name.

    A subclass rather than a renamed copy: references call `super(Model, self).__init__()`, which a rename of the class line breaks.
    """
    return f'{source.rstrip()}\n\n\nclass ModelNew(Model):\n    """The problem as it is; a faster one goes here."""\n'
