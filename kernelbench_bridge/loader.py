"""The one way to problems: a level or a single problem, from whichever origin `source` names."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelbench_bridge.errors import BridgeError
from kernelbench_bridge.origins import checkout, embedded_set, hub, parquet
from kernelbench_bridge.origins.listing import Listing
from kernelbench_bridge.problem import FILE_LEVEL, Problem
from kernelbench_bridge.selection import format_ids, parse_uid

FOLDER_VARIABLE = "AUTOKERNEL_KERNELBENCH_DIR"
EXPECTED_NAMES = ("Model", "get_inputs", "get_init_inputs")


@dataclass(frozen=True)
class LoadedLevel:
    """A level's problems as selected, ascending by id, and where they came from."""

    level: int
    problems: tuple[Problem, ...]
    origin: str  # "hub", "checkout", "parquet" or "embedded"
    why: str  # one line for people: which origin was taken and why
    notes: tuple[str, ...]  # one line each: files skipped, ids there twice
    all_ids: tuple[int, ...]  # every id of the level, selected or not: a score's denominator

    @property
    def all_uids(self) -> tuple[str, ...]:
        """Uids of the whole level, ascending by id."""
        return tuple(f"L{self.level}/{number}" for number in self.all_ids)


def load_level(level: int, source: str = "auto", problems: Iterable[int] | None = None) -> LoadedLevel:
    """Problems of a level; `problems` names the ids wanted, None meaning all.

    `source` is "auto", "hub", "embedded" or a path (a KernelBench checkout or a folder of parquet files). "auto" takes the folder
    in AUTOKERNEL_KERNELBENCH_DIR if that is set, else an earlier download or the Hub if it answers at once, else the embedded set.

    Raises BridgeError: exit 2 for a level or an id that is not there (the message names those that are) and for a path that is
    neither; 3 for a missing package or network.
    """
    listing, origin, why = _listing(level, source)
    all_ids = tuple(problem.problem_id for problem in listing.problems)
    chosen = listing.problems
    if problems is not None:
        wanted = set(problems)
        unknown = sorted(wanted - set(all_ids))
        if unknown:
            skipped = f" ({'; '.join(listing.notes)})" if listing.notes else ""
            raise BridgeError(f"level {level} has no problem {format_ids(unknown)}; choose from {format_ids(all_ids)}{skipped}.",
                              hint=f"Problems come from the {_full_name(origin)}.")
        chosen = tuple(problem for problem in chosen if problem.problem_id in wanted)
    return LoadedLevel(level, chosen, origin, why, listing.notes, all_ids)


def load_problem(name: str, source: str = "auto") -> Problem:
    """One problem: a uid such as "L1/19", looked up in `source`, or the path of a problem file.

    Raises BridgeError as `load_level` does, and exit 2 for a file that cannot be read, is no Python, or does not define
    Model, get_inputs and get_init_inputs.
    """
    position = parse_uid(name)
    if position is not None:
        return load_level(position[0], source, [position[1]]).problems[0]
    path = Path(name).expanduser()
    if path.suffix != ".py" and not path.exists():
        raise BridgeError(f"'{name}' is neither a problem such as L1/19 nor a file that exists; check the name.")
    text = checkout.read_source(path)
    _check_problem_file(path, text)
    return Problem(FILE_LEVEL, 0, path.name.removesuffix(".py"), text, "file")


def _full_name(origin: str) -> str:
    return {"hub": "Hub's data set", "checkout": "KernelBench checkout", "parquet": "folder of parquet files",
            "embedded": "embedded set"}[origin]


def _listing(level: int, source: str) -> tuple[Listing, str, str]:
    """The level's listing, its origin's short name, and the line that says why this origin."""
    if source == "auto":
        return _automatic(level)
    if source == "hub":
        listing, place = hub.read_level(level)
        return listing, "hub", f"problems: {_full_name('hub')} ({place}), as asked"
    if source == "embedded":
        return _embedded(level), "embedded", "problems: embedded set, as asked (our own small problems, not KernelBench's)"
    return _folder(level, Path(source).expanduser(), "as asked")


def _automatic(level: int) -> tuple[Listing, str, str]:
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        return _folder(level, Path(folder).expanduser(), f"because {FOLDER_VARIABLE} is set")
    try:
        listing, place = hub.read_level(level)
    except BridgeError as error:
        reason = error.message.rstrip(".")
        listing = _embedded(level)
        return listing, "embedded", (f"problems: embedded set (our own small problems, not KernelBench's), "
                                     f"because {FOLDER_VARIABLE} is not set and {reason}")
    return listing, "hub", f"problems: {_full_name('hub')} ({place}), because {FOLDER_VARIABLE} is not set"


def _embedded(level: int) -> Listing:
    _check_level(level, embedded_set.levels(), "the embedded set")
    return embedded_set.read_level(level)


def _folder(level: int, folder: Path, why: str) -> tuple[Listing, str, str]:
    kinds: tuple[tuple[str, Callable[[Path], Path | None], Callable[[Path], tuple[int, ...]],
                       Callable[[Path, int], Listing]], ...] = (
        ("checkout", checkout.root, checkout.levels, checkout.read_level),
        ("parquet", parquet.root, parquet.levels, parquet.read_level),
    )
    try:
        for origin, root, levels, read_level in kinds:
            place = root(folder)
            if place is not None:
                _check_level(level, levels(place), str(folder))
                return read_level(place, level), origin, f"problems: {_full_name(origin)} {folder}, {why}"
        if folder.exists():
            what = "holds neither folders level1, level2, ... nor files level_N-*.parquet"
        else:
            what = "does not exist"
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
    raise BridgeError(f"the source '{folder}' ({why}) {what}. "
                      "Pass auto, hub, embedded, a KernelBench checkout, or a folder of the Hub's parquet files.")


def _check_level(level: int, there: tuple[int, ...], where: str) -> None:
    if level not in there:
        raise BridgeError(f"there is no level {level} in {where}; choose one of {', '.join(map(str, there)) or 'none'}.")


def _check_problem_file(path: Path, source: str) -> None:
    """BridgeError (exit 2) unless the file is Python that binds the three names at its top level."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
        raise BridgeError(f"{path} is not valid Python ({where}); check the file.") from None
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update(alias.asname or alias.name for alias in node.names)
    lacking = [] if "*" in bound else [name for name in EXPECTED_NAMES if name not in bound]
    if lacking:
        raise BridgeError(f"{path} does not define {', '.join(lacking)}; a problem must define {', '.join(EXPECTED_NAMES)}.")
