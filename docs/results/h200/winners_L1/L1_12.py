# L1/12 12_Matmul_with_diagonal_matrices_: 1.307x eager (1.019 to 1.857); 2.873x compile (1.558 to 4.8)
# Rules strict/2, precision ieee-grade, candidate cbd4d86a3fdb4b469326175fe63ac4519efed70fe9483ce084f055ad4ce9b430
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-11-30T05:30:56+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/12 runs/L1-h200-a/winners/L1_12.py --source kernelbench/data

"""A diagonal matrix only scales: no product."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import nn

SHAPE = {'side': 'left'}
PARAMS = {'block_m': 1, 'block_n': 2048, 'num_warps': 2}


LAUNCHED = {}


@triton.jit
def diag_kernel(
    d, b, y, M: tl.constexpr, N: tl.constexpr, LEFT: tl.constexpr, WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    TILES: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    pid = tl.program_id(0)
    m = (pid // TILES) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (pid % TILES) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = m.to(tl.int64) if WIDE else m
    offsets = rows[:, None] * N + n[None, :]
    mask = (m < M)[:, None] & (n < N)[None, :]
    v = tl.load(b + offsets, mask=mask, other=0.0).to(tl.float32)
    if LEFT:
        v = v * tl.load(d + m, mask=m < M, other=0.0).to(tl.float32)[:, None]
    else:
        v = v * tl.load(d + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    tl.store(y + offsets, v.to(y.dtype.element_ty), mask=mask)


def launch(kernel, grid, *arguments, **options):
    """kernel[grid](*arguments, **options); after the first time without Triton's look-up, which takes longer than this kernel runs."""
    facts = tuple((x.dtype, x.device, x.data_ptr() % 16) if isinstance(x, torch.Tensor) else x for x in arguments)
    key = (kernel.fn.__name__, grid, facts, *options.values())
    known = LAUNCHED.get(key)
    if known is None:
        LAUNCHED[key] = kernel[grid](*arguments, **options)
    else:
        known[grid](*arguments)


def run(d: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """diag(d) @ b, or b @ diag(d) if SHAPE["side"] is "right"; `d` is (k,), `b` (M, N). In the promoted dtype."""
    d, b = d.contiguous(), b.contiguous()
    m, n = b.shape
    y = torch.empty(m, n, dtype=torch.promote_types(d.dtype, b.dtype), device=b.device)
    block_m = min(PARAMS["block_m"], triton.next_power_of_2(m))
    block_n = min(PARAMS["block_n"], triton.next_power_of_2(n))
    launch(
        diag_kernel, (triton.cdiv(m, block_m) * triton.cdiv(n, block_n), 1, 1),
        d, b, y, m, n, SHAPE["side"] == "left", b.numel() > 2**31 - 2**20, block_m, block_n, num_warps=PARAMS["num_warps"],
    )
    return y


class ModelNew(nn.Module):
    """A diagonal matrix only scales: no product."""

    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, A, B):
        return run(A, B)
