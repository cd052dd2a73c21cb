"""The gate's view of one candidate: judged calls of its worker, and of a second one with other weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autokernel.executor.handle import WorkerHandle
from autokernel.records import Candidate
from autokernel.session import Session


class JudgedCalls:
    """Asks the judge; appends each judged call's figures to `answers`."""

    def __init__(self, session: Session, worker: WorkerHandle, candidate: Candidate, artifact: Path | None,
                 answers: list[Mapping[str, Any]]) -> None:
        self.session, self.worker, self.candidate, self.artifact = session, worker, candidate, artifact
        self.rules, self.answers = session.rules, answers
        self.first = True

    def call(self, kind: str, index: int = 0) -> Mapping[str, Any]:
        """One call on a judged input set."""
        limits = self.rules.deadlines
        timeout = limits.first_call_s if self.first else None
        deadline = self.session.deadline(1) + limits.first_call_s
        keep = self.rules.fresh_every > 1  # where every evaluation draws anew, a set comes once and its memory is wanted
        answer = {**self.session.ask("call", deadline, {"worker": self.worker}, kind=kind, index=index, keep=keep, timeout_s=timeout),
                  "kind": kind}
        self.first = False
        if "figures" in answer:
            self.answers.append(answer)
        return answer

    def more_own(self) -> Sequence[Mapping[str, Any]]:
        """The rules' further sets of the problem's own: with an oracle each, or compared with eager where sets are large."""
        count = self.rules.own_sets - 1
        if count and self.session.large:
            return [self.session.ask("new_draws", self.session.deadline(count), {"worker": self.worker}, second=False, count=count)]
        return [self.call("own", index + 1) for index in range(count)]

    def repeat(self, repeats: int) -> Mapping[str, Any]:
        """An earlier input set again among fresh ones."""
        return self.session.ask("repeat", self.session.deadline(2 * repeats + 2), {"worker": self.worker}, repeats=repeats)

    def second_process(self, weights: str) -> Mapping[str, Any]:
        """The same candidate in a fresh process with other weights: neutral parameters "moved" in construction, or "loaded" by name; or all
        "replaced" by name."""
        other = self.session.start(self.candidate, self.artifact, weights=weights)
        try:
            limit = self.rules.deadlines.first_call_s
            return self.session.ask("new_draws", self.session.deadline(1) + limit, {"worker": other}, second=True, count=1, timeout_s=limit)
        finally:
            self.session.executor.stop(other)
