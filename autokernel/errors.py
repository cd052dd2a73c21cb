"""Errors that know their exit code and say what to do about them."""

from __future__ import annotations


class AutoKernelError(Exception):
    """A failure with a message for the user, a hint that says what to do, and the exit code of design's CLI contract."""

    exit_code = 4

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(AutoKernelError):
    """Wrong usage or an input file that cannot be read (exit 2)."""

    exit_code = 2


class MissingOnMachine(AutoKernelError):
    """Something this machine lacks: a package, a compiler, a device (exit 3). The hint says what to install."""

    exit_code = 3


class BuilderUnavailable(MissingOnMachine):
    """A builder cannot compile or run candidates on this machine."""


class InternalError(AutoKernelError):
    """A fault of AutoKernel's own (exit 4)."""


class WorkerDied(InternalError):
    """The candidate's process ended or was killed before it answered."""


class JudgeDied(InternalError):
    """The judge's process ended before it answered."""


class DeadlinePassed(InternalError):
    """A phase ran longer than its deadline and was killed."""


class StorageError(AutoKernelError):
    """A file or folder that cannot be written or read back; what was there is unharmed (exit 2)."""

    exit_code = 2
