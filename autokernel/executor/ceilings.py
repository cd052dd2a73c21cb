"""What this device can do at best, measured: copy rate at three working-set sizes, rates of products, fastest write."""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

CUDA_COPY_BYTES = (64 << 20, 512 << 20, 4 << 30)
CPU_COPY_BYTES = (4 << 20, 32 << 20, 256 << 20)
CUDA_WRITE_BYTES = (16 << 20, 512 << 20)
CPU_WRITE_BYTES = (64 << 10, 1 << 20, 64 << 20)
CUDA_PRODUCT, CPU_PRODUCT = 8192, 768  # a side
LONGEST_S = 0.5  # for one rate


def measure(device: torch.device) -> dict[str, Any]:
    """Rates of this device: `copy` as [[bytes moved, bytes/s], ...] (read plus written), `write` the fastest filling of any size
    in bytes/s, `products` in FLOP/s by the arithmetic that a problem's reference allows, `ieee_alone` in FLOP/s.

    `products`: "ieee" for float32 products (the better of IEEE arithmetic, `ieee_alone`, and of emulating it in three TF32 passes),
    "tf32" where eager itself uses TF32, "float16" and "bfloat16".
    """
    on_cuda = device.type == "cuda"
    copies = []
    for size in CUDA_COPY_BYTES if on_cuda else CPU_COPY_BYTES:
        source = torch.ones(size // 8, dtype=torch.float32, device=device)
        target = torch.empty_like(source)
        copies.append([size, size / _best(functools.partial(target.copy_, source), device)])
    write = 0.0
    for size in CUDA_WRITE_BYTES if on_cuda else CPU_WRITE_BYTES:
        target = torch.empty(size // 4, dtype=torch.float32, device=device)
        write = max(write, size / _best(functools.partial(target.fill_, 1.0), device))
    n = CUDA_PRODUCT if on_cuda else CPU_PRODUCT
    ieee = tf32 = _products(n, torch.float32, device)
    if on_cuda:
        kept = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        tf32 = max(ieee, _products(n, torch.float32, device))
        torch.backends.cuda.matmul.allow_tf32 = kept
    half = n if on_cuda else n // 2  # a processor may have no units for them, and takes long
    halves = {str(dtype).removeprefix("torch."): max(ieee, _products(half, dtype, device)) for dtype in (torch.float16, torch.bfloat16)}
    if on_cuda:
        torch.cuda.empty_cache()
    return {"copy": copies, "write": write, "products": {"ieee": max(ieee, tf32 / 3), "tf32": tf32, **halves}, "ieee_alone": ieee}


def _products(n: int, dtype: torch.dtype, device: torch.device) -> float:
    """The rate of a square product of size n, FLOP/s."""
    left, right = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    return 2 * n ** 3 / _best(lambda: left @ right, device)


def _best(action: Callable[[], object], device: torch.device) -> float:
    """Best of eight repeats, or of fewer where they take long, in s."""
    times: list[float] = []
    until = time.monotonic() + LONGEST_S
    while len(times) < 8 and (len(times) < 2 or time.monotonic() < until):
        if device.type == "cuda":
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            action()
            last.record()
            torch.cuda.synchronize(device)
            times.append(float(first.elapsed_time(last)) * 1e-3)
        else:
            start = time.perf_counter()
            action()
            times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":  # python -m autokernel.executor.ceilings DEVICE: the rates as JSON
    sys.stdout.write(json.dumps(measure(torch.device(sys.argv[1]))) + "\n")
