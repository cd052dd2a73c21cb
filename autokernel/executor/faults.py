"""Faults that are answers: the candidate's and the problem's, as told apart from this machine's and our own."""

from __future__ import annotations

DIED, DEADLINE, PROTOCOL, RAISED, CONTRACT, UNREADABLE = "died", "deadline", "protocol", "raised", "contract", "unreadable"
RESTLESS, IDLE = "restless", "idle"
"""How a worker fails: its process ended, was too slow, broke the wire's rules, raised, gave what no output may be, cannot be read; it
ran while it should have stood still, as the other side of a pair or while others were timed."""

REFERENCE_FAILS, DOES_NOT_FIT, COMPILE_BASELINE = "reference fails", "does not fit", "compile baseline"
"""What is wrong with a problem. The first two end it (records.PROBLEM_FAULTS), the third costs one opponent."""


class LinkFailed(Exception):
    """A request to a worker did not end well. `kind`: died, deadline, protocol, raised, contract, unreadable, restless, idle."""

    def __init__(self, kind: str, message: str, *, out_of_memory: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.out_of_memory = out_of_memory
        self.opponent = False  # whether it was the candidate's opponent that failed


class WorkerFault(Exception):
    """A worker's process failed, the candidate's unless it is said to be its `opponent`'s. `kind`: died, deadline, protocol, raised,
    contract, unreadable, restless, idle."""

    def __init__(self, kind: str, message: str, *, missing: bool = False, opponent: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.opponent = opponent
        self.missing = missing  # a package or tool this machine lacks


class ProblemFault(Exception):
    """The problem itself cannot be judged here. `kind`: "reference fails", "does not fit", "compile baseline"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def out_of_memory(error: BaseException) -> bool:
    """Whether Python, CUDA or torch's allocator for the CPU lacked memory; the last raises an ordinary RuntimeError."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
