# L1/34 34_InstanceNorm: 1.72x eager (1.674 to 4.434); 1.223x compile (1.189 to 2.056)
# Rules strict/4, precision ieee-grade, candidate a1e03391c1dab1429e5c3e84eb1db5c74acebeeadddaad3c1eb6439366c5de33
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-12-01T11:05:42+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/34 runs/L1-h200-d/winners/L1_34.py --source kernelbench/data

"""Instance norm, one plane split over programs."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import nn

SHAPE = {'kind': 'instance', 'groups': 1, 'eps': 1e-05, 'momentum': 0.1}
PARAMS = {'tile': 8192, 'team': 4, 'num_warps': 8}


@triton.jit
def whole_kernel(
    x, w, b, y, GROUPS: tl.constexpr, CHANNELS: tl.constexpr, N: tl.constexpr, PLANE: tl.constexpr, EPS: tl.constexpr,
    WEIGHT: tl.constexpr, BIAS: tl.constexpr, WIDE: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """One contiguous group of N elements, CHANNELS channels of PLANE elements each."""
    pid = tl.program_id(0)
    base = pid.to(tl.int64) * N if WIDE else pid * N
    n = tl.arange(0, BLOCK_N)
    mask = n < N
    v = tl.load(x + base + n, mask=mask, other=0.0).to(tl.float32)
    v = tl.where(mask, v - tl.sum(v, 0) / N, 0.0)
    r = v * (1.0 / tl.sqrt_rn(tl.sum(v * v, 0) / N + EPS))
    channel = (pid % GROUPS) * CHANNELS + n // PLANE
    if WEIGHT:
        r = r * tl.load(w + channel, mask=mask, other=0.0).to(tl.float32)
    if BIAS:
        r = r + tl.load(b + channel, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + base + n, r.to(y.dtype.element_ty), mask=mask)


@triton.jit
def parts_kernel(
    x, means, squares, PLANES: tl.constexpr, PLANE: tl.constexpr, CHUNK: tl.constexpr, SPLITS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """(mean, sum of squared deviations) of one chunk of BLOCK_P planes, into (PLANES, SPLITS); each tile element runs Welford's."""
    plane = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    split = tl.program_id(1)
    base = plane.to(tl.int64) * PLANE if WIDE else plane * PLANE
    mean = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    square = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    count = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    seen = 0.0
    for start in range(0, CHUNK, BLOCK_N):
        n = split * CHUNK + start + tl.arange(0, BLOCK_N)
        mask = (plane < PLANES)[:, None] & (n < PLANE)[None, :]
        v = tl.load(x + base[:, None] + n[None, :], mask=mask, other=0.0).to(tl.float32)
        seen += 1.0
        delta = v - mean
        moved = mean + delta * (1.0 / seen)
        square = tl.where(mask, square + delta * (v - moved), square)
        mean = tl.where(mask, moved, mean)
        count = tl.where(mask, seen, count)
    center = tl.sum(mean * count, 1) / tl.maximum(tl.sum(count, 1), 1.0)
    away = mean - center[:, None]
    tl.store(means + plane * SPLITS + split, center, mask=plane < PLANES)
    tl.store(squares + plane * SPLITS + split, tl.sum(square + count * away * away, 1), mask=plane < PLANES)


