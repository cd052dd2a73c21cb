"""The scorer's error: a message, a hint that says what to do, and an exit code. The scorer is a leaf and cannot use its caller's."""

from __future__ import annotations


class ScorerError(Exception):
    """Results that cannot be scored or merged; `exit_code` is 2, wrong usage."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()
