"""What this machine can do: its devices, tools, backends, and how well candidates are fenced in here. Imports no torch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

PACKAGES = ("torch", "triton", "numpy", "pyarrow", "datasets", "huggingface_hub", "optuna", "ninja", "pybind11")
TOOLS = (("nvcc", "--version"), ("g++", "--version"), ("ninja", "--version"))
PROBE_S = 10.0  # a version query that takes longer is broken


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


def _output(command: list[str]) -> str:
    """stdout of a short query, empty where the program is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
