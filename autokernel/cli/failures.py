"""From any exception to a message on stderr and an exit code."""

from __future__ import annotations

import traceback

import click

DEBUG_VARIABLE = "AUTOKERNEL_DEBUG"

OURS = ("autokernel", "kernelbench_bridge", "scorer")

INTERNAL = 4
MISSING = 3


def explain(error: Exception, *, debug: bool) -> int:
    """Write `error` to stderr as one message and its hint; returns the exit code.

    Errors that know their code carry `message`, `hint` and `exit_code`: AutoKernelError, and the bridge's and scorer's errors, which
    cannot be imported from here alone and are told by those attributes. A package that is not installed is exit 3, anything else
    is a fault of AutoKernel's own, exit 4. The traceback is shown with `debug` only.
    """
    if debug:
        click.echo("".join(traceback.format_exception(error)), err=True)
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        _write(str(getattr(error, "message", None) or error), str(getattr(error, "hint", "")))
        return code
    if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").partition(".")[0]) not in ("", *OURS):
        _write(f"the package '{package}' is missing.", f"Install it (pip install {package}), or install AutoKernel again.")
        return MISSING
    hint = "" if debug else f"Run it again as `autokernel --debug ...` (or set {DEBUG_VARIABLE}=1) for the traceback."
    _write(f"internal: {type(error).__name__}: {error}", hint)
    return INTERNAL


def _write(message: str, hint: str) -> None:
    click.echo(f"Error: {message}", err=True)
    if hint:
        click.echo(f"  {hint}", err=True)
