"""Cross entropy of logits (rows, classes) and class indices, each logit read once. Default problem: F.cross_entropy, mean."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import nn

OP = "cross_entropy"
SHAPE = {"reduction": "mean", "ignore_index": -100}  # reduction: mean, sum, none
PARAMS = {"tile": 4096, "lanes": 0, "num_warps": 4}  # lanes 0: chosen by the shape
SPACE = {
    "tile": [1024, 2048, 4096, 8192, 16384, 32768],
    "lanes": [0, 1, 2, 4, 8, 16],
    "num_warps": [1, 2, 4, 8, 16],
}


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
    """torch.nn.functional.cross_entropy(predictions, targets)."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """0-dim loss."""
        return run(predictions, targets)
