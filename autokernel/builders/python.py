"""KernelBench answers as they are: any Python file with `ModelNew`, `load_inline` included."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from autokernel.builders.loading import import_candidate
from autokernel.builders.protocol import BuildResult
from autokernel.builders.syntax import CandidateFault, compiles_on_import, parse
from autokernel.builders.toolchain import find_ninja


@dataclass(frozen=True)
class PythonBuilder:
    """Nothing to compile before the import; the import itself may."""

    name: str = "python"

    def unavailable(self, device: str) -> str | None:
        """Always None: what a file itself needs shows when it is imported."""
        return None

    def build(self, source: str, store: Path, arch: str | None, timeout_s: float) -> BuildResult:
        """Only parses `source`: a syntax error is refused here, with its line."""
        return parsed_only(source)

    def load(self, source_path: Path, artifact: Path | None) -> ModuleType:
        """Import the file; where it calls load_inline this compiles."""
        return import_candidate(source_path)

    def needs_import_build(self, source: str) -> bool:
        """True where torch.utils.cpp_extension or load_inline is named in the syntax tree."""
        return compiles_on_import(source)

    def worker_env(self, device: str) -> Mapping[str, str]:
        """A PATH with ninja on it: load_inline looks for it there, and a venv that is not activated has it elsewhere."""
        ninja = find_ninja()
        if ninja is None or shutil.which("ninja"):
            return {}
        return {"PATH": os.environ.get("PATH", os.defpath) + os.pathsep + str(Path(ninja).parent)}


def parsed_only(source: str) -> BuildResult:
    """The build of a kind that compiles nothing: ok if the text parses."""
    start = time.monotonic()
    try:
        parse(source)
    except CandidateFault as fault:
        return BuildResult(ok=False, digest=str(fault), seconds=time.monotonic() - start)
    return BuildResult(ok=True, seconds=time.monotonic() - start)


BUILDER = PythonBuilder()
