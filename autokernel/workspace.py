"""A problem's workspace: a git repository in which every kept candidate is a commit of candidate.py.

The ledger is the truth and the repository follows it: whatever a crash left behind is brought in line when the workspace is opened.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from autokernel.durable import make_folder, replace_file, storage_errors
from autokernel.errors import MissingOnMachine, StorageError

CANDIDATE = "candidate.py"
PROBLEM = "problem.py"
_CONFIG = ("user.name=AutoKernel", "user.email=autokernel@localhost", "commit.gpgsign=false", "core.autocrlf=false", "gc.auto=0",
           "core.hooksPath=/dev/null", "init.defaultBranch=main", "safe.directory=*")


def folder_name(uid: str) -> str:
    """The file name for a problem's uid: "L1/19" gives "L1_19"; anything but letters, digits, '.', '-' becomes '_'."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", uid)


class Workspace:
    """The repository of one problem: problem.py (the task) and candidate.py (the best so far, or what is being judged)."""

    def __init__(self, folder: Path, start: str) -> None:
        self.folder = folder
        self.start = start  # candidate.py before anything is kept

    @property
    def candidate_path(self) -> Path:
        """The one file that an agent edits."""
        return self.folder / CANDIDATE

    @classmethod
    def open(cls, folder: Path, *, problem: str, start: str, expected: str, why: str) -> Workspace:
        """The workspace in `folder`, created or brought in line with the ledger.

        `problem` is the problem's text, `start` the candidate.py to begin with, `expected` the text that the last commit must hold
        (`start` where nothing is kept); if it holds another one, `expected` is committed with the message `why`. An edit of
        candidate.py that is not committed stays where it is. Raises MissingOnMachine without git, StorageError if git fails.
        """
        if shutil.which("git") is None:
            raise MissingOnMachine("the search keeps its candidates in git repositories, and no git is on PATH. "
                                   "Install git, e.g. 'apt install git' or 'conda install git'.")
        workspace = cls(folder, start)
        make_folder(folder)
        with storage_errors("clear a stale lock in", folder):
            for lock in (folder / ".git").glob("*.lock"):
                lock.unlink()  # a killed git's; the run's own lock says that none is at work
        if workspace._head() is None:
            workspace._create(problem)
        if workspace.committed() != expected:
            edited = workspace.read()
            workspace.commit(expected, why)
            if edited not in (None, start):
                workspace.write(edited or "")
        elif workspace.read() is None:
            workspace.write(expected)
        return workspace

    def read(self) -> str | None:
        """candidate.py as it lies in the folder, or None where it is missing. Raises StorageError."""
        with storage_errors("read", self.candidate_path):
            if not self.candidate_path.exists():
                return None
            return self.candidate_path.read_bytes().decode("utf-8", "replace")

    def write(self, text: str) -> None:
        """Put `text` into candidate.py, uncommitted. A file that says so already is not touched, so an agent's edit keeps its time."""
        if self.read() != text:
            replace_file(self.candidate_path, text.encode("utf-8", "surrogatepass"))

    def commit(self, text: str, message: str) -> None:
        """Commit candidate.py with `text`, also if nothing changed. Raises StorageError."""
        self.write(text)
        self._git("add", "--force", CANDIDATE)
        self._git("commit", "--quiet", "--allow-empty", "--no-verify", "--message", message)

    def revert(self, judged: str) -> None:
        """Reset to the last commit. If candidate.py is no longer `judged`, somebody has edited it meanwhile and that edit stays."""
        edited = self.read()
        self._git("reset", "--quiet", "--hard")
        if edited is not None and edited != judged:
            self.write(edited)

    def committed(self) -> str | None:
        """candidate.py as the last commit holds it, or None where there is none."""
        result = self._run("show", f"HEAD:{CANDIDATE}")
        return result.stdout.decode("utf-8", "surrogatepass") if result.returncode == 0 else None

    def log(self) -> list[str]:
        """The commits' first lines, newest first."""
        return self._git("log", "--format=%s").decode("utf-8", "replace").splitlines()

    def _create(self, problem: str) -> None:
        edited = self.read()
        with storage_errors("clear a broken repository in", self.folder):
            if (self.folder / ".git").exists():
                shutil.rmtree(self.folder / ".git")
        self._git("init", "--quiet")
        replace_file(self.folder / PROBLEM, problem.encode("utf-8", "surrogatepass"))
        self._git("add", "--force", PROBLEM)
        self.commit(self.start, "start: the problem as it is")
        if edited is not None:
            self.write(edited)

    def _head(self) -> str | None:
        if not (self.folder / ".git").is_dir():
            return None
        result = self._run("rev-parse", "--verify", "--quiet", "HEAD^{tree}")
        return result.stdout.decode().strip() if result.returncode == 0 else None

    def _git(self, *arguments: str) -> bytes:
        result = self._run(*arguments)
        if result.returncode != 0:
            said = result.stderr.decode("utf-8", "replace").strip().splitlines()
            raise StorageError(f"git {arguments[0]} failed in '{self.folder}': {said[-1] if said else 'no message'}. "
                               "Check the disk and the folder's permissions, then run the same command again.")
        return result.stdout

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        settings = [word for setting in _CONFIG for word in ("-c", setting)]
        # Inside a git hook GIT_DIR and the like point at the user's own repository; the user's configuration may sign or run hooks.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        clean.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull, GIT_CEILING_DIRECTORIES=str(self.folder.parent.resolve()))
        try:
            return subprocess.run(["git", *settings, *arguments], cwd=self.folder, env=clean, capture_output=True,
                                  stdin=subprocess.DEVNULL, check=False)
        except FileNotFoundError as error:
            raise MissingOnMachine("git is no longer on PATH. Install git, then run the same command again.") from error
