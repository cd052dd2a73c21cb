"""What the cuda and cpp builders share: literals to a stored shared library, and the `native` module over it."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from autokernel.builders.binding import native_module
from autokernel.builders.digest import digest, is_machine_fault
from autokernel.builders.literals import NativeLiterals, read_literals
from autokernel.builders.loading import import_candidate
from autokernel.builders.ninja import LIBRARY, LOG, NinjaRun, run_ninja, write_ninja
from autokernel.builders.protocol import BuildResult
from autokernel.builders.store import BuildStore, StoredBuild
from autokernel.builders.syntax import CandidateFault
from autokernel.builders.toolchain import Toolchain, find_toolchain, missing_tool
from autokernel.builders.translation_unit import translation_unit

_FOLDER = "native"  # inside the store's folder


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a native build gives."""

    kind: str  # "cuda" or "cpp"
    text: str  # of the file that is compiled
    file: str  # its name
    compile_command: tuple[str, ...]  # words; "$in" and "$out" are ninja's
    link_command: tuple[str, ...]
    stamp: str  # versions of the compilers

    @property
    def key(self) -> str:
        """Content hash, in hex: equal keys give equal libraries."""
        parts = [self.kind, self.text, self.file, self.compile_command, self.link_command, self.stamp]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def run(self, folder: Path, ninja: str, timeout_s: float) -> NinjaRun:
        """Build in the empty `folder`; what is only in the way afterwards is removed."""
        (folder / self.file).write_text(self.text, encoding="utf-8")
        write_ninja(folder, self.file, self.compile_command, self.link_command)
        done = run_ninja(ninja, folder, self.kind, timeout_s)
        shutil.rmtree(folder / "tmp", ignore_errors=True)
        for name in ("native.o", ".ninja_log", ".ninja_deps", *(() if done.ok else (LIBRARY,))):
            (folder / name).unlink(missing_ok=True)
        return done


class NativeBuilder(ABC):
    """Base of the builders whose candidates hold C++ as a literal. Subclasses say how it is compiled."""

    name: str

    @abstractmethod
    def recipe(self, literals: NativeLiterals, tools: Toolchain, arch: str | None) -> Recipe:
        """What to compile and how, for the GPU architecture `arch` (None: the builder's default)."""

    def unavailable(self, device: str) -> str | None:
        """Why candidates cannot be compiled here; None if nothing is in the way."""
        return missing_tool(self.name)

    def build(self, source: str, store: Path, arch: str | None, timeout_s: float) -> BuildResult:
        """Compile the candidate's literal, or answer from the store: good builds, failures and time-outs alike are remembered.

        A time-out is tried again only under a longer deadline than the one it hit. A failure of the machine's (full disk, killed for
        memory) is answered, but not kept. Raises as `Builder.build` says.
        """
        start = time.monotonic()
        try:
            literals = read_literals(source, self.name)
        except CandidateFault as fault:
            return BuildResult(ok=False, digest=str(fault), seconds=time.monotonic() - start)
        tools = find_toolchain(self.name)
        recipe = self.recipe(literals, tools, arch)
        builds = BuildStore(store / _FOLDER, LIBRARY, LOG)
        key, cached = recipe.key, True
        entry = _usable(builds.find(key), timeout_s)
        if entry is None:
            with builds.lock(key, timeout_s):
                entry = _usable(builds.find(key), timeout_s)  # another process may have built it meanwhile
                if entry is None:
                    cached = False
                    with builds.workspace(key) as folder:
                        done = recipe.run(folder, tools.ninja, timeout_s)
                        why = "" if done.ok else _why(done, source, literals.warning, timeout_s)
                        if not done.ok and not done.timed_out and is_machine_fault(done.log):
                            return BuildResult(ok=False, digest=why, seconds=time.monotonic() - start)
                        limit = timeout_s if done.timed_out else None
                        entry = builds.publish(key, folder, ok=done.ok, digest=why, seconds=done.seconds, timeout_s=limit)
        artifact = builds.artifact_path(key) if entry.ok else None
        return BuildResult(entry.ok, artifact, entry.digest, builds.log_path(key), time.monotonic() - start, cached)

    def load(self, source_path: Path, artifact: Path | None) -> ModuleType:
        """Import the candidate with `native` in sys.modules, bound to the library `artifact`."""
        if artifact is None:
            raise ImportError(f"builder '{self.name}' needs the library that build() made; pass its path.")
        source = source_path.read_text(encoding="utf-8")
        sys.modules["native"] = native_module(artifact, read_literals(source, self.name).signatures, self.name)
        return import_candidate(source_path)

    def needs_import_build(self, source: str) -> bool:
        """Always False: build() has compiled everything."""
        return False

    def worker_env(self, device: str) -> Mapping[str, str]:
        """Nothing."""
        return {}


def make_recipe(builder: str, literals: NativeLiterals, compile_command: list[str], link_command: list[str], stamp: str) -> Recipe:
    """A recipe with its text written out from the literals."""
    file = "candidate.cu" if builder == "cuda" else "candidate.cpp"
    return Recipe(builder, translation_unit(literals, builder), file, tuple(compile_command), tuple(link_command), stamp)


def _usable(entry: StoredBuild | None, timeout_s: float) -> StoredBuild | None:
    """A stored build where it answers a request with this deadline: all but a time-out under a shorter one do."""
    return entry if entry is not None and (entry.timeout_s is None or timeout_s <= entry.timeout_s) else None


def _why(done: NinjaRun, source: str, warning: str, timeout_s: float) -> str:
    if done.timed_out:
        return f"error: the compiler ran past its deadline of {timeout_s:g} s and was killed; use fewer templates and less unrolling."
    return digest(done.log, source, warning)
