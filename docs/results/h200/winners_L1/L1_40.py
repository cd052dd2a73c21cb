# L1/40 40_LayerNorm: 18.66x eager (15.74 to 24.53); 1.147x compile (1.075 to 1.337)
# Rules strict/4, precision ieee-grade, candidate 4d2f28e0ef1ec90bd29747db740141f89db0a860f14b60715545ec2a0a28f3a2
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-12-01T11:38:17+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/40 runs/L1-h200-f/winners/L1_40.py --source kernelbench/data

"""Layer norm by Welford, long rows split."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import nn

SHAPE = {'ndim': 3, 'eps': 1e-05}
PARAMS = {'tile': 8192, 'lanes': 0, 'splits': 0, 'team': 4, 'num_warps': 8}


class Direct:
    """A kernel whose launches, from the second with like arguments on, go straight to what was compiled for the first."""

    def __init__(self, kernel):
        self.kernel, self.compiled = kernel, {}
        self.given = 1 + max(n for n, parameter in enumerate(kernel.params) if not parameter.is_constexpr)  # constants alone from there on

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.launch((*grid, 1, 1)[:3], arguments, options)

    def launch(self, grid, arguments, options):
        """All arguments by position. Triton compiles for constants, types, integers and whether pointers are multiples of 16."""
        key = (torch.cuda.current_device(), arguments[self.given:], *options.values(), *[
            (x.dtype, x.data_ptr() % 16) if isinstance(x, torch.Tensor) else float if isinstance(x, float) else x for x in arguments[:self.given]
        ])
        compiled = self.compiled.get(key)
        if compiled is None:
            self.compiled[key] = self.kernel[grid](*arguments, **options)
        else:
            compiled[grid](*arguments)


def direct(kernel):
    """Direct launches for a compiled kernel; an interpreted one stays as it is."""
    return Direct(kernel) if isinstance(kernel, triton.JITFunction) else kernel


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


@direct
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


@direct
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


@direct
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


@triton.jit
def meet(arrived, TEAM: tl.constexpr):
    """Wait until all TEAM programs of a team have come here as often as this one; what they stored before can be read then."""
    tl.debug_barrier()
    seen = tl.atomic_add(arrived, 1, sem="acq_rel") + 1
    all_here = (seen + TEAM - 1) // TEAM * TEAM
    while seen < all_here:
        seen = tl.atomic_add(arrived, 0, sem="acquire")
    tl.debug_barrier()


@direct
@triton.jit
def team_kernel(
    x, w, b, y, means, squares, arrived, ROWS: tl.constexpr, N: tl.constexpr, EPS: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr,
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
        if WEIGHT:
            r = r * tl.load(w + n, mask=n < N, other=0.0).to(tl.float32)
        if BIAS:
            r = r + tl.load(b + n, mask=n < N, other=0.0).to(tl.float32)
        tl.store(y + base + n, r.to(y.dtype.element_ty), mask=n < N, eviction_policy="evict_first")


def run_in_teams(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, y: torch.Tensor, rows: int, n: int, has: tuple[bool, bool]) -> bool:
    """Launch `team_kernel` where PARAMS say so and a row's team finds room on the device; whether that was done."""
    tile, warps = PARAMS["tile"], PARAMS["num_warps"]
    team = -(-n // tile)
    if not PARAMS["team"] or team < 2 or triton.knobs.runtime.interpret:  # one program after the other
        return False
    device = torch.cuda.get_device_properties(x.device)
    held = min(PARAMS["team"], device.max_threads_per_multi_processor // (32 * warps))  # programs by one processor
    teams = min(rows, held * device.multi_processor_count // team)
    if teams == 0:
        return False
    means, squares = torch.empty(2, teams * 2 * team, dtype=torch.float32, device=x.device)
    arrived = torch.zeros(teams, dtype=torch.int32, device=x.device)
    team_kernel[(teams * team,)](
        x, w, b, y, means, squares, arrived, rows, n, SHAPE["eps"], *has, team, teams, x.numel() > 2**31 - 2**20, 1 << (team - 1).bit_length(), tile,
        num_warps=warps, launch_cooperative_grid=True, maxnreg=min(255, 65536 // (held * warps * 32)),
    )
    return True


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
    if run_in_teams(x, w, b, y, rows, n, has):
        return y
    columns = 1 << (n - 1).bit_length()
    splits = PARAMS["splits"] or (1 if n <= 4 * tile or rows >= 256 else max(1, min(-(-n // (2 * tile)), 1056 // rows)))
    if splits == 1 or columns <= tile:
        block_l = min(PARAMS["lanes"] or max(1, min(16, 2048 // columns)), tile, 1 << (rows - 1).bit_length())
        row_kernel[(-(-rows // block_l),)](
            x, w, b, y, rows, n, SHAPE["eps"], *has, wide, block_l, min(tile // block_l, columns), num_warps=warps
        )
        return y
    chunk = -(-n // splits // tile) * tile
    splits = -(-n // chunk)
    means, squares = torch.empty(2, rows, splits, dtype=torch.float32, device=x.device)
    parts_kernel[(rows, splits)](x, means, squares, n, chunk, splits, wide, tile, num_warps=warps)
    block_n = min(tile, 4096)
    apply_kernel[(rows, -(-n // block_n))](
        x, w, b, y, means, squares, n, chunk, splits, SHAPE["eps"], *has, wide, 1 << (splits - 1).bit_length(), block_n, num_warps=warps
    )
    return y


class ModelNew(nn.Module):
    """Layer norm by Welford, long rows split."""

    def __init__(self, normalized_shape: tuple):
        super(ModelNew, self).__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x):
        return run(x, self.ln.weight, self.ln.bias)
