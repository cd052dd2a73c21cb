"""The ledger: an append-only file of JSON lines that only the broker writes, and that outlives `kill -9`.

Every line is one event and is fsynced before `append` returns. A line cut short by a crash is moved to `ledger.torn` when the run is
opened again; a line broken anywhere else stops the program and nothing is changed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from autokernel.durable import make_folder, storage_errors, sync_folder, write_all
from autokernel.errors import InternalError, StorageError, UsageError
from autokernel.trials import Outcome, RunHeader, Trial

LEDGER = "ledger.jsonl"
TORN = "ledger.torn"
LOCK = "lock"
SCHEMA = 1
_BROKEN = (InternalError, KeyError, TypeError, ValueError, AttributeError)  # what a line that is no event raises


@dataclass
class LedgerContents:
    """What a ledger says, in the order it was written."""

    header: RunHeader | None = None
    trials: list[Trial] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)  # by problem, the last one written
    sessions: int = 0  # times the run was started or gone on with
    keys: set[tuple[str, str, int]] = field(default_factory=set)

    def of(self, problem: str) -> list[Trial]:
        """The trials of one problem, oldest first."""
        return [trial for trial in self.trials if trial.problem == problem]

    def champions(self) -> dict[str, Trial]:
        """By problem, the final trial that stood: the only source of reported figures."""
        return {trial.problem: trial for trial in self.trials if trial.phase == "final" and trial.kept}

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one event. Raises InternalError, KeyError or TypeError where it is not one that may follow."""
        data = dict(event)
        kind = data.pop("event")
        if kind == "run":
            if self.header is not None or data.pop("schema") != SCHEMA:
                raise InternalError(f"a second header, or another schema; there must be one header, of schema {SCHEMA}.")
            self.header, self.sessions = RunHeader(**data), 1
        elif self.header is None:
            raise InternalError("the first line must be the run's header.")
        elif kind == "resume":
            self.sessions += 1
        elif kind == "evaluation":
            trial = Trial.from_json(data)
            if trial.key in self.keys:
                raise InternalError(f"iteration {trial.iteration} of {trial.problem} ({trial.phase}) must be there once, not twice.")
            self.keys.add(trial.key)
            self.trials.append(trial)
        elif kind == "outcome":
            outcome = Outcome(**data)
            before = self.outcomes.get(outcome.problem)
            if before is not None and before.finished:
                raise InternalError(f"{outcome.problem} ends twice, and must end once.")
            self.outcomes[outcome.problem] = outcome
        else:
            raise InternalError(f"unknown event '{kind}'; use the version of AutoKernel that wrote it.")


def read(folder: Path) -> LedgerContents:
    """The ledger of the run in `folder`, read without lock or change; a torn last line is left out.

    Raises UsageError where there is none, StorageError where it cannot be read or a line is broken.
    """
    path = folder / LEDGER
    if not path.is_file():
        raise UsageError(f"no run in '{folder}' (it has no {LEDGER}). Pass the folder that 'kb run --out' wrote.")
    return _parse(path)[0]


def header_in(folder: Path) -> RunHeader | None:
    """How the run in `folder` began; None where none began there. Raises as `read` does besides."""
    path = folder / LEDGER
    return _parse(path)[0].header if path.is_file() else None


