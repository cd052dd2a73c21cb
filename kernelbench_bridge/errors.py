"""The bridge's error: a message, a hint that says what to do, and an exit code. The bridge is a leaf and cannot use its caller's."""

from __future__ import annotations

USAGE = 2
MISSING = 3


class BridgeError(Exception):
    """Problems that cannot be found or read.

    `exit_code` is 2 for wrong usage (unknown level or problem, unreadable file) and 3 where this machine lacks something
    (a package, the network).
    """

    def __init__(self, message: str, *, hint: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()
