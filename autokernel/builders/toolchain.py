"""Finds the compilers and ninja on this machine and names their versions."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from autokernel.errors import BuilderUnavailable

NATIVE_HINT = {
    "cuda": "Install the CUDA toolkit (nvcc) and g++, or choose --backend cpp, triton or python.",
    "cpp": "Install g++ (Debian: apt install g++), or choose --backend python.",
}


@dataclass(frozen=True)
class Toolchain:
    """What one kind of native build runs: paths of programs, and everything about them that changes what they make."""

    ninja: str
    gxx: str
    nvcc: str | None  # for "cuda"
    library_folders: tuple[str, ...]  # of the CUDA toolkit, for its static runtime
    stamp: str  # versions (and for g++ -march=native the processor): a part of the store's key


def missing_tool(kind: str) -> str | None:
    """The reason why `kind` ("cuda" or "cpp") cannot be compiled here, with what to install; None if it can."""
    wanted = {"ninja": find_ninja(), "g++": shutil.which("g++")}
    if kind == "cuda":
        wanted["nvcc"] = find_nvcc()
    missing = [name for name, path in wanted.items() if path is None]
    if not missing:
        return None
    places = {"nvcc": "on PATH, under CUDA_HOME or /usr/local/cuda", "ninja": "beside this Python or on PATH", "g++": "on PATH"}
    hint = "Install ninja (pip install ninja)." if missing == ["ninja"] else NATIVE_HINT[kind]
    what = " and ".join(f"{name} ({places[name]})" for name in missing)
    return f"builder '{kind}' needs {what}, not found here. {hint}"


def find_toolchain(kind: str) -> Toolchain:
    """The tools for `kind` "cuda" or "cpp", versions read once a process. Raises BuilderUnavailable with what to install."""
    reason = missing_tool(kind)
    if reason is not None:
        raise BuilderUnavailable(reason)
    return _toolchain(kind, find_ninja() or "", shutil.which("g++") or "", find_nvcc() if kind == "cuda" else None)


def find_nvcc() -> str | None:
    """Path of nvcc: PATH first, then CUDA_HOME, CUDA_PATH and /usr/local/cuda."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    return shutil.which("nvcc") or next((found for home in homes if home and (found := shutil.which("nvcc", path=f"{home}/bin"))), None)


def find_ninja() -> str | None:
    """Path of ninja: the package's own, beside this interpreter (a venv need not be activated), then PATH."""
    beside = shutil.which("ninja", path=str(Path(sys.executable).parent))
    if beside:
        return beside
    spec = importlib.util.find_spec("ninja")
    packaged = [Path(folder) / "data" / "bin" for folder in spec.submodule_search_locations or ()] if spec else []
    return next((found for folder in packaged if (found := shutil.which("ninja", path=str(folder)))), None) or shutil.which("ninja")


@functools.lru_cache(maxsize=8)
def _toolchain(kind: str, ninja: str, gxx: str, nvcc: str | None) -> Toolchain:
    stamp = [_output([gxx, "-dumpfullversion", "-dumpmachine"])]
    folders: tuple[str, ...] = ()
    if nvcc:
        stamp.append(_output([nvcc, "--version"]))
        # nvcc itself may be a wrapper script; what it would tell the linker is where the toolkit's libraries are.
        told = re.search(r"^#\$ LIBRARIES=(.*)$", _output([nvcc, "--dryrun", "-shared", "none.cu", "-o", "none.so"]), re.MULTILINE)
        folders = tuple(re.findall(r'"-L([^"]+)"', told[1])) if told else ()
    else:
        stamp.append(_processor())
    return Toolchain(ninja, gxx, nvcc, folders, "\n".join(stamp))


def _output(command: list[str]) -> str:
    """Both streams of a short command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuilderUnavailable(f"'{command[0]}' does not answer ({error}). Check that the compiler runs on this machine.") from error
    return done.stdout + done.stderr


def _processor() -> str:
    """A digest of this processor's model and features: what -march=native compiles for."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return "unknown processor"
    lines = [line for line in text.splitlines() if line.partition(":")[0].strip() in ("model name", "flags", "Features", "CPU part")]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