class Ledger:
    """The open ledger of one run, held by one process at a time. Use as a context manager."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.path = folder / LEDGER
        self.contents = LedgerContents()
        self.repaired = ""  # what was repaired on opening, for the user; empty where nothing was
        self._lock = lock
        self._file = -1

    @classmethod
    def open(cls, folder: Path, header: RunHeader, *, fresh: bool = False) -> Ledger:
        """Begin the run in `folder`, or go on with the one that is there; `fresh` sets that one aside as FOLDER.old-N first.

        Raises UsageError if another process has it open or the run began with other rules, torch or device; StorageError if the
        folder cannot be written or a ledger line is broken. What was there is unharmed in each case.
        """
        make_folder(folder)
        ledger = cls(folder, _lock(folder))
        try:
            if fresh and ledger.path.exists():
                ledger._set_aside()
            with storage_errors("open", ledger.path):
                ledger._file = os.open(ledger.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            ledger._load()
            ledger._begin(header)
        except BaseException:
            ledger.close()
            raise
        return ledger

    def record(self, trial: Trial) -> None:
        """Append a trial. Raises InternalError if the ledger holds that iteration already, StorageError if it cannot be written."""
        self._append({"event": "evaluation", **trial.to_json()})

    def end(self, outcome: Outcome) -> None:
        """Append how a problem ended. Raises InternalError if it ended before, StorageError if it cannot be written."""
        self._append({"event": "outcome", **outcome.to_json()})

    def close(self) -> None:
        """Let go of the file and of the lock; calling it twice is fine."""
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _append(self, event: dict[str, Any]) -> None:
        line = json.dumps(event, allow_nan=False).encode() + b"\n"
        self.contents.add(json.loads(line))
        with storage_errors("write to", self.path):
            end = os.fstat(self._file).st_size
            try:
                write_all(self._file, line)
                os.fsync(self._file)
            except BaseException:
                # Half a line would make the next one unreadable; cut it off again, also when Ctrl-C came in between.
                os.ftruncate(self._file, end)
                self.contents = _parse(self.path)[0]
                raise

    def _load(self) -> None:
        self.contents, good, tail = _parse(self.path)
        if not tail:
            return
        torn = self.folder / TORN
        with storage_errors("repair", self.path):
            if _takes(self.contents, tail):
                write_all(self._file, b"\n")
                self.repaired = "The ledger's last line was whole but not closed; it was closed."
            else:
                side = os.open(torn, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
                try:
                    write_all(side, tail + b"\n")
                    os.fsync(side)
                finally:
                    os.close(side)
                os.ftruncate(self._file, good)
                self.repaired = f"The ledger's last line was cut short ({len(tail)} bytes, moved to {torn.name}); nothing recorded is lost."
            os.fsync(self._file)

    def _begin(self, header: RunHeader) -> None:
        before = self.contents.header
        if before is None:
            self._append({"event": "run", "schema": SCHEMA, **header.to_json()})
            with storage_errors("write to", self.folder):
                sync_folder(self.folder)
            return
        for name in ("rules", "torch", "device"):
            then, now = getattr(before, name), getattr(header, name)
            if then != now:
                raise UsageError(f"the run in '{self.folder}' began with {name} '{then}', and this is '{now}'. "
                                 "Pass --fresh to set it aside and begin anew, or --out to choose another folder.")
        self._append({"event": "resume", "options": dict(header.options), "version": header.version, "created": header.created})

    def _set_aside(self) -> None:
        aside = next(path for path in _numbered(self.folder) if not path.exists())
        with storage_errors("set aside", self.folder):
            os.rename(self.folder, aside)
        make_folder(self.folder)
        os.close(self._lock)
        self._lock = -1
        self._lock = _lock(self.folder)


def _numbered(folder: Path) -> Iterator[Path]:
    number = 1
    while True:
        yield folder.with_name(f"{folder.name}.old-{number}")
        number += 1


def _lock(folder: Path) -> int:
    path = folder / LOCK
    with storage_errors("lock", path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            write_all(descriptor, str(os.getpid()).encode())
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace") or "unknown"
            os.close(descriptor)
            raise UsageError(f"another process (pid {holder}) is working on the run in '{folder}'. "
                             "Wait until it ends, or pass --out to choose another folder.") from error
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def _parse(path: Path) -> tuple[LedgerContents, int, bytes]:
    """The contents, the length in bytes of its whole lines, and what follows the last newline."""
    with storage_errors("read", path):
        data = path.read_bytes()
    contents = LedgerContents()
    *lines, tail = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            contents.add(json.loads(line))
        except _BROKEN as error:
            raise StorageError(f"line {number} of '{path}' is broken ({error}); nothing was changed. "
                               "Mend the line by hand, pass --fresh to set this run aside, or choose another --out.") from error
    return contents, len(data) - len(tail), tail


def _takes(contents: LedgerContents, tail: bytes) -> bool:
    """Whether `tail` is a whole event, which is then added: it lacks nothing but its newline."""
    try:
        contents.add(json.loads(tail))
    except _BROKEN:
        return False
    return True
