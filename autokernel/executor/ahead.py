"""Compiles a candidate's Triton kernels before it has the device: its forward runs once on meta tensors, and nothing is launched.

In an untrusted worker without the device. What comes of it is the candidate's own Triton cache, which its next process finds; where a
candidate cannot be run like this (it looks at values, or at the device), nothing is lost.
"""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

FEWER_THREADS = ("8.6", "8.9", "12.0")  # 1536 a processor, where others hold 2048
SHARED_BYTES = {"8.0": 166912, "8.6": 101376, "8.9": 101376, "9.0": 232448, "10.0": 232448, "12.0": 101376}  # opt-in limit a block


def form(value: Any, tensor: type) -> Any:
    """A tree of arguments as JSON values; tensors by dtype, shape and strides. Raises ValueError for what cannot be written so."""
    if isinstance(value, tensor):
        return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape), list(value.stride())]}  # type: ignore[attr-defined]
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [form(item, tensor) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: form(item, tensor) for key, item in value.items()}}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"holds a {type(value).__name__}")


def rebuilt(value: Any) -> Any:
    """The tree that `form` wrote, its tensors on the meta device."""
    import torch

    if not isinstance(value, dict):
        return value
    (kind, inner), = value.items()
    if kind == "tensor":
        dtype, shape, strides = inner
        return torch.empty_strided(shape, strides, dtype=getattr(torch, dtype), device="meta")
    if kind == "dict":
        return {key: rebuilt(item) for key, item in inner.items()}
    return {"list": list, "tuple": tuple}[kind](rebuilt(item) for item in inner)


def compile_kernels(model_class: Any, terms: dict[str, Any]) -> None:
    """Run the model once for its kernels' sake. `terms`: `arguments` and `inputs` as `form` gives them, and the `device`'s facts
    (`capability` "9.0", `sm_count`). Raises whatever the candidate does."""
    import torch
    from triton.runtime import driver

    facts = terms["device"]
    major, minor = (int(part) for part in facts["capability"].split("."))
    driver.set_active(_Driver(major * 10 + minor, facts))
    cuda: Any = torch.cuda
    threads = 1536 if facts["capability"] in FEWER_THREADS else 2048
    shown = SimpleNamespace(multi_processor_count=facts["sm_count"], max_threads_per_multi_processor=threads, major=major, minor=minor,
                            name=facts.get("device_name", ""), total_memory=facts.get("memory_bytes", 0),
                            L2_cache_size=facts.get("l2_bytes", 0), warp_size=32)
    cuda.get_device_properties = lambda device=None: shown
    cuda.get_device_capability = lambda device=None: (major, minor)
    cuda.current_device = lambda: 0
    with torch.device("meta"), torch.no_grad():
        model = model_class(*rebuilt(terms["arguments"]))
        model(*rebuilt(terms["inputs"]))


class _Launcher:
    """Stands where Triton's launcher would, and launches nothing."""

    def __init__(self, source: Any, metadata: Any) -> None:
        """Up to Triton 3.6 a launcher is C, compiled for every list of arguments: that is done here too, where it can be."""
        with suppress(Exception):  # without CUDA's library it cannot be linked; whoever launches compiles it then
            from triton.backends.nvidia import driver

            if hasattr(driver, "make_launcher"):
                driver.CudaLauncher(source, metadata)

    def __call__(self, *arguments: Any, **options: Any) -> None:
        return None


class _Driver:
    """As much of a Triton driver as compiling needs."""

    launcher_cls = _Launcher

    def __init__(self, arch: int, facts: dict[str, Any]) -> None:
        self.arch = arch
        limits = {"max_shared_mem": SHARED_BYTES.get(facts["capability"], 101376), "multiprocessor_count": facts["sm_count"],
                  "warpSize": 32, "max_num_regs": 65536, "sm_clock_rate": 1, "mem_clock_rate": 1, "mem_bus_width": 1}
        self.utils = SimpleNamespace(load_binary=lambda *_: (0, 0, 0, 0, 1024), get_device_properties=lambda _: limits)

    def get_current_target(self) -> Any:
        """What kernels are compiled for."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.arch, 32)

    def get_current_device(self) -> int:
        """There is one."""
        return 0

    def get_current_stream(self, device: Any = None) -> int:
        """The default one."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Where tensors lie."""
        import torch

        return torch.device("meta")

    def get_device_interface(self) -> Any:
        """Torch's module for the device."""
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Any:
        """An autotuner compiles every choice and finds all alike."""
        return lambda call, **_: (call(), [1.0, 1.0, 1.0])[1]

    @staticmethod
    def is_active() -> bool:
        """Always."""
        return True
