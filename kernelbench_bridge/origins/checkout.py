"""Problems in a KernelBench checkout: files `KernelBench/level{N}/{id}_{Name}.py`."""

from __future__ import annotations

import re
from pathlib import Path

from kernelbench_bridge.errors import BridgeError
from kernelbench_bridge.origins.listing import Listing, unique
from kernelbench_bridge.problem import Problem

MAX_SOURCE_BYTES = 4 << 20  # a thousand times the longest problem; anything larger is another kind of file
_LEVEL_FOLDER = re.compile(r"level([1-9][0-9]*)")


def root(folder: Path) -> Path | None:
    """The folder that holds `level1` and so on: `folder` itself or its `KernelBench`; None if neither does."""
    for place in (folder, folder / "KernelBench"):
        if levels(place):
            return place
    return None


def levels(folder: Path) -> tuple[int, ...]:
    """Numbers of the `level{N}` folders directly in `folder`, ascending."""
    if not folder.is_dir():
        return ()
    found = (_LEVEL_FOLDER.fullmatch(entry.name) for entry in folder.iterdir() if entry.is_dir())
    return tuple(sorted(int(match[1]) for match in found if match))


def read_level(folder: Path, level: int, origin: str = "checkout") -> Listing:
    """All problems of `folder/level{N}`.

    KernelBench's rules: a file counts if it ends in `.py` and what stands before its first `_` is an integer for `int()`
    ("07_x.py" is problem 7); others are skipped. Beyond them, ids below 1 and files that are no UTF-8 text are skipped
    with a note.
    """
    problems: list[Problem] = []
    notes: list[str] = []
    for path in (folder / f"level{level}").iterdir():
        problem_id = _leading_id(path.name)
        if problem_id is None:
            continue
        if problem_id < 1:
            notes.append(f"{path.name} is skipped: its id is below 1")
            continue
        try:
            source = read_source(path)
        except BridgeError as error:
            notes.append(f"{path.name} is skipped: {error.message}")
            continue
        # Cut at the first dot, as the Hub's data set is made, so that a problem has one name whatever its origin.
        problems.append(Problem(level, problem_id, path.name.split(".")[0], source, origin))
    return unique(problems, sorted(notes))


def read_source(path: Path) -> str:
    """Text of a Python file, or BridgeError (exit 2) that says why it is none: absent, a folder, too large, not UTF-8."""
    if path.is_dir():
        raise BridgeError(f"{path} is a folder, and one Python file is expected.")
    try:
        if path.exists() and not path.is_file():
            raise BridgeError(f"{path} is no plain file, and one Python file is expected.")
        size = path.stat().st_size
        if size > MAX_SOURCE_BYTES:
            raise BridgeError(f"{path} has {size} bytes, which no problem has; check that it is a Python source file.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BridgeError(f"{path} is not UTF-8 text; check that it is a Python source file.") from None
    except OSError as error:
        raise BridgeError(f"{path} cannot be read ({error.strerror}); check the path.") from None


def _leading_id(file_name: str) -> int | None:
    """The id that a file's name starts with, or None if the file is no problem."""
    if not file_name.endswith(".py"):
        return None
    try:
        return int(file_name.split("_")[0])
    except ValueError:
        return None
