"""Where load_inline builds lie in the store, by their candidate's text, and the mark of one that is whole: beside the folder, which holds
what a candidate's process left there."""

from __future__ import annotations

import shutil
from pathlib import Path


def folder_of(store: Path, sha256: str) -> Path:
    """The build of the candidate whose text has this hash; its workers get private copies, and find them by TORCH_EXTENSIONS_DIR."""
    return store / "extensions" / sha256[:24]


def begin(folder: Path) -> None:
    """An empty folder for a build; what an earlier one left there goes."""
    discard(folder)
    folder.mkdir(parents=True, exist_ok=True)


def discard(folder: Path) -> None:
    """Forget a build, whole or not."""
    _mark(folder).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def is_whole(folder: Path) -> bool:
    """Whether the build was made, and need not be again."""
    return _mark(folder).is_file() and folder.is_dir()


def mark(folder: Path, how: str) -> None:
    """Say that a build is whole, and how it was made."""
    _mark(folder).write_text(how, encoding="utf-8")


def how_made(folder: Path) -> str:
    """What `mark` was told; empty where the build is not whole."""
    return _mark(folder).read_text(encoding="utf-8") if is_whole(folder) else ""


def _mark(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.whole")
