"""Faults that are answers: the candidate's and the problem's, as told apart from this machine's and our own."""

from __future__ import annotations


class WorkerFault(Exception):
    """The candidate's process failed. `kind`: died, deadline, protocol, raised, contract, unreadable, killed the judge, missing."""

    def __init__(self, kind: str, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.missing = missing  # a package or tool this machine lacks


class ProblemFault(Exception):
    """The problem itself cannot be judged here. `kind`: "reference fails", "does not fit", "compile baseline"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
