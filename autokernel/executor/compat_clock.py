"""KernelBench's timing methods, inside the candidate's process: what they report is KernelBench's figure, and nobody's proof.

On the CPU only host_time exists; there the caches are flushed by a smaller buffer than on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

WARMUPS = 3
BASELINE_WARMUPS = 5
DISCARDED = 1  # first trials left out
FLUSH_ELEMENTS = 32 * 1024 * 1024  # int64: 256 MiB, above any L2
CPU_FLUSH_ELEMENTS = 4 * 1024 * 1024  # int64: 32 MiB; 256 MiB a trial would be most of an evaluation on the CPU
BENCH_WARMUP_MS, BENCH_MS = 25, 100  # do_bench's own budgets

Clock = Callable[..., list[float]]  # (function, inputs, trials, device, warmups=WARMUPS)


def synchronize(device: torch.device) -> None:
    """Wait for all of the device's streams."""
    if device.type == "cuda":
        torch.cuda.synchronize(device=device)


def flush_caches(device: torch.device) -> None:
    """Write a buffer larger than the cache; not waited for."""
    if device.type == "cuda":
        torch.empty((FLUSH_ELEMENTS,), dtype=torch.int64, device=device).fill_(42)
        return
    if not _cpu_buffer:  # one for all: fresh pages would cost more than the writing
        _cpu_buffer.append(torch.empty((CPU_FLUSH_ELEMENTS,), dtype=torch.int64))
    _cpu_buffer[0].fill_(42)


_cpu_buffer: list[torch.Tensor] = []


def _warm(function: Callable[..., Any], inputs: Sequence[Any], device: torch.device, warmups: int) -> None:
    for _ in range(warmups):
        function(*inputs)
        synchronize(device)
    if device.type == "cuda":
        torch.cuda.empty_cache()


def cuda_event(function: Callable[..., Any], inputs: Sequence[Any], trials: int, device: torch.device,
               warmups: int = WARMUPS) -> list[float]:
    """Event pairs on the current stream around each call, caches cold. Work on other streams is not seen."""
    with torch.cuda.device(device):
        _warm(function, inputs, device, warmups)
        times: list[float] = []
        for trial in range(trials + DISCARDED):
            synchronize(device)
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            flush_caches(device)
            first.record()
            function(*inputs)
            last.record()
            synchronize(device)
            if trial >= DISCARDED:
                times.append(first.elapsed_time(last))
    return times


def host_time(function: Callable[..., Any], inputs: Sequence[Any], trials: int, device: torch.device,
              warmups: int = WARMUPS) -> list[float]:
    """The host's clock around each call and a wait for the device; a part of the flush is still running when it starts."""
    _warm(function, inputs, device, warmups)
    times: list[float] = []
    for trial in range(trials + DISCARDED):
        synchronize(device)
        flush_caches(device)
        start = time.perf_counter()
        function(*inputs)
        synchronize(device)
        if trial >= DISCARDED:
            times.append((time.perf_counter() - start) * 1e3)
    return times


def do_bench(function: Callable[..., Any], inputs: Sequence[Any], trials: int, device: torch.device,
             warmups: int = WARMUPS) -> list[float]:
    """Triton's do_bench with its own budgets; `trials` and `warmups` are ignored."""
    from triton import testing

    with torch.cuda.device(device):
        return list(testing.do_bench(lambda: function(*inputs), warmup=BENCH_WARMUP_MS, rep=BENCH_MS, grad_to_none=None, quantiles=None,
                                     return_mode="all"))


def do_bench_impl(function: Callable[..., Any], inputs: Sequence[Any], trials: int, device: torch.device,
                  warmups: int = WARMUPS) -> list[float]:
    """Triton's buffer and events, KernelBench's counts: trials are queued without a wait between them."""
    from triton import runtime

    with torch.cuda.device(device):
        driver = runtime.driver.active
        function(*inputs)
        synchronize(device)
        cache = driver.get_empty_cache_for_benchmark()
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(trials)]
        for _ in range(warmups):
            function(*inputs)
        synchronize(device)
        for first, last in pairs:
            driver.clear_cache(cache)
            first.record()
            function(*inputs)
            last.record()
        synchronize(device)
    return [first.elapsed_time(last) for first, last in pairs]


CLOCKS: dict[str, Clock] = {"cuda_event": cuda_event, "host_time": host_time, "do_bench": do_bench, "do_bench_impl": do_bench_impl}
