"""Takes files out of a living worker's private folders: plain ones only, no link followed, up to a cap. Nothing of them is believed."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

MOST_BYTES, MOST_ENTRIES = 512 << 20, 4096  # files and folders together
MOST_DEPTH = 32  # whoever reads the copy walks it by calls of itself
MOST_S = 20.0  # the process lives, and can move what is being walked


class TooMuch(Exception):
    """More than the caps; what was copied by then stays."""


def harvest(pid: int, folder: Path, target: Path, *, replace: bool = False) -> int:
    """Copy what lies in `folder`, as process `pid` sees it, to `target`, times kept; how many bytes. Files there stay unless `replace`, and
    count for the cap.

    Raises TooMuch, and OSError where the process or its folder cannot be looked into.
    """
    at = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY)
    try:
        for part in folder.parts[1:]:
            below = os.open(part, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        total = entries = 0
        end = time.monotonic() + MOST_S
        there = 0 if replace else sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        for where, folders, names, inside in os.fwalk(".", dir_fd=at, follow_symlinks=False):
            entries += len(folders)
            if where.count(os.sep) > MOST_DEPTH:
                raise TooMuch(f"it leaves more than {MOST_DEPTH} folders in each other, and must not")
            for name in names:
                entries += 1
                total += _copy(inside, name, target / where / name, MOST_BYTES - there - total, replace)
                if there + total > MOST_BYTES or entries > MOST_ENTRIES:
                    raise TooMuch(f"it leaves more than {MOST_BYTES >> 20} MB or {MOST_ENTRIES} files and folders")
            if entries > MOST_ENTRIES:
                raise TooMuch(f"it leaves more than {MOST_ENTRIES} files and folders, and must not")
            if time.monotonic() > end:
                raise TooMuch(f"what it leaves cannot be read within {MOST_S:.0f} s, and must be still")
        return total
    finally:
        os.close(at)


def _copy(inside: int, name: str, target: Path, room: int, replace: bool) -> int:
    """Bytes of one plain file, one past `room` where it is larger (then it is not copied)."""
    try:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
    except OSError:
        return 0  # a link, a socket, or gone
    with open(source, "rb") as file:
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode) or (target.exists() and not replace):
            return 0
        if facts.st_size > room:
            return room + 1
        content = file.read(facts.st_size)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.new")
    fresh.write_bytes(content)
    fresh.chmod(0o755 if facts.st_mode & 0o111 else 0o644)
    os.utime(fresh, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    fresh.rename(target)
    return len(content)
