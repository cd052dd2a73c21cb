"""GPU architectures by the names KernelBench takes, and which vendor runs which back end."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kernelbench_bridge.errors import MISSING, BridgeError

NVIDIA = ("Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Hopper", "Ada", "Blackwell")
AMD = ("gfx942", "gfx950")
NOT_ON_AMD = ("cuda", "cute", "thunderkittens")


class BackendRefused(BridgeError, ValueError):
    """A back end that does not run on this device or in this precision."""


def set_gpu_arch(names: Sequence[str]) -> None:
    """Set TORCH_CUDA_ARCH_LIST or PYTORCH_ROCM_ARCH from architecture names. Raises ValueError for any other name, numbers included."""
    for name in names:
        if name not in (*NVIDIA, *AMD):
            raise ValueError(f"'{name}' is no architecture that KernelBench knows; use {', '.join(NVIDIA)}, or {', '.join(AMD)} on AMD.")
    nvidia = [name for name in names if name in NVIDIA]
    amd = [name for name in names if name in AMD]
    if nvidia:
        os.environ["TORCH_CUDA_ARCH_LIST"] = ";".join(nvidia)
    if amd:
        os.environ["PYTORCH_ROCM_ARCH"] = ";".join(amd)


def gpu_vendor(device_name: str) -> str:
    """ "nvidia", "amd" or "unknown", from the device's name alone, as KernelBench tells them."""
    if "NVIDIA" in device_name:
        return "nvidia"
    return "amd" if "AMD" in device_name or "MI3" in device_name else "unknown"


def check_backend(backend: str, vendor: str, precision: str) -> None:
    """BackendRefused where KernelBench refuses a back end on this vendor's devices, or TileLang in fp32. Any other name is taken."""
    name = backend.lower()
    if name == "hip" and vendor != "amd":
        raise BackendRefused(f"the back end hip must run on an AMD GPU, and this device is {vendor}; pass another back end.",
                             exit_code=MISSING)
    if name in NOT_ON_AMD and vendor == "amd":
        raise BackendRefused(f"the back end {name} cannot run on an AMD GPU; pass hip, triton or tilelang.", exit_code=MISSING)
    if name == "tilelang" and precision not in ("fp16", "bf16"):
        raise BackendRefused(f"the back end tilelang must run in fp16 or bf16, not {precision}; pass --precision.")
