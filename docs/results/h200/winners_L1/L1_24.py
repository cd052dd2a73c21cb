# L1/24 24_LogSoftmax: 1.251x eager (1.116 to 1.373); 1.035x compile (0.9942 to 1.062)
# Rules strict/2, precision ieee-grade, candidate 3096963a813818442f35332f55aa5267ad112f85664624ce5a745fa7afafb5b1
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-11-30T05:33:27+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/24 runs/L1-h200-a/winners/L1_24.py --source kernelbench/data

"""Online softmax, each row read as rarely as it fits."""

from __future__ import annotations

import math
import torch
import triton
import triton.language as tl
from torch import nn
dim = 393216

SHAPE = {'dim': 1, 'log': True}
PARAMS = {'tile': 8192, 'lanes': 0, 'num_warps': 8}


@triton.jit
def power(v):
    """exp(v) to a few units in the last place also far from 0, where tl.exp loses digits by rounding v * log2(e)."""
    v = tl.clamp(v, -150.0, 130.0, propagate_nan=tl.PropagateNan.ALL)
    t = v * 1.4426950408889634
    rest = tl.fma(v, 1.4426950216293335, -t) + v * 1.9259629911266175e-08
    return tl.exp2(t) * (1.0 + rest * 0.6931471805599453)


@triton.jit
def softmax_kernel(
    x, y, LANES: tl.constexpr, N: tl.constexpr, INNER: tl.constexpr, LOG: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """One tile of lanes: rows, or neighbouring columns where INNER > 1, of a contiguous (outer, N, INNER)."""
    pid = tl.program_id(0)
    if WIDE:
        pid = pid.to(tl.int64)
    if INNER == 1:
        lane = pid * BLOCK_L + tl.arange(0, BLOCK_L)
        lane_mask = lane < LANES
        base = lane * N
    else:
        TILES: tl.constexpr = (INNER + BLOCK_L - 1) // BLOCK_L
        inside = (pid % TILES) * BLOCK_L + tl.arange(0, BLOCK_L)
        lane_mask = inside < INNER
        base = (pid // TILES) * (N * INNER) + inside
    if BLOCK_N >= N:
        n = tl.arange(0, BLOCK_N)
        if WIDE and INNER > 1:
            n = n.to(tl.int64)
        offsets = base[:, None] + n[None, :] * INNER
        mask = lane_mask[:, None] & (n < N)[None, :]
        v = tl.load(x + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        v = v - tl.where(lane_mask, tl.max(v, 1), 0.0)[:, None]
        e = power(v)
        total = tl.sum(e, 1)
        r = v - tl.log(total)[:, None] if LOG else e / total[:, None]
        tl.store(y + offsets, r.to(y.dtype.element_ty), mask=mask)
    else:
        # every element of the tile keeps its own running maximum and sum: no exchange between threads until the row's end
        top = tl.full([BLOCK_L, BLOCK_N], -3.0e38, tl.float32)
        part = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)
        for start in range(0, N, BLOCK_N):
            n = start + tl.arange(0, BLOCK_N)
            if WIDE and INNER > 1:
                n = n.to(tl.int64)
            mask = lane_mask[:, None] & (n < N)[None, :]
            v = tl.load(x + base[:, None] + n[None, :] * INNER, mask=mask, other=float("-inf"), eviction_policy="evict_last").to(tl.float32)
            higher = tl.maximum(top, v)
            part = part * tl.exp(top - higher) + tl.exp(v - higher)
            top = higher
        peak = tl.max(top, 1)
        total = tl.sum(part * tl.exp(top - peak[:, None]), 1)
        scale = tl.log(total) if LOG else 1.0 / total
        STEPS: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
        for step in range(0, STEPS):
            n = (STEPS - 1 - step) * BLOCK_N + tl.arange(0, BLOCK_N)
            if WIDE and INNER > 1:
                n = n.to(tl.int64)
            mask = lane_mask[:, None] & (n < N)[None, :]
            offsets = base[:, None] + n[None, :] * INNER
            v = tl.load(x + offsets, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32) - peak[:, None]
            r = v - scale[:, None] if LOG else power(v) * scale[:, None]
            tl.store(y + offsets, r.to(y.dtype.element_ty), mask=mask, eviction_policy="evict_first")


def run(x: torch.Tensor) -> torch.Tensor:
    """softmax (SHAPE["log"]: log_softmax) of `x` over SHAPE["dim"]; same shape and dtype, computed in float32."""
    x = x.contiguous()
    dim = SHAPE["dim"] % x.dim()
    outer, n, inner = math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    columns = triton.next_power_of_2(n)
    auto = min(128, PARAMS["tile"]) if inner > 1 else max(1, min(16, 2048 // columns))
    block_l = min(PARAMS["lanes"] or auto, PARAMS["tile"], triton.next_power_of_2(inner if inner > 1 else outer))
    block_n = min(PARAMS["tile"] // block_l, columns)
    tiles = triton.cdiv(outer, block_l) if inner == 1 else outer * triton.cdiv(inner, block_l)
    softmax_kernel[(tiles,)](
        x, y, outer * inner, n, inner, SHAPE["log"], x.numel() > 2**31 - 2**20, block_l, block_n, num_warps=PARAMS["num_warps"]
    )
    return y


class ModelNew(nn.Module):
    """Online softmax, each row read as rarely as it fits."""

    def __init__(self, dim: int=1):
        super(ModelNew, self).__init__()
        self.dim = dim

    def forward(self, x):
        return run(x)
