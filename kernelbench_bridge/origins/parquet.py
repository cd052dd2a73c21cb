"""Problems in a folder of parquet files in the Hub's layout: `level_{N}-*.parquet`, columns code, name, problem_id (and level).

Needs pyarrow alone, imported when a level is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kernelbench_bridge.errors import MISSING, BridgeError
from kernelbench_bridge.origins.listing import Listing, unique
from kernelbench_bridge.problem import Problem

COLUMNS = ("code", "name", "problem_id")
_LEVEL_FILE = re.compile(r"level_([1-9][0-9]*)(?:-.*)?\.parquet")


def root(folder: Path) -> Path | None:
    """The folder that holds the parquet files: `folder` itself or its `data`; None if neither does."""
    for place in (folder, folder / "data"):
        if levels(place):
            return place
    return None


def levels(folder: Path) -> tuple[int, ...]:
    """Numbers of the levels that have a parquet file directly in `folder`, ascending."""
    return tuple(sorted({number for number, _ in _level_files(folder)}))


def read_level(folder: Path, level: int, origin: str = "parquet") -> Listing:
    """All problems of a level, sorted by id; rows may stand in any order.

    Raises BridgeError: exit 3 without pyarrow, 2 for a file that is no parquet or lacks a column.
    """
    rows: list[Mapping[str, Any]] = []
    for number, path in sorted(_level_files(folder)):
        if number == level:
            rows += _read_rows(path)
    return problems_of(rows, level, origin)


def problems_of(rows: Iterable[Mapping[str, Any]], level: int, origin: str) -> Listing:
    """Problems of a level's rows (columns code, name, problem_id); rows that are not usable are left out with a note."""
    problems: list[Problem] = []
    notes: list[str] = []
    for row in rows:
        code, name, problem_id = (row.get(column) for column in COLUMNS)
        if not isinstance(code, str) or not isinstance(name, str) or not isinstance(problem_id, int) or problem_id < 1:
            notes.append(f"row with id {problem_id!r} is skipped: its code, name or id is missing")
        elif row.get("level", level) != level:
            notes.append(f"{name} is skipped: it says level {row['level']} in the file of level {level}")
        else:
            problems.append(Problem(level, problem_id, name.removesuffix(".py"), code, origin))
    return unique(problems, notes)


def _level_files(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    named = ((_LEVEL_FILE.fullmatch(entry.name), entry) for entry in folder.iterdir())
    return [(int(match[1]), entry) for match, entry in named if match]


def _read_rows(path: Path) -> list[Mapping[str, Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BridgeError(f"reading {path.name} needs the package pyarrow; install it.",
                          hint="Run: pip install pyarrow", exit_code=MISSING) from None
    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BridgeError(f"{path} cannot be read as parquet ({reason}); check the file.",
                          hint="It may be a Git LFS pointer or half a download.") from None
    lacking = [column for column in COLUMNS if column not in table.column_names]
    if lacking:
        raise BridgeError(f"{path} lacks the column {', '.join(lacking)}; expected are {', '.join(COLUMNS)}.")
    rows: list[Mapping[str, Any]] = table.to_pylist()
    return rows
