"""A candidate becomes something a process can load: compiled by its builder, or imported once where importing is what compiles."""

from __future__ import annotations

from pathlib import Path

from autokernel import builders
from autokernel.builders import light_headers
from autokernel.errors import BuilderUnavailable
from autokernel.executor import extensions
from autokernel.executor.broker import Executor
from autokernel.executor.faults import WorkerFault
from autokernel.records import Candidate


class BuildRefused(Exception):
    """The candidate does not build or import; `digest` is for people, and `telling` the line of it that says most."""

    def __init__(self, reason: str, digest: str = "", *, compiler: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.digest = reason, digest
        lines = [line.strip() for line in digest.splitlines() if line.strip()] or [""]
        # a compiler begins with its errors, a process's text ends with the exception, for which a compiler's error may be the cause
        self.telling = next((line for line in lines if " error: " in line), lines[0 if compiler else -1])


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
    folder = extensions.folder_of(executor.store, candidate.sha256)
    if extensions.is_whole(folder):
        return
    extensions.begin(folder)
    light = light_headers.place(folder, candidate.source)
    fault, log = _import(executor, candidate, folder, limit_s)
    if fault is not None and light and light_headers.may_lack(log):
        extensions.begin(folder)
        light = False
        fault, log = _import(executor, candidate, folder, limit_s)
    if fault is not None:
        extensions.discard(folder)
        raise BuildRefused(f"it does not compile or import: {fault.message}", log) from fault
    extensions.mark(folder, light_headers.LIGHT if light else light_headers.STOCK)


def _import(executor: Executor, candidate: Candidate, folder: Path, limit_s: float) -> tuple[WorkerFault | None, str]:
    """Import it in a process without the device, which keeps what that builds; what went wrong, and what was printed."""
    worker = executor.nursery.spawn(on_device=False, writable=[folder])
    try:
        executor.load(worker, candidate.source, candidate.builder, extensions=folder, deadline_s=limit_s)
        return None, ""
    except WorkerFault as fault:
        return fault, worker.text.text()
    finally:
        executor.stop(worker)


def way_of_building(store: Path, candidate: Candidate) -> tuple[str, ...]:
    """The label that says how a candidate which compiles when it is imported was built; none for all others."""
    how = extensions.how_made(extensions.folder_of(store, candidate.sha256))
    return (f"load_inline: {how}",) if how else ()


def gpu_arch(capability: str) -> str:
    """nvcc's name for a compute capability: "9.0" -> "sm_90a", the suffix from 9.0 on, where architecture-specific code exists."""
    major, minor = capability.split(".")
    return f"sm_{major}{minor}{'a' if int(major) >= 9 else ''}"
