"""What this machine can do: its devices, tools, backends, and how well candidates are fenced in here. Imports no torch."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import signal
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autokernel.machine import cpu_name, memory_bytes, package_version
from autokernel.sandbox import layers as sandbox

PACKAGES = ("torch", "triton", "numpy", "pyarrow", "datasets", "huggingface_hub", "kernels", "optuna", "pybind11")
TOOLS = ("nvcc", "g++", "ninja", "git")
LINE = 80  # columns of the report for people
PROBE_S = 10.0  # a version query that takes longer is broken
PR_SET_PTRACER, PTRACER_ANY = 0x59616D61, ctypes.c_ulong(-1)

WITHOUT_SANDBOX = ("sandbox: a candidate shares this machine's files, network and user id; run candidates you do not trust in a container "
                   "or a virtual machine of their own")
WITH_SANDBOX = ("sandbox: a candidate runs under your user id and sees /usr, /opt, /sys and the interpreter's folders; a hole in the "
                "kernel or in the GPU's driver is a way out")
NOT_COVERED = (
    "limits: of a GPU's memory and time nothing bounds a candidate but deadlines",
    "GPU work of a frozen process goes on; an opponent that is slower beside the candidate than alone is timed once more in fresh "
    "processes, and a second time the candidate is refused",
    "speedups taken while the machine is busy are not to be believed, whatever their interval",
    "hostile code can leave out the shim's own work inside a window; verified_low is the speedup that would be left without it",
)


def visible_gpus() -> int:
    """Number of NVIDIA GPUs that a process started from here could use, by the driver's device files and CUDA_VISIBLE_DEVICES."""
    present = sum(1 for entry in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", entry.name))
    if not present and shutil.which("nvidia-smi"):
        present = sum(1 for line in _output(["nvidia-smi", "-L"]).splitlines() if line.startswith("GPU "))
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return present
    listed = [name.strip() for name in chosen.split(",") if name.strip()]
    usable = listed[: listed.index("-1")] if "-1" in listed else listed  # CUDA stops at the first invalid entry
    return min(present, len(usable))


@dataclass(frozen=True)
class Report:
    """What `examine` found; None and empty text stand for "not here"."""

    device: str
    machine: Mapping[str, str | int | float]
    gpus: tuple[str, ...]  # one line each: name, memory, driver
    packages: Mapping[str, str | None]  # versions
    tools: Mapping[str, str | None]  # versions
    backends: Mapping[str, Mapping[str, str | None]]  # builder -> device -> why not, None where it works
    layers: tuple[sandbox.Layer, ...]  # of the sandbox
    isolation: Mapping[str, str]
    not_covered: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """The report as text for people."""
        yield "machine"
        yield from (f"  {name:<16} {value}" for name, value in self.machine.items())
        yield f"  {'device':<16} {self.device} (what commands take without --device)"
        yield from (f"  {'gpu':<16} {gpu}" for gpu in self.gpus or ("none: candidates run on the CPU",))
        yield "versions"
        yield from (f"  {name:<16} {value or 'not installed'}" for name, value in {**self.packages, **self.tools}.items())
        yield "backends"
        for name, answers in self.backends.items():
            for device, reason in answers.items():
                works = "works, interpreted: its speed there says nothing" if (name, device) == ("triton", "cpu") else "works"
                yield from _filled(f"  {name:<9} {device:<6} {reason or works}", 19)
        yield "isolation"
        for layer in self.layers:
            yield from _filled(f"  {layer.name:<16} {layer.line}", 19)
        for name, value in self.isolation.items():
            yield from _filled(f"  {name.replace('_', ' '):<16} {value}", 19)
        yield "not covered"
        for gap in self.not_covered:
            yield from _filled(f"  - {gap}", 4)


def _filled(line: str, indent: int) -> list[str]:
    """The line wrapped to LINE columns; spaces that align its first words are kept."""
    head, text = line[:indent], line[indent:]
    return textwrap.wrap(text, LINE, initial_indent=head, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False)


def examine(device: str) -> Report:
    """Look at this machine; `device` is the one that commands would use, "cpu" or "cuda:N". Takes about a second, runs nothing of yours."""
    from autokernel import builders

    devices = ("cpu",) if device == "cpu" else ("cpu", device)
    layers = sandbox.examine()
    shut_in = all(layer.on for layer in layers if layer.name in ("namespaces", "mounts"))
    return Report(
        device=device,
        machine=_machine(),
        gpus=_gpus(),
        packages={name: package_version(name) for name in PACKAGES},
        tools={name: _tool_version(name) for name in TOOLS},
        backends={name: {d: builders.get(name).unavailable(d) for d in devices} for name in builders.names()},
        layers=layers,
        isolation={"memory_reading": memory_reading()},
        not_covered=(WITH_SANDBOX if shut_in else WITHOUT_SANDBOX, *NOT_COVERED),
    )


def memory_reading() -> str:
    """Whether one process may read a sibling's memory, as the judge reads a worker's outputs: tried, not guessed.

    Two children are forked: one lies still, the other reads a word of it that only it holds.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    word = ctypes.create_string_buffer(b"before", 8)
    ready, said = os.pipe()
    target = os.fork()
    if target == 0:
        libc.prctl(PR_SET_PTRACER, PTRACER_ANY, 0, 0, 0)
        word.value = b"after"
        os.write(said, b".")
        while True:
            os.kill(os.getpid(), signal.SIGSTOP)
    os.read(ready, 1)
    reader = os.fork()
    if reader == 0:
        os._exit(_read_word(libc, target, word))
    failed = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
    os.kill(target, signal.SIGKILL)
    os.waitpid(target, 0)
    os.close(ready)
    os.close(said)
    if failed == 0:
        return "process_vm_readv works"
    return (f"process_vm_readv fails ({os.strerror(failed)}): outputs on the CPU cannot be read where they lie; in a container, use "
            "--cap-add SYS_PTRACE, else set kernel.yama.ptrace_scope to 0 or 1")


def _read_word(libc: ctypes.CDLL, pid: int, word: ctypes.Array[ctypes.c_char]) -> int:
    """0 if the 8 bytes at `word`'s address in process `pid` hold what that process wrote there, else an errno."""
    class Extent(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    here = ctypes.create_string_buffer(8)
    local, remote = Extent(ctypes.addressof(here), 8), Extent(ctypes.addressof(word), 8)
    count = libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    if count < 0:
        return ctypes.get_errno() or 1
    return 0 if here.value == b"after" else 5


def _machine() -> dict[str, str | int | float]:
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cpu": cpu_name(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory_bytes() / 1e9, 1),
    }


def _gpus() -> tuple[str, ...]:
    if not visible_gpus():
        return ()
    listed = _output(["nvidia-smi", "--query-gpu=name,memory.total,driver_version,compute_cap", "--format=csv,noheader"]).splitlines()
    return tuple(line.strip() for line in listed) or (f"{visible_gpus()} by their device files; nvidia-smi does not answer",)


def _tool_version(name: str) -> str | None:
    """The version a tool reports (the last dotted number of its first lines that name one), None where it is not on PATH."""
    if shutil.which(name) is None:
        return None
    found = re.findall(r"\d+\.\d+(?:\.\d+)*", _output([name, "--version"]))
    return (found[-1] if name == "nvcc" else found[0]) if found else "on PATH, but --version says none"


def _output(command: list[str]) -> str:
    """stdout of a short query, empty where the program is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
