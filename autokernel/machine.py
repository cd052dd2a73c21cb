"""Facts about this machine that records carry, gathered without importing torch."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from autokernel.records import Figure


def has_gpu() -> bool:
    """Whether an NVIDIA device is visible to this process; a look at device files, no driver call."""
    return Path("/dev/nvidia0").exists() and os.environ.get("CUDA_VISIBLE_DEVICES", "0") not in ("", "-1")


def memory_bytes() -> int:
    """This machine's memory, or what the control group around this process may use of it."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return physical
    return min(physical, int(allowed)) if allowed.isdigit() else physical


def cache_folder() -> Path:
    """Where builds and drawn inputs are kept between commands: AUTOKERNEL_CACHE_DIR, else `autokernel` in the user's cache folder."""
    named = os.environ.get("AUTOKERNEL_CACHE_DIR")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autokernel"


def default_device() -> str:
    """ "cuda:0" where a GPU is visible, else "cpu"."""
    return "cuda:0" if has_gpu() else "cpu"


@functools.lru_cache(maxsize=1)
def driver_version() -> str | None:
    """NVIDIA's driver version, or None."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    query = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return query.stdout.splitlines()[0].strip() if query.returncode == 0 and query.stdout else None


@functools.lru_cache(maxsize=1)
def cpu_name() -> str:
    """The processor's model name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def package_version(name: str) -> str | None:
    """Installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def describe(hello: Mapping[str, Figure], device: str) -> dict[str, Figure]:
    """Record of the machine: `hello` is what the judge said of torch and the device."""
    on_cuda = device.startswith("cuda")
    return {
        "device": device, "device_name": hello.get("device_name") if on_cuda else cpu_name(), "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(), "torch": hello.get("torch"), "triton": package_version("triton"),
        "cuda": hello.get("cuda"), "driver": driver_version() if on_cuda else None, "capability": hello.get("capability"),
        "l2_bytes": hello.get("l2_bytes"), "memory_bytes": hello.get("memory_bytes"), "threads": hello.get("threads"),
        "sandbox": "none", "freeze": "signals",
    }
