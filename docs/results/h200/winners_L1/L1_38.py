# L1/38 38_L1Norm_: 2.048x eager (1.967 to 2.263); 1.629x compile (1.559 to 1.679)
# Rules strict/4, precision ieee-grade, candidate 53040a96cf408518b66326f0321836d9a35f05468fc4dff513581254c8fc6097
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-12-01T11:06:12+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/38 runs/L1-h200-d/winners/L1_38.py --source kernelbench/data

"""Division by the l1 norm, the norm and the scaling in one kernel where the rows fit."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import nn

SHAPE = {'kind': 'l1', 'dim': 1, 'mean': True, 'eps': 0.0}
PARAMS = {'tile': 8192, 'lanes': 0, 'splits': 1024, 'team': 4, 'num_warps': 8}


@triton.jit
def term(v, KIND: tl.constexpr):
    return tl.abs(v) if KIND == "l1" else v * v


@triton.jit
def divisor(total, KIND: tl.constexpr, COUNT: tl.constexpr, EPS: tl.constexpr):
    """The norm of a total of `term`s; COUNT is the number of elements if it is a mean, else 1."""
    total = total / COUNT if COUNT != 1 else total
    norm = total if KIND == "l1" else tl.sqrt_rn(total)
    return tl.maximum(norm, EPS) if EPS > 0.0 else norm


@triton.jit
def norm_scale_kernel(
    x, y, LANES: tl.constexpr, N: tl.constexpr, INNER: tl.constexpr, KIND: tl.constexpr, COUNT: tl.constexpr, EPS: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_N: tl.constexpr,
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
        v = tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32)
        r = v / divisor(tl.sum(term(v, KIND), 1), KIND, COUNT, EPS)[:, None]
        tl.store(y + offsets, r.to(y.dtype.element_ty), mask=mask)
    else:
        part = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)
        for start in range(0, N, BLOCK_N):
            n = start + tl.arange(0, BLOCK_N)
            if WIDE and INNER > 1:
                n = n.to(tl.int64)
            mask = lane_mask[:, None] & (n < N)[None, :]
            v = tl.load(x + base[:, None] + n[None, :] * INNER, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
            part += term(v, KIND)
        norm = divisor(tl.sum(part, 1), KIND, COUNT, EPS)
        STEPS: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
        for step in range(0, STEPS):  # backwards: the end of the row is the likeliest to be in the cache
            n = (STEPS - 1 - step) * BLOCK_N + tl.arange(0, BLOCK_N)
            if WIDE and INNER > 1:
                n = n.to(tl.int64)
            mask = lane_mask[:, None] & (n < N)[None, :]
            offsets = base[:, None] + n[None, :] * INNER
            v = tl.load(x + offsets, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
            tl.store(y + offsets, (v / norm[:, None]).to(y.dtype.element_ty), mask=mask, eviction_policy="evict_first")


@triton.jit
def parts_kernel(x, parts, TOTAL: tl.constexpr, CHUNK: tl.constexpr, KIND: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """The total of one chunk of the flat tensor."""
    pid = tl.program_id(0)
    begin = pid.to(tl.int64) * CHUNK if WIDE else pid * CHUNK
    part = tl.zeros([BLOCK], tl.float32)
    for start in range(0, CHUNK, BLOCK):
        offsets = begin + start + tl.arange(0, BLOCK)
        part += term(tl.load(x + offsets, mask=offsets < TOTAL, other=0.0).to(tl.float32), KIND)
    tl.store(parts + pid, tl.sum(part, 0))


@triton.jit
def divide_kernel(
    x, parts, y, TOTAL: tl.constexpr, SPLITS: tl.constexpr, KIND: tl.constexpr, COUNT: tl.constexpr, EPS: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK: tl.constexpr,
):
    """One block divided by the norm of everything, the last block first: the end of the tensor may still be in the cache."""
    s = tl.arange(0, BLOCK_S)
    norm = divisor(tl.sum(tl.load(parts + s, mask=s < SPLITS, other=0.0), 0), KIND, COUNT, EPS)
    pid = tl.num_programs(0) - 1 - tl.program_id(0)
    begin = pid.to(tl.int64) * BLOCK if WIDE else pid * BLOCK
    offsets = begin + tl.arange(0, BLOCK)
    v = tl.load(x + offsets, mask=offsets < TOTAL, other=0.0).to(tl.float32)
    tl.store(y + offsets, (v / norm).to(y.dtype.element_ty), mask=offsets < TOTAL, eviction_policy="evict_first")


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
    x, y, parts, arrived, ROWS: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr, COUNT: tl.constexpr, EPS: tl.constexpr,
    TEAM: tl.constexpr, TEAMS: tl.constexpr, WIDE: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Every TEAMS-th row, BLOCK_N elements of it, in registers from the read to the write; all programs run at the same time."""
    team = tl.program_id(0) // TEAM
    member = tl.program_id(0) % TEAM
    t = tl.arange(0, BLOCK_T)
    n = member * BLOCK_N + tl.arange(0, BLOCK_N)
    for row in range(team, ROWS, TEAMS):
        base = row.to(tl.int64) * N if WIDE else row * N
        v = tl.load(x + base + n, mask=n < N, other=0.0, eviction_policy="evict_first").to(tl.float32)
        # two sets of slots by turns: who is a row ahead writes into the one that nobody reads any more
        slots = (team * 2 + (row // TEAMS) % 2) * TEAM
        tl.store(parts + slots + member, tl.sum(term(v, KIND), 0))
        meet(arrived + team, TEAM)
        total = tl.sum(tl.load(parts + slots + t, mask=t < TEAM, other=0.0, cache_modifier=".cg"), 0)
        r = v / divisor(total, KIND, COUNT, EPS)
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
    parts = torch.empty(teams * 2 * team, dtype=torch.float32, device=x.device)
    arrived = torch.zeros(teams, dtype=torch.int32, device=x.device)
    team_kernel[(teams * team,)](
        x, y, parts, arrived, rows, n, SHAPE["kind"], n if SHAPE["mean"] else 1, SHAPE["eps"], team, teams, x.numel() > 2**31 - 2**20, triton.next_power_of_2(team), tile,
        num_warps=warps, launch_cooperative_grid=True, maxnreg=min(255, 65536 // (held * warps * 32)),
    )
    return True


def run(x: torch.Tensor) -> torch.Tensor:
    """x / max(norm, SHAPE["eps"]), the norm taken along SHAPE["dim"] or, if that is None, over the whole tensor (Frobenius).

    kind "l1" sums |x|, "l2" takes the root of the sum of squares; with SHAPE["mean"] the sum becomes a mean before the root.
    Same shape and dtype as `x`, computed in float32.
    """
    x = x.contiguous()
    y = torch.empty_like(x)
    total = x.numel()
    if total == 0:
        return y
    kind, eps, tile, wide = SHAPE["kind"], SHAPE["eps"], PARAMS["tile"], total > 2**31 - 2**20
    if SHAPE["dim"] is None:
        block = min(tile, triton.next_power_of_2(total))
        chunk = triton.cdiv(triton.cdiv(total, PARAMS["splits"]), block) * block
        splits = triton.cdiv(total, chunk)
        parts = torch.empty(splits, dtype=torch.float32, device=x.device)
        wide = total + chunk > 2**31 - 2**20  # offsets run to the end of the last chunk
        parts_kernel[(splits,)](x, parts, total, chunk, kind, wide, block, num_warps=PARAMS["num_warps"])
        divide_kernel[(triton.cdiv(total, block),)](
            x, parts, y, total, splits, kind, total if SHAPE["mean"] else 1, eps, wide, triton.next_power_of_2(splits), block,
            num_warps=PARAMS["num_warps"],
        )
        return y
    dim = SHAPE["dim"] % x.dim()
    outer, n, inner = math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])
    if inner == 1 and run_in_teams(x, y, outer, n):
        return y
    columns = triton.next_power_of_2(n)
    auto = min(128, tile) if inner > 1 else max(1, min(16, 2048 // columns))
    block_l = min(PARAMS["lanes"] or auto, tile, triton.next_power_of_2(inner if inner > 1 else outer))
    tiles = triton.cdiv(outer, block_l) if inner == 1 else outer * triton.cdiv(inner, block_l)
    norm_scale_kernel[(tiles,)](
        x, y, outer * inner, n, inner, kind, n if SHAPE["mean"] else 1, eps, wide, block_l, min(tile // block_l, columns),
        num_warps=PARAMS["num_warps"],
    )
    return y


class ModelNew(nn.Module):
    """Division by the l1 norm, the norm and the scaling in one kernel where the rows fit."""

    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x):
        return run(x)
