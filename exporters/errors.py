"""The exporters' error: a message, a hint that says what to do, and an exit code. A leaf cannot use its caller's."""

from __future__ import annotations

REFUSED = 1
USAGE = 2
MISSING = 3


class ExportError(Exception):
    """What cannot be exported or published.

    `exit_code` is 1 where a rule refuses the winner, 2 for wrong usage (a folder that is no export, a version that is taken), 3 where
    something is missing (a login, an approval, the network).
    """

    def __init__(self, message: str, *, hint: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


def refused(message: str, *, rule: str) -> ExportError:
    """A refusal that names its rule, e.g. "not exported (rule hub-imports): ..."."""
    return ExportError(f"not exported (rule {rule}): {message}", exit_code=REFUSED)
