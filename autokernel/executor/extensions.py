"""Where load_inline builds lie in the store, by their candidate's text, and the mark of one that is whole."""

from __future__ import annotations

import shutil
from pathlib import Path

MARK = "imported"


def folder_of(store: Path, sha256: str) -> Path:
    """The build of the candidate whose text has this hash; its workers get private copies, and find them by TORCH_EXTENSIONS_DIR."""
    return store / "extensions" / sha256[:24]


def is_whole(folder: Path) -> bool:
    """Whether the build was made, and need not be again."""
    return (folder / MARK).is_file()


def mark(folder: Path, how: str) -> None:
    """Say that a build is whole, and how it was made. What the candidate may have left at that place goes."""
    place = folder / MARK
    if place.is_dir():
        shutil.rmtree(place)
    place.write_text(f"{how}\n", encoding="utf-8")


def how_made(folder: Path) -> str:
    """What `mark` was told; empty where the build is not whole."""
    return (folder / MARK).read_text(encoding="utf-8").strip() if is_whole(folder) else ""