@triton.jit
def combine_kernel(
    means, squares, centers, scales, running_mean, running_var,
    INNER: tl.constexpr, OUTER: tl.constexpr, JUMP: tl.constexpr, SPLITS: tl.constexpr, CHUNK: tl.constexpr, PLANE: tl.constexpr,
    EPS: tl.constexpr, MOMENTUM: tl.constexpr, RUNNING: tl.constexpr, BLOCK: tl.constexpr,
):
    """One group's mean and 1 / sqrt(var + eps). Its parts: OUTER runs, JUMP apart, of INNER parts, from group * INNER on."""
    group = tl.program_id(0)
    PARTS: tl.constexpr = INNER * OUTER
    ELEMENTS: tl.constexpr = (INNER // SPLITS) * OUTER * PLANE
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, PARTS, BLOCK):
        p = start + tl.arange(0, BLOCK)
        slot = (p // INNER) * JUMP + group * INNER + p % INNER
        count = tl.minimum(PLANE - (p % SPLITS) * CHUNK, CHUNK).to(tl.float32)
        total += tl.load(means + slot, mask=p < PARTS, other=0.0) * count
    center = tl.sum(total, 0) / ELEMENTS
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, PARTS, BLOCK):
        p = start + tl.arange(0, BLOCK)
        slot = (p // INNER) * JUMP + group * INNER + p % INNER
        count = tl.minimum(PLANE - (p % SPLITS) * CHUNK, CHUNK).to(tl.float32)
        away = tl.load(means + slot, mask=p < PARTS, other=0.0) - center
        square += tl.where(p < PARTS, tl.load(squares + slot, mask=p < PARTS, other=0.0) + count * away * away, 0.0)
    deviation = tl.sum(square, 0)
    tl.store(centers + group, center)
    tl.store(scales + group, 1.0 / tl.sqrt_rn(deviation / ELEMENTS + EPS))
    if RUNNING:
        kept_mean = tl.load(running_mean + group) * (1.0 - MOMENTUM)
        kept_var = tl.load(running_var + group) * (1.0 - MOMENTUM)
        tl.store(running_mean + group, kept_mean + MOMENTUM * center)
        tl.store(running_var + group, kept_var + MOMENTUM * deviation / (ELEMENTS - 1))


@triton.jit
def apply_kernel(
    x, w, b, y, centers, scales, PLANES: tl.constexpr, PLANE: tl.constexpr, ALL: tl.constexpr, BATCH: tl.constexpr,
    CHANNELS: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr, WIDE: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Normalise one block of BLOCK_P planes, the last first; a plane's group is its channel (BATCH) or plane // CHANNELS."""
    plane = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_P + tl.arange(0, BLOCK_P)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = plane < PLANES
    group = plane % ALL if BATCH else plane // CHANNELS
    scale = tl.load(scales + group, mask=inside, other=0.0)
    center = tl.load(centers + group, mask=inside, other=0.0)
    base = plane.to(tl.int64) * PLANE if WIDE else plane * PLANE
    offsets = base[:, None] + n[None, :]
    mask = inside[:, None] & (n < PLANE)[None, :]
    v = (tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32) - center[:, None]) * scale[:, None]
    if WEIGHT:
        v = v * tl.load(w + plane % ALL, mask=inside, other=0.0).to(tl.float32)[:, None]
    if BIAS:
        v = v + tl.load(b + plane % ALL, mask=inside, other=0.0).to(tl.float32)[:, None]
    tl.store(y + offsets, v.to(y.dtype.element_ty), mask=mask, eviction_policy="evict_first")


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
    x, w, b, y, means, squares, arrived, ROWS: tl.constexpr, N: tl.constexpr, GROUPS: tl.constexpr, CHANNELS: tl.constexpr,
    PLANE: tl.constexpr, EPS: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr,
    TEAM: tl.constexpr, TEAMS: tl.constexpr, WIDE: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Every TEAMS-th group, BLOCK_N elements of it, in registers from the read to the write; all programs run at the same time."""
    team = tl.program_id(0) // TEAM
    member = tl.program_id(0) % TEAM
    t = tl.arange(0, BLOCK_T)
    n = member * BLOCK_N + tl.arange(0, BLOCK_N)
    for row in range(team, ROWS, TEAMS):
        base = row.to(tl.int64) * N if WIDE else row * N
        v = tl.load(x + base + n, mask=n < N, other=0.0, eviction_policy="evict_first").to(tl.float32)
        mean = tl.sum(v, 0) / tl.minimum(N - member * BLOCK_N, BLOCK_N)
        away = tl.where(n < N, v - mean, 0.0)
        # two sets of slots by turns: who is a row ahead writes into the one that nobody reads any more
        slots = (team * 2 + (row // TEAMS) % 2) * TEAM
        tl.store(means + slots + member, mean)
        tl.store(squares + slots + member, tl.sum(away * away, 0))
        meet(arrived + team, TEAM)
        count = tl.minimum(N - t * BLOCK_N, BLOCK_N).to(tl.float32)
        others = tl.load(means + slots + t, mask=t < TEAM, other=0.0, cache_modifier=".cg")
        center = tl.sum(tl.where(t < TEAM, others * count, 0.0), 0) / N
        spread = tl.load(squares + slots + t, mask=t < TEAM, other=0.0, cache_modifier=".cg")
        square = tl.sum(tl.where(t < TEAM, spread + count * (others - center) * (others - center), 0.0), 0)
        r = (v - center) * (1.0 / tl.sqrt_rn(square / N + EPS))
        first = (row % GROUPS) * CHANNELS
        # a tile inside one channel needs one weight
        channel = first + (member * BLOCK_N) // PLANE if PLANE % BLOCK_N == 0 else tl.minimum(first + n // PLANE, GROUPS * CHANNELS - 1)
        if WEIGHT:
            r = r * tl.load(w + channel).to(tl.float32)
        if BIAS:
            r = r + tl.load(b + channel).to(tl.float32)
        tl.store(y + base + n, r.to(y.dtype.element_ty), mask=n < N, eviction_policy="evict_first")


def run_in_teams(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, y: torch.Tensor, rows: int, n: int, of: tuple[int, int, int], has: tuple[bool, bool]) -> bool:
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
    means, squares = torch.empty(2, teams * 2 * team, dtype=torch.float32, device=x.device)
    arrived = torch.zeros(teams, dtype=torch.int32, device=x.device)
    team_kernel[(teams * team,)](
        x, w, b, y, means, squares, arrived, rows, n, *of, SHAPE["eps"], *has, team, teams, x.numel() > 2**31 - 2**20, triton.next_power_of_2(team), tile,
        num_warps=warps, launch_cooperative_grid=True, maxnreg=min(255, 65536 // (held * warps * 32)),
    )
    return True


def run(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    running_mean: torch.Tensor | None = None,
    running_var: torch.Tensor | None = None,
) -> torch.Tensor:
    """Normalise (N, C, ...) by the statistics of SHAPE["kind"]: "group", "instance" or "batch" (this batch's, as in training).

    `weight` and `bias` are (C,). `running_mean` and `running_var` (C,) are updated in place for "batch" if both are given.
    Same shape and dtype as `x`, computed in float32.
    """
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    samples, channels, plane = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    batch = SHAPE["kind"] == "batch"
    per_group = 1 if SHAPE["kind"] != "group" else channels // SHAPE["groups"]
    w, b = (x if p is None else p.contiguous() for p in (weight, bias))
    has, wide, tile, warps = (weight is not None, bias is not None), x.numel() > 2**31 - 2**20, PARAMS["tile"], PARAMS["num_warps"]
    if not batch and per_group * plane <= tile:
        n = per_group * plane
        whole_kernel[(x.numel() // n,)](
            x, w, b, y, channels // per_group, per_group, n, plane, SHAPE["eps"], *has, wide, triton.next_power_of_2(n), num_warps=warps
        )
        return y
    planes = samples * channels
    of = (channels // per_group, per_group, plane)
    if not batch and run_in_teams(x, w, b, y, planes // per_group, per_group * plane, of, has):
        return y
    block_n = min(tile, triton.next_power_of_2(plane))
    block_p = min(max(1, tile // 4 // block_n), 64, triton.next_power_of_2(planes))
    chunk = triton.cdiv(triton.cdiv(plane, max(1, min(16, 2112 // planes))), block_n) * block_n
    splits = triton.cdiv(plane, chunk)
    groups = channels if batch else planes // per_group
    means, squares = torch.empty(2, planes, splits, dtype=torch.float32, device=x.device)
    centers, scales = torch.empty(2, groups, dtype=torch.float32, device=x.device)
    parts_kernel[(triton.cdiv(planes, block_p), splits)](
        x, means, squares, planes, plane, chunk, splits, wide, block_p, block_n, num_warps=warps
    )
    inner, outer = (splits, samples) if batch else (splits * per_group, 1)
    updated = batch and running_mean is not None and running_var is not None
    combine_kernel[(groups,)](
        means, squares, centers, scales, running_mean if updated else means, running_var if updated else means,
        inner, outer, channels * splits, splits, chunk, plane, SHAPE["eps"], SHAPE["momentum"], updated,
        min(1024, triton.next_power_of_2(inner * outer)), num_warps=4,
    )
    apply_kernel[(triton.cdiv(planes, block_p), triton.cdiv(plane, block_n))](
        x, w, b, y, centers, scales, planes, plane, channels, batch, per_group, *has, wide, block_p, block_n, num_warps=warps
    )
    return y


class ModelNew(nn.Module):
    """Instance norm, one plane split over programs."""

    def __init__(self, num_features: int):
        super(ModelNew, self).__init__()
        self.inorm = nn.InstanceNorm2d(num_features=num_features)

    def forward(self, x):
        return run(x)
