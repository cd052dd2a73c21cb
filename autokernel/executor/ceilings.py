"""What this device can do at best, measured: copy rate at three working-set sizes, fp32 GEMM rate, fastest write."""

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


def measure(device: torch.device) -> dict[str, Any]:
    """Rates of this device: `copy` as [[bytes moved, bytes/s], ...] (read plus written), `write` the fastest filling of any size
    in bytes/s, `gemm_flops` in FLOP/s.

    On CUDA the GEMM ceiling is the better of strict fp32 and a third of TF32, since fp32 can be emulated in three passes.
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
    n = 4096 if on_cuda else 768
    left, right = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    strict = 2 * n ** 3 / _best(lambda: left @ right, device)
    flops = strict
    if on_cuda:
        kept = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        flops = max(strict, 2 * n ** 3 / _best(lambda: left @ right, device) / 3)
        torch.backends.cuda.matmul.allow_tf32 = kept
        torch.cuda.empty_cache()
    return {"copy": copies, "write": write, "gemm_flops": flops, "gemm_strict_flops": strict}


def _best(action: Callable[[], object], device: torch.device) -> float:
    """Best of some repeats, in s."""
    times: list[float] = []
    for _ in range(8):
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
