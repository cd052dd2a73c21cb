"""The folder of one run: its ledger and everything that is derived from it."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from autokernel.durable import make_folder, replace_file
from autokernel.errors import StorageError
from autokernel.ledger import Ledger
from autokernel.proposers import ProblemLike, Solved, starting_text
from autokernel.records import Candidate, Comparison
from autokernel.results import ResultsTable
from autokernel.standing import Standing
from autokernel.store import CandidateStore
from autokernel.trials import RunHeader, Trial
from autokernel.workspace import Workspace, folder_name


class RunFolder:
    """runs/NAME: ledger.jsonl, candidates/SHA256.py, workspace/L1_19/, winners/L1_19.py, results.tsv. Use as a context manager."""

    def __init__(self, ledger: Ledger) -> None:
        self.folder = ledger.folder
        self.ledger = ledger
        self.store = CandidateStore(self.folder / "candidates")
        self.results = ResultsTable(self.folder / "results.tsv")

    @classmethod
    def open(cls, folder: Path, header: RunHeader, *, fresh: bool = False) -> RunFolder:
        """Begin or go on with a run; see `Ledger.open` for what it checks and raises."""
        run = cls(Ledger.open(folder, header, fresh=fresh))
        try:
            run.results.rewrite(run.ledger.contents.trials)
        except BaseException:
            run.close()
            raise
        return run

    @property
    def header(self) -> RunHeader:
        """How the run began."""
        assert self.ledger.contents.header is not None  # an open ledger has one
        return self.ledger.contents.header

    @property
    def workspaces(self) -> Path:
        """The folder that holds a workspace for each problem."""
        return self.folder / "workspace"

    def record(self, trial: Trial) -> None:
        """Put a trial on record, then into results.tsv. Raises InternalError, StorageError."""
        self.ledger.record(trial)
        self.results.append(trial)

    def candidate(self, trial: Trial) -> Candidate:
        """The candidate of a recorded trial. Raises StorageError where its text is gone or changed."""
        return Candidate(source=self.store.text(trial.evaluation.candidate), builder=trial.evaluation.builder, parent=trial.parent,
                         proposer=trial.proposer, note=trial.note)

    def solved(self, before: str) -> list[Solved]:
        """The problems that had a champion before the search of `before` began; those whose texts are gone are left out."""
        trials = self.ledger.contents.trials
        earlier = trials[:next((place for place, trial in enumerate(trials) if trial.problem == before), len(trials))]
        found = []
        for final in (trial for trial in earlier if trial.phase == "final" and trial.kept):
            tried = [trial for trial in earlier if trial.problem == final.problem and trial.phase == "search"]
            with suppress(StorageError):
                texts = tuple(self.store.text(trial.evaluation.candidate) for trial in tried)
                found.append(Solved(texts, self.store.text(final.evaluation.candidate)))
        return found

    def workspace(self, problem: ProblemLike, standing: Standing) -> Workspace:
        """The problem's workspace, brought in line with where its search stands. Raises MissingOnMachine, StorageError."""
        start = starting_text(problem.source)
        incumbent = standing.incumbent
        return Workspace.open(
            self.workspaces / folder_name(problem.uid), problem=problem.source, start=start,
            expected=start if incumbent is None else self.store.text(incumbent.evaluation.candidate),
            why="back to the start" if incumbent is None else describe(incumbent),
        )

    def write_winner(self, problem: ProblemLike, champion: Trial) -> Path:
        """Write winners/L1_19.py: the champion's text under a comment with its figures and the command that repeats them."""
        path = self.folder / "winners" / f"{folder_name(problem.uid)}.py"
        make_folder(path.parent)
        evaluation = champion.evaluation
        source = self.header.options.get("source")
        command = ["autokernel", "kb", "eval", problem.uid, str(path), *(["--source", str(source)] if source else [])]
        facts = {**self.header.machine, **evaluation.machine, "device": self.header.device, "torch": self.header.torch}
        lines = (
            f"{problem.uid} {problem.name}: {'; '.join(_figures(c) for c in evaluation.comparisons) or 'not timed'}",
            f"Rules {evaluation.rules}, precision {evaluation.precision_class or 'not classed'}, candidate {evaluation.candidate}",
            "Machine: " + ", ".join(f"{name} {value}" for name, value in sorted(facts.items()) if value not in (None, "")),
            f"Judged {evaluation.created or self.header.created} by AutoKernel {self.header.version}. Repeat with:",
            "  " + shlex.join(command),
        )
        header = "".join(f"# {' '.join(text.split()) if not text.startswith(' ') else text}\n" for text in lines)
        replace_file(path, (header + "\n").encode() + self.store.text(evaluation.candidate).encode("utf-8", "surrogatepass"))
        return path

    def close(self) -> None:
        """Close the ledger and let go of its lock."""
        self.ledger.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def describe(trial: Trial) -> str:
    """One line for a kept trial, e.g. "iteration 7: 1.32x eager (1.30 to 1.35)"."""
    figures = "; ".join(_figures(comparison) for comparison in trial.evaluation.comparisons)
    return f"iteration {trial.iteration}: {figures or trial.decision}"


def _figures(comparison: Comparison) -> str:
    return f"{comparison.speedup:.4g}x {comparison.against} ({comparison.low:.4g} to {comparison.high:.4g})"
