"""Runs one native build with ninja: in the sandbox, under limits, with a deadline."""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autokernel.errors import InternalError
from autokernel.sandbox import command
from autokernel.sandbox.namespaces import SandboxFailed

LIBRARY = "native.so"
LOG = "log.txt"
LOG_BYTES = 256 * 1024
_FILE_BYTES = 1 << 30  # largest file a compiler may write
_MEMORY_BYTES = {"cpp": 8 << 30, "cuda": 24 << 30}  # address space of one compiler process; cicc and ptxas map a lot


@dataclass(frozen=True)
class NinjaRun:
    """How a run ended."""

    ok: bool
    timed_out: bool
    seconds: float
    log: str  # both streams, capped


def write_ninja(folder: Path, source: str, compile_command: Sequence[str], link_command: Sequence[str]) -> None:
    """Write build.ninja into `folder`: `source` to native.o to native.so. Commands are words; "$in" and "$out" among them are ninja's.

    Both edges use the console pool: what a compiler says reaches the log at once, also where it is killed.
    """
    text = (
        "ninja_required_version = 1.5\n"
        f"rule compile\n  command = {_command(compile_command)}\n  pool = console\n"
        f"rule link\n  command = {_command(link_command)}\n  pool = console\n"
        f"build native.o: compile {source}\nbuild {LIBRARY}: link native.o\ndefault {LIBRARY}\n"
    )
    (folder / "build.ninja").write_text(text, encoding="utf-8")


def _command(words: Sequence[str]) -> str:
    """Quoted for the shell, then for ninja."""
    return " ".join(word if word in ("$in", "$out") else shlex.quote(word).replace("$", "$$") for word in words)


def run_ninja(ninja: str, folder: Path, kind: str, timeout_s: float) -> NinjaRun:
    """Run ninja on a private copy of `folder` in the sandbox; at `timeout_s` all its processes are killed. Library and log come back here.

    Compilers see a cleaned environment (no flags, include paths or launchers from the user's), a private folder for temporary files and
    none of the user's files. Raises InternalError where a sandbox that this machine has cannot be entered.
    """
    limits = command.Limits(math.ceil(timeout_s) + 5, _FILE_BYTES, _MEMORY_BYTES[kind], LOG_BYTES)
    start = time.monotonic()
    try:
        done = command.run([ninja, LIBRARY], folder=folder, env=_environment(folder / "tmp"), result=LIBRARY, limited=limits,
                           timeout_s=timeout_s)
    except SandboxFailed as error:
        raise InternalError(f"the compiler could not be shut into its sandbox: {error}.", hint="See `autokernel doctor`.") from error
    (folder / LOG).write_bytes(done.log)
    ok = done.status == 0 and not done.timed_out and done.result is not None
    if ok and done.result is not None:
        fresh = folder / f"{LIBRARY}.new"
        fresh.write_bytes(done.result)
        fresh.chmod(0o755)
        fresh.replace(folder / LIBRARY)
    return NinjaRun(ok, done.timed_out, time.monotonic() - start, done.log.decode("utf-8", "replace"))


def _environment(temporary: Path) -> Mapping[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(temporary), "TMPDIR": str(temporary), "LC_ALL": "C"}
