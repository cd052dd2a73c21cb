"""What a CUDA device is, asked of NVIDIA's driver in a process of its own: `python -m autokernel.executor.device_facts INDEX`.

Prints one JSON object. The broker asks this way, so that it never loads the driver itself. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import sys

ATTRIBUTES = {  # CUdevice_attribute
    "shared_memory_per_block_bytes": 8, "warp_size": 10, "registers_per_block": 12, "clock_khz": 13, "sm_count": 16,
    "memory_clock_khz": 36, "memory_bus_bits": 37, "l2_bytes": 38, "threads_per_sm": 39, "capability_major": 75, "capability_minor": 76,
    "shared_memory_per_sm_bytes": 81, "registers_per_sm": 82, "shared_memory_opt_in_bytes": 97,
}


def ask(index: int) -> dict[str, int | str]:
    """Name, memory and attributes of a device. Raises OSError where there is no driver, RuntimeError where a call fails."""
    driver = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        code = getattr(driver, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} gives error {code}; check nvidia-smi.")

    device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), index)
    call("cuDeviceGetName", name, 256, device)
    call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    facts: dict[str, int | str] = {"device_name": name.value.decode(errors="replace"), "memory_bytes": memory.value}
    for key, number in ATTRIBUTES.items():
        value = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0:
            facts[key] = value.value
    return facts


if __name__ == "__main__":
    sys.stdout.write(json.dumps(ask(int(sys.argv[1]))))
