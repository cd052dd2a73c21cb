"""Runs one command (a compiler's ninja) in the sandbox, without the device: what it makes is handed out as bytes when all is over.

`run` is the trusted caller's side. `serve` is a small Python of its own, since a process with threads cannot fork and go on in Python:
it enters the namespaces, forks their first process, and that one runs the command on a private copy of the folder, kills everybody at
the deadline or at the end, and writes the log and the result to the pipe it inherited.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autokernel.sandbox import environment, limits, namespaces, seccomp, view

RESULT_BYTES = 256 << 20  # largest result that is handed out
GRACE_S = 30.0  # beyond the deadline, for the sandbox's own work
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_START = "import sys; sys.path.append(sys.argv[1]); from autokernel.sandbox import command; command.serve()"


@dataclass(frozen=True)
class Limits:
    """Of each process: s of processor time, bytes of a file, bytes of addresses; and of the log that is kept."""

    cpu_s: int
    file_bytes: int
    memory_bytes: int
    log_bytes: int


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int  # its exit status, negative for a signal
    timed_out: bool
    log: bytes  # both streams, its middle left out where it is too long
    result: bytes | None  # the file asked for, None where it is not there, no plain file or too large


def run(argv: Sequence[str], *, folder: Path, env: Mapping[str, str], result: str, limited: Limits, timeout_s: float) -> Done:
    """Run `argv` in a private copy of `folder` and give what it left in the file `result` there. The folder itself is not touched.

    In namespaces and under a filter of system calls where this machine allows them (`why_not` says), else in a process group only,
    in the folder itself. Raises SandboxFailed where the sandbox was to be had and failed all the same.
    """
    order = {
        "argv": list(argv), "folder": str(folder.resolve()), "env": dict(env), "result": result, "deadline_s": timeout_s,
        "limits": vars(limited), "view": view.View(view.readable(), (), (str(folder.resolve()),)).to_json(), **_layers(),
    }
    head, rest = _ask(order, timeout_s + GRACE_S)
    if head is None:
        return Done(-signal.SIGKILL, True, b"", None)
    if "failed" in head:
        raise namespaces.SandboxFailed(head["failed"])
    log = rest[:head["log"]]
    return Done(head["status"], head["timed_out"], log, rest[head["log"]:] if head["result"] else None)


@functools.lru_cache(maxsize=1)
def why_not() -> dict[str, str]:
    """Layers that this machine does not allow a command, with the reason: "namespaces", "seccomp". Tried once."""
    if not _refused("namespaces", "seccomp"):
        return {}
    found = {name: _refused(name) for name in ("namespaces", "seccomp")}
    return {name: reason for name, reason in found.items() if reason}


def _refused(*layers: str) -> str:
    """Why these layers cannot be had together, or nothing."""
    order = {name: name in layers for name in ("namespaces", "seccomp")}
    head, _ = _ask({**order, "probe": True, "view": view.View(view.readable()).to_json()}, GRACE_S)
    return "its process died" if head is None else str(head.get("failed", ""))


def _layers() -> dict[str, bool]:
    return {name: name not in why_not() for name in ("namespaces", "seccomp")}


def _ask(order: dict[str, Any], timeout_s: float) -> tuple[dict[str, Any] | None, bytes]:
    """The head of the answer and the bytes behind it; None where it did not come in time."""
    root = str(Path(__file__).resolve().parent.parent.parent)
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", _START, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=environment.allowed(os.environ), start_new_session=True)
    try:
        said, _ = process.communicate(json.dumps(order).encode(), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return None, b""
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the namespaces' first process dies with it, and everybody with that one
            process.communicate()
    head, _, rest = said.partition(b"\n")
    return (json.loads(head) if head else None), rest


def serve() -> None:
    """In the helper's process: carry out the order on standard input."""
    order = json.loads(sys.stdin.buffer.read())
    try:
        if order["namespaces"]:
            namespaces.leave_namespaces()
        rules = seccomp.Filter() if order["seccomp"] else None
        first = os.fork()
    except (namespaces.SandboxFailed, seccomp.NoSeccomp) as error:
        _say({"failed": str(error)})
        return
    if first == 0:
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            _first(order, rules)
        except OSError as error:
            _say({"failed": f"{error}"})
        finally:
            os._exit(0)  # and with it everybody in the namespaces
    os.waitpid(first, 0)


def _first(order: dict[str, Any], rules: seccomp.Filter | None) -> None:
    try:
        if order["namespaces"]:
            namespaces.shut_in(view.View.from_json(order["view"]))
        else:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if "probe" in order:
            if rules is not None:
                rules.load()
            _say({})
            return
    except (namespaces.SandboxFailed, seccomp.NoSeccomp) as error:
        _say({"failed": str(error)})
        return
    folder = Path(order["folder"])
    (folder / "tmp").mkdir(exist_ok=True)
    log = folder / "log.txt"
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        _become(order, rules, log)
    status, timed_out = _await(child, order["deadline_s"])
    _kill_all()
    kept = _ends(log, order["limits"]["log_bytes"])
    made = _plain(folder / order["result"])
    _say({"status": status, "timed_out": timed_out, "log": len(kept), "result": made is not None}, kept, made or b"")


def _become(order: dict[str, Any], rules: seccomp.Filter | None, log: Path) -> None:
    """In the command's own process: limits, filter, and then it."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.chdir(order["folder"])
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        text = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.dup2(text, 1)
        os.dup2(text, 2)
        os.closerange(3, limits.OPEN_FILES)
        given = order["limits"]
        for which, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, given["cpu_s"]), (resource.RLIMIT_FSIZE, given["file_bytes"]),
                            (resource.RLIMIT_AS, given["memory_bytes"])):
            limits.limit(which, most)
        if rules is not None:
            rules.load()
        os.execve(order["argv"][0], order["argv"], order["env"])
    finally:
        os._exit(127)


def _await(child: int, deadline_s: float) -> tuple[int, bool]:
    """Its status, and whether it ran past the deadline (it is still alive then)."""
    until = time.monotonic() + deadline_s
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return os.waitstatus_to_exitcode(status), False
        if pid == 0 and not signal.sigtimedwait({signal.SIGCHLD}, max(until - time.monotonic(), 0)) and time.monotonic() >= until:
            return -signal.SIGKILL, True


def _kill_all() -> None:
    """Everybody below this process, orphans too: they became its children, or will."""
    while True:
        with contextlib.suppress(ProcessLookupError):
            if os.getpid() == 1:
                os.kill(-1, signal.SIGKILL)
            else:
                for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _ends(path: Path, most: int) -> bytes:
    """The text of a log; the beginning and the end of one that is too long."""
    with path.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(0)
        if size <= most:
            return log.read()
        head = log.read(most // 2)
        log.seek(size - most // 2)
        return head + f"\n[... {size - most} bytes left out ...]\n".encode() + log.read(most // 2)


def _plain(path: Path) -> bytes | None:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            facts = os.fstat(file.fileno())
            return file.read() if stat.S_ISREG(facts.st_mode) and facts.st_size <= RESULT_BYTES else None
    except OSError:
        return None


def _say(head: dict[str, Any], *parts: bytes) -> None:
    with open(1, "wb", closefd=False) as out:
        out.write(json.dumps(head).encode() + b"\n")
        for part in parts:
            out.write(part)
