"""Writing files so that a crash leaves the old text or the new one, and a full or read-only disk a clear error."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autokernel.errors import StorageError

_HINTS = {
    errno.ENOSPC: "Free some space on that disk, or pass --out with a folder on another one; the same command then goes on.",
    errno.EDQUOT: "Free some of your quota, or pass --out with a folder on another disk; the same command then goes on.",
    errno.EFBIG: "Set a higher file size limit (ulimit -f); the same command then goes on.",
    errno.EROFS: "Pass --out with a folder on a disk that can be written.",
    errno.EACCES: "Check the permissions, or pass --out with a folder that you can write.",
    errno.EPERM: "Check the permissions, or pass --out with a folder that you can write.",
    errno.ENOTDIR: "Choose a path whose parents are folders.",
    errno.EEXIST: "Choose another path with --out; a file of that name is in the way.",
}


@contextmanager
def storage_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn any OSError inside into a StorageError "cannot DOING PATH: why", with a hint that fits the cause."""
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "Check the path and the disk, then run the same command again.")
        raise StorageError(f"cannot {doing} '{path}': {error.strerror or error}.", hint=hint) from error


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, however many system calls that takes. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view):]


def make_folder(path: Path) -> None:
    """Create `path` and its parents where they are missing. Raises StorageError."""
    with storage_errors("create the folder", path):
        path.mkdir(parents=True, exist_ok=True)


def sync_folder(path: Path) -> None:
    """Make renames and new names in `path` last through a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: readers and a crash see the old bytes or the new ones, never a part.

    Raises StorageError; `path` is then as it was and no temporary file stays behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storage_errors("write", path):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
            sync_folder(path.parent)
        except BaseException:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(temporary)
            raise
