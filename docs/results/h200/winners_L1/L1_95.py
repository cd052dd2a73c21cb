# L1/95 95_CrossEntropyLoss: 2.596x eager (2.365 to 3.261); 1.899x compile (1.78 to 2.197)
# Rules strict/5, precision ieee-grade, candidate 6643209d013d51ad75934e7e80fd29c1264b57a146328538924c9c1a4f95d3b9
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-12-01T14:03:08+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/95 runs/L1-h200-h/winners/L1_95.py --source kernelbench/data

"""Cross entropy, each logit read once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import nn

SHAPE = {'reduction': 'mean', 'ignore_index': -100}
PARAMS = {'tile': 4096, 'lanes': 0, 'num_warps': 4}


class DirectKernel:
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
    return DirectKernel(kernel) if isinstance(kernel, triton.JITFunction) else kernel


@direct
@triton.jit
def rows_kernel(
    x, target, losses, ROWS: tl.constexpr, N: tl.constexpr, IGNORE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """logsumexp(row) - row[target] of BLOCK_L rows; an ignored row gives 0."""
    pid = tl.program_id(0)
    if WIDE:
        pid = pid.to(tl.int64)
    lane = pid * BLOCK_L + tl.arange(0, BLOCK_L)
    lane_mask = lane < ROWS
    base = lane * N
    if BLOCK_N >= N:
        n = tl.arange(0, BLOCK_N)
        mask = lane_mask[:, None] & (n < N)[None, :]
        v = tl.load(x + base[:, None] + n[None, :], mask=mask, other=float("-inf")).to(tl.float32)
        peak = tl.where(lane_mask, tl.max(v, 1), 0.0)
        total = tl.sum(tl.exp(v - peak[:, None]), 1)
    else:
        top = tl.full([BLOCK_L, BLOCK_N], -3.0e38, tl.float32)
        part = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)
        for start in range(0, N, BLOCK_N):
            n = start + tl.arange(0, BLOCK_N)
            mask = lane_mask[:, None] & (n < N)[None, :]
            v = tl.load(x + base[:, None] + n[None, :], mask=mask, other=float("-inf")).to(tl.float32)
            higher = tl.maximum(top, v)
            part = part * tl.exp(top - higher) + tl.exp(v - higher)
            top = higher
        peak = tl.max(top, 1)
        total = tl.sum(part * tl.exp(top - peak[:, None]), 1)
    t = tl.load(target + lane, mask=lane_mask, other=IGNORE)
    counted = lane_mask & (t != IGNORE)
    picked = tl.load(x + base + tl.where(counted, t, 0), mask=counted, other=0.0).to(tl.float32)
    # the difference first: peak and picked are of one size, and what they cancel is exact or nearly so
    tl.store(losses + lane, tl.where(counted, (peak - picked) + tl.log(total), 0.0).to(losses.dtype.element_ty), mask=lane_mask)


@direct
@triton.jit
def total_kernel(losses, target, y, ROWS: tl.constexpr, MEAN: tl.constexpr, IGNORE: tl.constexpr, BLOCK: tl.constexpr):
    """Sum of all losses, divided by the number of rows that count if MEAN."""
    part = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.float32)
    for start in range(0, ROWS, BLOCK):
        lane = start + tl.arange(0, BLOCK)
        part += tl.load(losses + lane, mask=lane < ROWS, other=0.0)
        count += tl.where(tl.load(target + lane, mask=lane < ROWS, other=IGNORE) != IGNORE, 1.0, 0.0)
    r = tl.sum(part, 0)
    tl.store(y, (r / tl.sum(count, 0) if MEAN else r).to(y.dtype.element_ty))


def run(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """F.cross_entropy of `logits` (rows, classes) and int64 `target` (rows,), reduced as SHAPE["reduction"] says.

    A 0-dim tensor ("none": (rows,)) of the logits' dtype; computed in float32. Targets out of range are not checked.
    """
    logits, target = logits.contiguous(), target.contiguous()
    rows, n = logits.shape
    none = SHAPE["reduction"] == "none"
    losses = torch.empty(rows, dtype=logits.dtype if none else torch.float32, device=logits.device)
    columns = 1 << (n - 1).bit_length()
    block_l = min(PARAMS["lanes"] or max(1, min(16, 2048 // columns)), PARAMS["tile"], 1 << (rows - 1).bit_length())
    rows_kernel[(-(-rows // block_l),)](
        logits, target, losses, rows, n, SHAPE["ignore_index"], logits.numel() > 2**31 - 2**20, block_l,
        min(PARAMS["tile"] // block_l, columns), num_warps=PARAMS["num_warps"],
    )
    if none:
        return losses
    y = torch.empty((), dtype=logits.dtype, device=logits.device)
    total_kernel[(1,)](
        losses, target, y, rows, SHAPE["reduction"] == "mean", SHAPE["ignore_index"], min(4096, 1 << (rows - 1).bit_length()), num_warps=16
    )
    return y


class ModelNew(nn.Module):
    """Cross entropy, each logit read once."""

    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, predictions, targets):
        return run(predictions, targets)
