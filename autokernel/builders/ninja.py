"""Runs one native build with ninja: in its own process group, under limits, with a deadline."""

from __future__ import annotations

import math
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIBRARY = "native.so"
LOG = "log.txt"
LOG_BYTES = 256 * 1024
_FILE_BYTES = 1 << 30  # largest file a compiler may write
_MEMORY_BYTES = {"cpp": 8 << 30, "cuda": 24 << 30}  # address space of one compiler process; cicc and ptxas map a lot
# limits are set by a shell in the child: Python's preexec_fn is not safe in a process with threads. 512 and 1024 are ulimit's units.
_LIMITED = 'ulimit -c 0; ulimit -t "$1"; ulimit -f "$2"; ulimit -v "$3"; shift 3; exec "$@"'


@dataclass(frozen=True)
class NinjaRun:
    """How a run ended."""

    ok: bool
    timed_out: bool
    seconds: float
    log: str  # both streams, capped


def write_ninja(folder: Path, source: str, compile_command: Sequence[str], link_command: Sequence[str]) -> None:
    """Write build.ninja into `folder`: `source` to native.o to native.so. Commands are words; "$in" and "$out" among them are ninja's.

    Both edges use the console pool: in any other, ninja gives a compiler a process group of its own, and a kill would miss it.
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
    """Run ninja in `folder`; at `timeout_s` the whole process group is killed. The log is kept in `folder`, capped.

    Compilers see a cleaned environment (no flags, include paths or launchers from the user's) and a private folder for temporary files.
    """
    temporary = folder / "tmp"
    temporary.mkdir()
    limits = [str(math.ceil(timeout_s) + 5), str(_FILE_BYTES // 512), str(_MEMORY_BYTES[kind] // 1024)]
    command = ["/bin/sh", "-c", _LIMITED, "limits", *limits, ninja, LIBRARY]
    start = time.monotonic()
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(temporary), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        timed_out = False
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            if process.poll() is None:  # not reaped, so the group's number is still ours
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    ok = process.returncode == 0 and not timed_out and (folder / LIBRARY).is_file()
    return NinjaRun(ok, timed_out, time.monotonic() - start, _cap_log(folder / LOG))


def _environment(temporary: Path) -> Mapping[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(temporary), "TMPDIR": str(temporary), "LC_ALL": "C"}


def _cap_log(path: Path) -> str:
    """The log's text; a log over the cap keeps its beginning and its end, in the file too."""
    size = path.stat().st_size
    if size > LOG_BYTES:
        with path.open("rb") as log:
            head = log.read(LOG_BYTES // 2)
            log.seek(size - LOG_BYTES // 2)
            tail = log.read()
        path.write_bytes(head + f"\n[... {size - LOG_BYTES} bytes left out ...]\n".encode() + tail)
    return path.read_bytes().decode("utf-8", "replace")
