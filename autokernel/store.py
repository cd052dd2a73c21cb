"""Every candidate of a run, once, under the hash of its text."""

from __future__ import annotations

import hashlib
from pathlib import Path

from autokernel.durable import make_folder, replace_file, storage_errors
from autokernel.errors import StorageError
from autokernel.records import Candidate


class CandidateStore:
    """A folder of SHA256.py files that are written once and never changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha256: str) -> Path:
        """Where the candidate of that hash lies, or would lie."""
        return self.folder / f"{sha256}.py"

    def put(self, candidate: Candidate) -> Path:
        """Write the candidate unless it is there already, and return its path. Raises StorageError; no part of a file stays behind."""
        path = self.path(candidate.sha256)
        if not path.exists():
            make_folder(self.folder)
            replace_file(path, candidate.source.encode("utf-8", "surrogatepass"))
        return path

    def text(self, sha256: str) -> str:
        """The source text of that hash. Raises StorageError where it is missing or no longer what it was."""
        path = self.path(sha256)
        with storage_errors("read the candidate", path):
            data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise StorageError(f"the candidate '{path}' was changed after it was judged. "
                               "Restore the file, or pass --fresh to set this run aside.")
        return data.decode("utf-8", "surrogatepass")
