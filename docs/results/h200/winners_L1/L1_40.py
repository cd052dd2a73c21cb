# L1/40 40_LayerNorm: 11.42x eager (9.858 to 152.3); 1.212x compile (1.084 to 2.502)
# Rules strict/2, precision ieee-grade, candidate bafd858a23d4ff78928f5804bfdb36bd5ce697bb81a28df83fc4f5a757fdb4ee
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-11-30T05:59:52+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/40 runs/L1-h200-b/winners/L1_40.py --source kernelbench/data

"""Layer norm by Welford, long rows split."""

from __future__ import annotations

import math
import torch
import triton
import triton.language as tl
from torch import nn
import torch.nn as nn

SHAPE = {'ndim': 3, 'eps': 1e-05}
PARAMS = {'tile': 8192, 'lanes': 0, 'splits': 0, 'num_warps': 8}


@triton.jit
def statistics(x, base, lane_mask, begin, N: tl.constexpr, CHUNK: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_N: tl.constexpr):
    """(mean, sum of squared deviations) of columns begin .. begin + CHUNK of each lane; every tile element runs its own Welford."""
    mean = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)
    square = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)
    count = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)
    seen = 0.0
    for start in range(0, CHUNK, BLOCK_N):
        n = begin + start + tl.arange(0, BLOCK_N)
        mask = lane_mask[:, None] & (n < N)[None, :]
        v = tl.load(x + base[:, None] + n[None, :], mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        seen += 1.0
        delta = v - mean
        moved = mean + delta * (1.0 / seen)
        square = tl.where(mask, square + delta * (v - moved), square)
        mean = tl.where(mask, moved, mean)
        count = tl.where(mask, seen, count)
    number = tl.maximum(tl.sum(count, 1), 1.0)
    center = tl.sum(mean * count, 1) / number
    away = mean - center[:, None]
    return center, tl.sum(square + count * away * away, 1)


@triton.jit
def scaled(r, w, b, n, N: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr):
    """r * weight + bias, each if there is one."""
    if WEIGHT:
        r = r * tl.load(w + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    if BIAS:
        r = r + tl.load(b + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    return r


@triton.jit
def row_kernel(
    x, w, b, y, ROWS: tl.constexpr, N: tl.constexpr, EPS: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """BLOCK_L whole rows."""
    pid = tl.program_id(0)
    if WIDE:
        pid = pid.to(tl.int64)
    lane = pid * BLOCK_L + tl.arange(0, BLOCK_L)
    lane_mask = lane < ROWS
    base = lane * N
    if BLOCK_N >= N:
        n = tl.arange(0, BLOCK_N)
        mask = lane_mask[:, None] & (n < N)[None, :]
        v = tl.load(x + base[:, None] + n[None, :], mask=mask, other=0.0).to(tl.float32)
        v = tl.where(mask, v - (tl.sum(v, 1) / N)[:, None], 0.0)
        r = scaled(v * (1.0 / tl.sqrt_rn(tl.sum(v * v, 1) / N + EPS))[:, None], w, b, n, N, WEIGHT, BIAS)
        tl.store(y + base[:, None] + n[None, :], r.to(y.dtype.element_ty), mask=mask)
    else:
        mean, square = statistics(x, base, lane_mask, 0, N, N, BLOCK_L, BLOCK_N)
        scale = 1.0 / tl.sqrt_rn(square / N + EPS)
        STEPS: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
        for step in range(0, STEPS):  # backwards: the end of the row is the likeliest to be in the cache
            n = (STEPS - 1 - step) * BLOCK_N + tl.arange(0, BLOCK_N)
            mask = lane_mask[:, None] & (n < N)[None, :]
            v = tl.load(x + base[:, None] + n[None, :], mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
            r = scaled((v - mean[:, None]) * scale[:, None], w, b, n, N, WEIGHT, BIAS)
            tl.store(y + base[:, None] + n[None, :], r.to(y.dtype.element_ty), mask=mask, eviction_policy="evict_first")


@triton.jit
def parts_kernel(x, means, squares, N: tl.constexpr, CHUNK: tl.constexpr, SPLITS: tl.constexpr, WIDE: tl.constexpr, BLOCK_N: tl.constexpr):
    """Statistics of one chunk of one row, into (rows, SPLITS)."""
    row = tl.program_id(0)
    split = tl.program_id(1)
    wide = row.to(tl.int64) if WIDE else row
    base = wide * N + tl.zeros([1], tl.int32)
    mean, square = statistics(x, base, base >= 0, split * CHUNK, N, CHUNK, 1, BLOCK_N)
    slot = row * SPLITS + split + tl.arange(0, 1)
    tl.store(means + slot, mean)
    tl.store(squares + slot, square)


@triton.jit
def apply_kernel(
    x, w, b, y, means, squares, N: tl.constexpr, CHUNK: tl.constexpr, SPLITS: tl.constexpr, EPS: tl.constexpr,
    WEIGHT: tl.constexpr, BIAS: tl.constexpr, WIDE: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Combine a row's parts, then normalise one block of it; rows vary fastest, so a block's weights are read once from memory."""
    row = tl.num_programs(0) - 1 - tl.program_id(0)
    s = tl.arange(0, BLOCK_S)
    count = tl.minimum(tl.maximum(N - s * CHUNK, 0), CHUNK).to(tl.float32)
    mean = tl.load(means + row * SPLITS + s, mask=s < SPLITS, other=0.0)
    square = tl.load(squares + row * SPLITS + s, mask=s < SPLITS, other=0.0)
    center = tl.sum(mean * count, 0) / N
    away = mean - center
    scale = 1.0 / tl.sqrt_rn(tl.sum(square + count * away * away, 0) / N + EPS)
    n = (tl.num_programs(1) - 1 - tl.program_id(1)) * BLOCK_N + tl.arange(0, BLOCK_N)
    base = row.to(tl.int64) * N if WIDE else row * N
    offsets = (base + n)[None, :]
    mask = (n < N)[None, :]
    v = tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32)
    r = scaled((v - center) * scale, w, b, n, N, WEIGHT, BIAS)
    tl.store(y + offsets, r.to(y.dtype.element_ty), mask=mask, eviction_policy="evict_first")


def run(x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None) -> torch.Tensor:
    """F.layer_norm of `x` over its last SHAPE["ndim"] dimensions with eps SHAPE["eps"]; weight and bias have those dimensions' shape.

    Same shape and dtype as `x`, computed in float32.
    """
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    n = math.prod(x.shape[x.dim() - SHAPE["ndim"] :])
    rows = x.numel() // n
    w, b = (x if p is None else p.contiguous() for p in (weight, bias))
    has, wide, tile, warps = (weight is not None, bias is not None), x.numel() > 2**31 - 2**20, PARAMS["tile"], PARAMS["num_warps"]
    columns = triton.next_power_of_2(n)
    splits = PARAMS["splits"] or (1 if n <= 4 * tile or rows >= 256 else max(1, min(triton.cdiv(n, 2 * tile), 1056 // rows)))
    if splits == 1 or columns <= tile:
        block_l = min(PARAMS["lanes"] or max(1, min(16, 2048 // columns)), tile, triton.next_power_of_2(rows))
        row_kernel[(triton.cdiv(rows, block_l),)](
            x, w, b, y, rows, n, SHAPE["eps"], *has, wide, block_l, min(tile // block_l, columns), num_warps=warps
        )
        return y
    chunk = triton.cdiv(triton.cdiv(n, splits), tile) * tile
    splits = triton.cdiv(n, chunk)
    means, squares = torch.empty(2, rows, splits, dtype=torch.float32, device=x.device)
    parts_kernel[(rows, splits)](x, means, squares, n, chunk, splits, wide, tile, num_warps=warps)
    block_n = min(tile, 4096)
    apply_kernel[(rows, triton.cdiv(n, block_n))](
        x, w, b, y, means, squares, n, chunk, splits, SHAPE["eps"], *has, wide, triton.next_power_of_2(splits), block_n, num_warps=warps
    )
    return y


class ModelNew(nn.Module):
    """Layer norm by Welford, long rows split."""

    def __init__(self, normalized_shape: tuple):
        super(ModelNew, self).__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x):
        return run(x, self.ln.weight, self.ln.bias)
