"""A content-addressed store of builds, good ones and failed ones, shared by any number of processes.

A build happens in a folder of its own and is renamed into place when it is complete, so that readers need no lock and a process killed
at any moment leaves either nothing or a whole entry. One lock file a key keeps two processes from building the same text twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from autokernel.errors import DeadlinePassed, StorageError

_RESULT = "result.json"
_POLL_S = 0.02


@dataclass(frozen=True)
class StoredBuild:
    """One entry: what a build of this key came to. Entries never change; only a timed-out one can be replaced."""

    ok: bool
    digest: str
    seconds: float  # what the build took when it was made
    timeout_s: float | None  # the deadline that it hit, None where it ended by itself
    artifact_bytes: int | None  # size of the library, None where there is none


class BuildStore:
    """Builds under the folder `root`; `artifact` and `log` name the files that an entry holds."""

    def __init__(self, root: Path, artifact: str, log: str) -> None:
        self._root = root
        self._artifact = artifact
        self._log = log

    def artifact_path(self, key: str) -> Path:
        """Where the key's library lies, if its build was good."""
        return self._folder(key) / self._artifact

    def log_path(self, key: str) -> Path:
        """Where the key's compiler log lies."""
        return self._folder(key) / self._log

    def find(self, key: str) -> StoredBuild | None:
        """The entry, without taking the lock; None if there is none, or none that is whole (then it is built again)."""
        try:
            entry = StoredBuild(**json.loads((self._folder(key) / _RESULT).read_text(encoding="utf-8")))
            if entry.ok and self.artifact_path(key).stat().st_size != entry.artifact_bytes:
                return None
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
            return None
        except OSError as error:
            raise _unusable(self._root, error) from error
        return entry

    @contextlib.contextmanager
    def lock(self, key: str, timeout_s: float) -> Iterator[None]:
        """Hold the key's lock, across processes and threads; the system frees it when its holder dies.

        Raises DeadlinePassed after `timeout_s` of waiting, StorageError where the lock file cannot be made.
        """
        try:
            self._folder(key).parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._sibling(key, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _unusable(self._root, error) from error
        try:
            deadline = time.monotonic() + timeout_s
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise DeadlinePassed(
                            f"another process has been building the same text for over {timeout_s:g} s. Run the command again later."
                        ) from None
                    time.sleep(_POLL_S)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def workspace(self, key: str) -> Iterator[Path]:
        """A fresh folder to build in, removed afterwards unless it was published. Hold the lock: leftovers of killed builds go too."""
        try:
            for leftover in self._folder(key).parent.glob(f"{key}.building-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=f"{key}.building-", dir=self._folder(key).parent))
        except OSError as error:
            raise _unusable(self._root, error) from error
        try:
            yield folder
        except OSError as error:
            raise _unusable(self._root, error) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, key: str, folder: Path, *, digest: str, seconds: float, timeout_s: float | None, ok: bool) -> StoredBuild:
        """Make `folder`, from `workspace`, the key's entry. Files become read-only; what is on disk after a crash is whole or absent."""
        size = (folder / self._artifact).stat().st_size if ok else None
        entry = StoredBuild(ok, digest, seconds, timeout_s, size)
        for path in folder.iterdir():
            if path.is_file():
                path.chmod(0o444)
        with (folder / _RESULT).open("w", encoding="utf-8") as out:
            json.dump(asdict(entry), out)
            out.flush()
            os.fsync(out.fileno())
        folder.chmod(0o755)
        final = self._folder(key)
        if final.exists():  # timed out earlier, or damaged: moved aside first, a rename cannot replace a folder that holds files
            aside = Path(tempfile.mkdtemp(prefix=f"{key}.building-", dir=final.parent))
            final.rename(aside / "old")
            shutil.rmtree(aside, ignore_errors=True)
        folder.rename(final)
        return entry

    def _folder(self, key: str) -> Path:
        return self._root / key[:2] / key

    def _sibling(self, key: str, suffix: str) -> Path:
        return self._folder(key).with_name(key + suffix)


def _unusable(root: Path, error: OSError) -> StorageError:
    return StorageError(f"the build store {root} cannot be used: {error}.", hint="Free disk space, or choose a folder that can be written.")
