"""A candidate becomes something a process can load: compiled by its builder, or imported once where importing is what compiles."""

from __future__ import annotations

import time
from pathlib import Path

from autokernel import builders
from autokernel.errors import BuilderUnavailable
from autokernel.executor.broker import Executor
from autokernel.executor.faults import WorkerFault
from autokernel.records import Candidate


class BuildRefused(Exception):
    """The candidate does not build or import; `digest` is for people, and `telling` the line of it that says most."""

    def __init__(self, reason: str, digest: str = "", *, compiler: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.digest = reason, digest
        lines = [line.strip() for line in digest.splitlines() if line.strip()] or [""]
        self.telling = lines[0 if compiler else -1]  # a compiler begins with the error, a process's text ends with it


def extensions_folder(store: Path, candidate: Candidate) -> Path:
    """Where load_inline builds of a candidate lie; its workers get private copies, and find them by TORCH_EXTENSIONS_DIR."""
    return store / "extensions" / candidate.sha256[:24]


def build(executor: Executor, candidate: Candidate, limit_s: float) -> Path | None:
    """Build a candidate off the device within `limit_s`: the artifact, or None where the builder makes none.

    Raises BuildRefused where the candidate is at fault, BuilderUnavailable where this machine cannot run its kind.
    """
    builder = builders.get(candidate.builder)
    capability = executor.machine().get("capability")
    arch = gpu_arch(str(capability)) if capability else None
    result = builder.build(candidate.source, executor.store / "builds", arch, limit_s)
    if not result.ok:
        raise BuildRefused("it does not compile", result.digest, compiler=True)
    why_not = builder.unavailable(executor.device)
    if why_not:
        raise BuilderUnavailable(f"builder '{candidate.builder}' cannot run candidates on {executor.device}: {why_not}")
    if builder.needs_import_build(candidate.source):
        _import_build(executor, candidate, limit_s)
    return result.artifact


def _import_build(executor: Executor, candidate: Candidate, limit_s: float) -> None:
    extensions = extensions_folder(executor.store, candidate)
    done = extensions / "imported"
    if done.exists():
        return
    worker = executor.nursery.spawn(on_device=False, writable=[extensions])
    started = time.monotonic()
    try:
        executor.load(worker, candidate.source, candidate.builder, extensions=extensions, deadline_s=limit_s)
        done.parent.mkdir(parents=True, exist_ok=True)
        done.write_text(f"{time.monotonic() - started:.2f} s\n")
    except WorkerFault as fault:
        raise BuildRefused(f"it does not compile or import: {fault.message}", worker.text.text()) from fault
    finally:
        executor.stop(worker)


def gpu_arch(capability: str) -> str:
    """nvcc's name for a compute capability: "9.0" -> "sm_90a", the suffix from 9.0 on, where architecture-specific code exists."""
    major, minor = capability.split(".")
    return f"sm_{major}{minor}{'a' if int(major) >= 9 else ''}"
