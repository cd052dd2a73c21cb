"""Proposes what an outside agent, or a person, writes into one file, and writes down what came of it beside that file.

program_kb.md is the agent's side of this contract.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autokernel import builders
from autokernel.durable import make_folder, replace_file
from autokernel.proposers import ProblemLike, starting_text
from autokernel.records import Candidate, Comparison, Evaluation
from autokernel.trials import Trial
from autokernel.untrusted_file import read_inside
from autokernel.workspace import CANDIDATE, folder_name

FEEDBACK = "feedback.json"
STOP = "STOP"


class FileProposer:
    """Watches one file a problem: WORKSPACE/L1_19/candidate.py, or the path it is given.

    A text is proposed when it differs from what lies there by the loop's own hand (the incumbent, or the start) and was not judged
    before, and when two looks in a row saw the same bytes, so that a file half written by an editor is not taken.
    """

    name = "file"

    def __init__(self, workspace: Path | None = None, path: Path | None = None, timeout_s: float | None = None,
                 poll_s: float = 0.2) -> None:
        """`timeout_s`: seconds to wait for an edit before giving the problem up; None waits for good."""
        self.workspace = workspace or Path("workspace")
        self.path = path
        self.timeout_s = timeout_s
        self.poll_s = poll_s
        self._last: dict[str, dict[str, Any]] = {}  # by problem, the last trial's feedback
        self._resting: dict[str, str] = {}  # by problem, the hash of what the loop itself left in the file

    def file(self, problem: ProblemLike) -> Path:
        """The file to edit for that problem."""
        return self.path or self.workspace / folder_name(problem.uid) / CANDIDATE

    def propose(self, problem: ProblemLike, history: Sequence[Evaluation]) -> Candidate | None:
        """Wait for the next text. None when the time is up or a file named STOP lies beside the one watched.

        Raises StorageError if the feedback cannot be written.
        """
        path = self.file(problem)
        judged = {evaluation.candidate: number for number, evaluation in enumerate(history, start=1)}
        resting = self._resting.get(problem.uid, _candidate(starting_text(problem.source)).sha256)
        self._tell(problem, "waiting", len(history))
        deadline = None if self.timeout_s is None else time.monotonic() + self.timeout_s
        before, told = "", ""
        while True:
            text = _read(path)
            candidate = _candidate(text) if text.strip() else None
            if candidate is not None and candidate.sha256 != resting:
                if candidate.sha256 not in judged and text == before:
                    self._tell(problem, "judging", len(history), candidate=candidate.sha256)
                    return candidate
                if candidate.sha256 in judged and candidate.sha256 != told:
                    told = candidate.sha256
                    self._tell(problem, "waiting", len(history), seen_in_iteration=judged[told], candidate=told)
            if (path.parent / STOP).exists() or (deadline is not None and time.monotonic() > deadline):
                self._tell(problem, "ended", len(history))
                return None
            before = text
            time.sleep(self.poll_s)

    def observe(self, problem: ProblemLike, trial: Trial, incumbent: Trial | None) -> None:
        """Write the trial's feedback. Raises StorageError."""
        self._last[problem.uid] = feedback(trial, incumbent)
        start = _candidate(starting_text(problem.source)).sha256
        self._resting[problem.uid] = incumbent.evaluation.candidate if incumbent else start
        self._tell(problem, "judged", trial.iteration)

    def _tell(self, problem: ProblemLike, state: str, iterations: int, **more: Any) -> None:
        path = self.file(problem)
        make_folder(path.parent)
        data = {"problem": problem.uid, "state": state, "iterations": iterations, "file": str(path), **more,
                "last": self._last.get(problem.uid)}
        replace_file(path.parent / FEEDBACK, (json.dumps(data, indent=1) + "\n").encode())


def feedback(trial: Trial, incumbent: Trial | None) -> dict[str, Any]:
    """What an agent is told of a trial, as JSON values; program_kb.md explains each field."""
    evaluation = trial.evaluation
    return {
        "iteration": trial.iteration,
        "phase": trial.phase,
        "decision": trial.decision,
        "candidate": evaluation.candidate,
        "builder": evaluation.builder,
        "rules": evaluation.rules,
        "accepted": evaluation.accepted,
        "refused_by": evaluation.refused_by,
        "reason": evaluation.reason,
        "stages": [{"stage": v.stage, "passed": v.passed, "reason": v.reason, "figures": dict(v.figures)} for v in evaluation.verdicts],
        "against_eager": _speedup(evaluation.against("eager")),
        "against_incumbent": _speedup(evaluation.against("incumbent")),
        "roofline": evaluation.roofline,
        "precision_class": evaluation.precision_class,
        "labels": list(evaluation.labels),
        "times_ms": dict(evaluation.times_ms),
        "log": evaluation.log,
        "incumbent": None if incumbent is None else {"iteration": incumbent.iteration, "candidate": incumbent.evaluation.candidate},
    }


def _speedup(comparison: Comparison | None) -> dict[str, float] | None:
    return None if comparison is None else {"speedup": comparison.speedup, "low": comparison.low, "high": comparison.high}


def _candidate(text: str) -> Candidate:
    return Candidate(source=text, builder=builders.detect(text), proposer=FileProposer.name)


def _read(path: Path) -> str:
    try:
        return read_inside(path, path.parent)
    except FileNotFoundError:
        return ""  # an editor that saves by renaming leaves no file for a moment


PROPOSER = FileProposer
