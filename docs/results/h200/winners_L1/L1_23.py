# L1/23 23_Softmax: 1.351x eager (1.299 to 1.454); 1.079x compile (1.023 to 1.159)
# Rules strict/4, precision ieee-grade, candidate ace00e4e06c93f3294ce48f6048380fbd6dfdac11116f5b16d284afc40ece8ba
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-12-01T11:04:52+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/23 runs/L1-h200-d/winners/L1_23.py --source kernelbench/data

"""Online softmax, each row read as rarely as it fits."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import nn

SHAPE = {'dim': 1, 'log': False}
PARAMS = {'tile': 8192, 'lanes': 0, 'team': 4, 'num_warps': 8}


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
        top = tl.full([BLOCK_L, BLOCK_N], -3.4028234663852886e38, tl.float32)
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


@triton.jit
def meet(arrived, TEAM: tl.constexpr):
    """Wait until all TEAM programs of a team have come here as often as this one; what they stored before can be read then."""
    tl.debug_barrier()
    seen = tl.atomic_add(arrived, 1, sem="acq_rel") + 1
    all_here = (seen + TEAM - 1) // TEAM * TEAM
    while seen < all_here:
        seen = tl.atomic_add(arrived, 0, sem="acquire")
    tl.debug_barrier()


@triton.jit
def team_kernel(
    x, y, tops, totals, arrived, ROWS: tl.constexpr, N: tl.constexpr, LOG: tl.constexpr, TEAM: tl.constexpr, TEAMS: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Every TEAMS-th row, BLOCK_N elements of it, in registers from the read to the write; all programs run at the same time."""
    team = tl.program_id(0) // TEAM
    member = tl.program_id(0) % TEAM
    t = tl.arange(0, BLOCK_T)
    n = member * BLOCK_N + tl.arange(0, BLOCK_N)
    for row in range(team, ROWS, TEAMS):
        base = row.to(tl.int64) * N if WIDE else row * N
        v = tl.load(x + base + n, mask=n < N, other=float("-inf"), eviction_policy="evict_first").to(tl.float32)
        top = tl.maximum(tl.max(v, 0), -3.4028234663852886e38)  # the least float32, so that a row of -inf alone takes nothing from itself
        v = v - top
        e = power(v)
        # two sets of slots by turns: who is a row ahead writes into the one that nobody reads any more
        slots = (team * 2 + (row // TEAMS) % 2) * TEAM
        tl.store(tops + slots + member, top)
        tl.store(totals + slots + member, tl.sum(e, 0))
        meet(arrived + team, TEAM)
        others = tl.load(tops + slots + t, mask=t < TEAM, other=-3.4028234663852886e38, cache_modifier=".cg")
        peak = tl.max(others, 0)
        total = tl.sum(tl.load(totals + slots + t, mask=t < TEAM, other=0.0, cache_modifier=".cg") * power(others - peak), 0)
        r = v + (top - peak - tl.log(total)) if LOG else e * (power(top - peak) / total)
        tl.store(y + base + n, r.to(y.dtype.element_ty), mask=n < N, eviction_policy="evict_first")


def run_in_teams(x: torch.Tensor, y: torch.Tensor, rows: int, n: int) -> bool:
    """Launch `team_kernel` where PARAMS say so and a row's team finds room on the device; whether that was done."""
    tile, warps = PARAMS["tile"], PARAMS["num_warps"]
    team = triton.cdiv(n, tile)
    if not PARAMS["team"] or team < 2 or not isinstance(team_kernel, triton.JITFunction):  # the interpreter runs one after the other
        return False
    device = torch.cuda.get_device_properties(x.device)
    held = min(PARAMS["team"], device.max_threads_per_multi_processor // (32 * warps))  # programs by one processor
    teams = min(rows, held * device.multi_processor_count // team)
    if teams == 0:
        return False
    tops, totals = torch.empty(2, teams * 2 * team, dtype=torch.float32, device=x.device)
    arrived = torch.zeros(teams, dtype=torch.int32, device=x.device)
    team_kernel[(teams * team,)](
        x, y, tops, totals, arrived, rows, n, SHAPE["log"], team, teams, x.numel() > 2**31 - 2**20, triton.next_power_of_2(team), tile,
        num_warps=warps, launch_cooperative_grid=True, maxnreg=min(255, 65536 // (held * warps * 32)),
    )
    return True


def run(x: torch.Tensor) -> torch.Tensor:
    """softmax (SHAPE["log"]: log_softmax) of `x` over SHAPE["dim"]; same shape and dtype, computed in float32."""
    x = x.contiguous()
    dim = SHAPE["dim"] % x.dim()
    outer, n, inner = math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])
    y = torch.empty_like(x)
    if x.numel() == 0 or (inner == 1 and run_in_teams(x, y, outer, n)):
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

    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x):
        return run(x)
