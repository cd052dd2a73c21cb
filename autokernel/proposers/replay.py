"""Proposes the candidates that lie in a folder, in the order of their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from autokernel import builders
from autokernel.errors import UsageError
from autokernel.proposers import ProblemLike
from autokernel.records import Candidate, Evaluation
from autokernel.untrusted_file import read_inside


class ReplayProposer:
    """Reads L1_19.py, L1_19_NOTE.py, ... for problem L1/19, and KernelBench's level_1_problem_19_sample_0_kernel.py.

    Each text is proposed once: what the history holds already is passed over, so that a resumed run goes on where it was.
    """

    name = "replay"

    def __init__(self, folder: Path) -> None:
        """`folder` holds the candidates. Raises UsageError if it is no folder."""
        if not folder.is_dir():
            raise UsageError(f"'{folder}' is not a folder of candidates. Pass a folder with files such as L1_19.py.")
        self.folder = folder

    def propose(self, problem: ProblemLike, history: Sequence[Evaluation]) -> Candidate | None:
        """The next text that was not judged yet, or None. Raises UsageError if a file cannot be read."""
        return self._unseen(problem, {evaluation.candidate for evaluation in history})

    def foresee(self, problem: ProblemLike, history: Sequence[Evaluation], pending: Candidate) -> Sequence[Candidate]:
        """The text after the pending one."""
        following = self._unseen(problem, {pending.sha256, *(evaluation.candidate for evaluation in history)})
        return (following,) if following else ()

    def _unseen(self, problem: ProblemLike, seen: set[str]) -> Candidate | None:
        for path in self.files(problem.uid):
            candidate = self._read(path)
            if candidate.sha256 not in seen:
                return candidate
        return None

    def files(self, uid: str) -> list[Path]:
        """The problem's files, sorted by name, numbers in it by value (sample_2 before sample_10)."""
        names = re.compile("|".join(_patterns(uid)))
        return sorted((path for path in self.folder.glob("*.py") if names.fullmatch(path.name)),
                      key=lambda path: _natural(path.stem))

    def _read(self, path: Path) -> Candidate:
        source = read_inside(path, self.folder)
        return Candidate(source=source, builder=builders.detect(source), proposer=self.name, note=path.name)


def require_files(folder: Path, uids: Sequence[str]) -> None:
    """UsageError where the folder has a file for none of these problems."""
    proposer = ReplayProposer(folder)
    if not any(proposer.files(uid) for uid in uids):
        name = uids[0].replace("/", "_") if uids else "L1_1"
        raise UsageError(f"'{folder}' has no candidate for any of these problems. Name the files as in {name}.py or {name}_note.py, or as "
                         f"KernelBench does: level_1_problem_19_sample_0_kernel.py for L1/19.")


def _patterns(uid: str) -> list[str]:
    stem = re.escape(re.sub(r"[^A-Za-z0-9.-]", "_", uid))
    patterns = [rf"{stem}(_.*)?\.py"]
    kernelbench = re.fullmatch(r"L(\d+)/(\d+)", uid)
    if kernelbench:
        patterns.append(rf"level_{kernelbench[1]}_problem_{kernelbench[2]}_sample_\d+_kernel\.py")
    return patterns


def _natural(stem: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", stem) if part]


PROPOSER = ReplayProposer
