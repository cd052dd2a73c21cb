"""What a builder is: three questions and an answer that carries its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol


@dataclass(frozen=True)
class BuildResult:
    """What came of building one candidate."""

    ok: bool
    artifact: Path | None = None  # the shared library, or None where the builder makes no file
    digest: str = ""  # a few lines for people, only where not ok
    log_path: Path | None = None  # the compiler's whole log, where a compiler ran
    seconds: float = 0.0  # wall time of this call
    cached: bool = False  # answered from the store, without running a compiler


class Builder(Protocol):
    """One backend: turns a candidate's text into something a worker can call. Imports no torch when it is imported itself."""

    @property
    def name(self) -> str:
        """What records and `--backend` call it."""

    def unavailable(self, device: str) -> str | None:
        """Why candidates of this kind cannot be compiled here, or not run on `device` ("cpu", "cuda:0"); None if nothing is in the way.

        Ends in what to install or pass. Looks at PATH and at installed packages; whether the device itself works is not asked.
        """

    def build(self, source: str, store: Path, arch: str | None, timeout_s: float) -> BuildResult:
        """Compile `source` in the broker's process, by subprocesses alone; `store` is a folder shared by any number of processes.

        `arch` is the GPU's, e.g. "sm_90a", None where there is none. A candidate at fault is an answer, not an exception. Raises
        BuilderUnavailable where this machine lacks a tool, StorageError where the store cannot be written, DeadlinePassed where
        another process has held the same text's build for longer than `timeout_s`. Works without a device of the builder's kind.
        """

    def load(self, source_path: Path, artifact: Path | None) -> ModuleType:
        """Import the candidate's file in the worker's process, with what `build` made. Raises whatever the candidate raises."""

    def needs_import_build(self, source: str) -> bool:
        """Whether importing the file compiles (load_inline and company), and so wants the build's deadline, not the import's."""

    def worker_env(self, device: str) -> Mapping[str, str]:
        """Environment that a worker needs before it imports anything but torch."""
