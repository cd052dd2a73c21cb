"""Triton candidates: compiled by Triton inside their worker, interpreted where there is no GPU."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from autokernel.builders.loading import import_candidate
from autokernel.builders.protocol import BuildResult
from autokernel.builders.python import parsed_only
from autokernel.builders.syntax import compiles_on_import


@dataclass(frozen=True)
class TritonBuilder:
    """Nothing to compile ahead: Triton compiles at a kernel's first call, in the worker, during warm-up."""

    name: str = "triton"

    def unavailable(self, device: str) -> str | None:
        """Why Triton is not usable here. On "cpu" it is, through its interpreter: right or wrong can be told there, speed cannot."""
        if importlib.util.find_spec("triton") is None:
            return "builder 'triton' needs the package triton, which is not installed; install it with pip install triton (Linux only)."
        if device != "cpu" and not any(map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))):
            return "builder 'triton' needs a C compiler for its launchers, and none is on PATH; install gcc, or set CC to one."
        return None

    def build(self, source: str, store: Path, arch: str | None, timeout_s: float) -> BuildResult:
        """Only parses `source`: a syntax error is refused here, with its line."""
        return parsed_only(source)

    def load(self, source_path: Path, artifact: Path | None) -> ModuleType:
        """Import the file; its kernels compile when they are first called."""
        return import_candidate(source_path)

    def needs_import_build(self, source: str) -> bool:
        """True where the file calls load_inline as well."""
        return compiles_on_import(source)

    def worker_env(self, device: str) -> Mapping[str, str]:
        """On "cpu" Triton's interpreter, which must be chosen before triton is imported."""
        return {"TRITON_INTERPRET": "1"} if device == "cpu" else {}


BUILDER = TritonBuilder()
