"""Keeps what candidates leave in the store within bounds: the oldest go first, whoever wrote them; a build that is missed is made again."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

MOST_BYTES = 16 << 30
SPARED_S = 24 * 3600.0  # another process may be using what was touched since


def prune(folder: Path, most_bytes: int = MOST_BYTES, spared_s: float = SPARED_S) -> int:
    """Delete entries of `folder`, the longest untouched first, until the rest takes at most `most_bytes`; how many bytes went.

    What was touched within `spared_s` seconds stays, and so does what cannot be deleted.
    """
    entries = sorted((_touched(path), _bytes(path), path) for path in folder.iterdir()) if folder.is_dir() else []
    over = sum(size for _, size, _ in entries) - most_bytes
    gone = 0
    for touched, size, path in entries:
        if gone >= over or time.time() - touched < spared_s:
            break
        shutil.rmtree(path, ignore_errors=True)
        gone += 0 if path.exists() else size
    return gone


def _touched(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()  # another process is at it


def _bytes(path: Path) -> int:
    total = 0
    for inner in path.rglob("*"):
        try:
            total += inner.lstat().st_size
        except FileNotFoundError:
            continue
    return total
