"""Facts about the present device, read from it, for prompts and for records that must know its model."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys

from autokernel.errors import MissingOnMachine
from autokernel.machine import cpu_name

ASK_S = 60.0


@functools.lru_cache(maxsize=16)
def _ask(index: int) -> str:
    done = subprocess.run([sys.executable, "-m", "autokernel.executor.device_facts", str(index)], capture_output=True, text=True,
                          timeout=ASK_S, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise MissingOnMachine(f"the GPU {index} does not answer ({last}). Check nvidia-smi, or pass --device cpu.")
    return done.stdout


def hardware_facts(device: str) -> dict[str, str]:
    """What a person or a model that writes a kernel for "cuda:N" or "cpu" wants to know, by name, with units. Raises MissingOnMachine."""
    if device == "cpu":
        flags = _cpu_flags()
        kinds = (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("asimd", "NEON"))
        vectors = next((name for flag, name in kinds if flag in flags), "none known")
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return {"device": cpu_name(), "cores": str(len(os.sched_getaffinity(0))), "vector instructions": vectors,
                "memory": f"{memory / 1e9:.0f} GB"}
    raw = json.loads(_ask(int(device.partition(":")[2] or 0)))
    facts = {"device": str(raw["device_name"]), "memory": f"{raw['memory_bytes'] / 1e9:.0f} GB"}
    if "capability_major" in raw:
        facts["compute capability"] = f"{raw['capability_major']}.{raw['capability_minor']}"
    for key, name, scale, unit in (("sm_count", "multiprocessors", 1, ""), ("l2_bytes", "L2 cache", 1 << 20, " MiB"),
                                   ("shared_memory_opt_in_bytes", "shared memory a block", 1 << 10, " KiB"),
                                   ("shared_memory_per_sm_bytes", "shared memory a multiprocessor", 1 << 10, " KiB"),
                                   ("registers_per_sm", "32-bit registers a multiprocessor", 1, ""),
                                   ("threads_per_sm", "threads a multiprocessor", 1, ""), ("warp_size", "warp size", 1, "")):
        if raw.get(key):
            facts[name] = f"{raw[key] // scale}{unit}"
    if raw.get("memory_clock_khz") and raw.get("memory_bus_bits"):  # two transfers a clock
        facts["memory bandwidth"] = f"{2 * raw['memory_clock_khz'] * 1e3 * raw['memory_bus_bits'] / 8 / 1e9:.0f} GB/s"
    return facts


def device_model(device: str) -> str:
    """The device's model name: what figures may be compared within."""
    return hardware_facts(device)["device"]


def _cpu_flags() -> set[str]:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            return next((set(line.split(":", 1)[1].split()) for line in lines if line.startswith(("flags", "Features"))), set())
    except OSError:
        return set()
