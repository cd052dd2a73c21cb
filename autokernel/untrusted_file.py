"""Reads a file that somebody untrusted may have put there, with rights that they may not have: no links out, no pipes, no end of bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from autokernel.errors import UsageError

LARGEST_CANDIDATE_BYTES = 16 << 20  # a source file of a person or a model is far below; a data file passed by mistake is not


def read_inside(path: Path, folder: Path) -> str:
    """The text of a regular file that lies in `folder`, links in it followed as long as they stay there; undecodable bytes replaced.

    Raises FileNotFoundError where it is not there, UsageError where it is no such file, too large or cannot be read.
    """
    inside, found = folder.resolve(), path.resolve()
    if not found.is_relative_to(inside):
        raise UsageError(f"'{path}' is a link to a file elsewhere, and must be a file of its own. Put the candidate's text there.")
    try:
        descriptor = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"cannot read the candidate '{path}': {error.strerror}. Check the file's permissions.") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UsageError(f"'{path}' must be a regular file. Put one Python file that defines class ModelNew there.")
        data = file.read(LARGEST_CANDIDATE_BYTES + 1)
    if len(data) > LARGEST_CANDIDATE_BYTES:
        raise UsageError(f"'{path}' is larger than {LARGEST_CANDIDATE_BYTES >> 20} MB. Pass one Python source file.")
    return data.decode("utf-8", "replace")
