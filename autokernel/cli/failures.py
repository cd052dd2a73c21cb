"""From any exception to a message on stderr and an exit code."""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from json import dumps

import click

DEBUG_VARIABLE = "AUTOKERNEL_DEBUG"

OURS = ("autokernel", "exporters", "kernelbench_bridge", "scorer")

INTERNAL = 4
MISSING = 3
NOBODY_READS = 128 + signal.SIGPIPE  # as a shell reports a program that the signal ended


def explain(error: Exception, *, debug: bool, json: bool = False) -> int:
    """Write `error` to stderr as one message and its hint, with `json` to stdout as an object too; returns the exit code.

    Errors that know their code carry `message`, `hint` and `exit_code`: AutoKernelError, and the bridge's and scorer's errors, which
    cannot be imported from here alone and are told by those attributes. A package that is not installed is exit 3, anything else
    is a fault of AutoKernel's own, exit 4. The traceback is shown with `debug` only.
    """
    if debug:
        click.echo("".join(traceback.format_exception(error)), err=True)
    message, hint, code = _told(error, debug)
    click.echo(f"Error: {message}", err=True)
    if hint:
        click.echo(f"  {hint}", err=True)
    if json:
        click.echo(as_json(message, hint, code))
    return code


def as_json(message: str, hint: str, code: int) -> str:
    """A failure as the JSON object that --json promises."""
    return dumps({"error": {"message": message, "hint": hint, "exit_code": code}}, indent=2)


def _told(error: Exception, debug: bool) -> tuple[str, str, int]:
    """Message, hint and exit code."""
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return str(getattr(error, "message", None) or error), str(getattr(error, "hint", "")), code
    if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").partition(".")[0]) not in ("", *OURS):
        return f"the package '{package}' is missing.", f"Install it (pip install {package}), or install AutoKernel again.", MISSING
    hint = "" if debug else f"Run it again as `autokernel --debug ...` (or set {DEBUG_VARIABLE}=1) for the traceback."
    return f"internal: {type(error).__name__}: {error}", hint, INTERNAL


def nobody_reads() -> bool:
    """Whether stdout or stderr is a pipe whose reader has gone, as after `| head`; further output then goes nowhere, without error."""
    gone = [descriptor for stream in (sys.stdout, sys.stderr) if (descriptor := _descriptor(stream)) is not None and _broken(descriptor)]
    if gone:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in gone:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)
    return bool(gone)


def _descriptor(stream: object) -> int | None:
    try:
        return int(stream.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):  # closed, or replaced by something that is no file
        return None


def _broken(descriptor: int) -> bool:
    watch = select.poll()
    watch.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in watch.poll(0))
