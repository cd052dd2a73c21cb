"""The judge's own comparison kernel: all figures of one output in a single pass. compare.py is its meaning and its fallback."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, STEPS = 1024, 16
FIGURES = 6  # ratio, largest error, sum of squares, wrong non-finite elements, where, blind


@triton.jit  # type: ignore[untyped-decorator]
def _figures(actual, eager, delta, change, out, n, error, change_all, times, ulps_eps, tiny,  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
             HAS_DELTA: tl.constexpr, HAS_CHANGE: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * (BLOCK * STEPS)
    lanes = tl.arange(0, BLOCK)
    best = tl.full([BLOCK], 0.0, tl.float64)
    place = tl.zeros([BLOCK], tl.int64) + base
    largest = tl.full([BLOCK], 0.0, tl.float64)
    squares = tl.full([BLOCK], 0.0, tl.float64)
    wrongs = tl.full([BLOCK], 0.0, tl.float64)
    blind = tl.full([BLOCK], 0.0, tl.float64)
    for step in range(STEPS):
        index = base + step * BLOCK + lanes
        inside = index < n
        expected = tl.load(eager + index, mask=inside, other=0.0).to(tl.float64)
        if HAS_DELTA:
            expected += tl.load(delta + index, mask=inside, other=0.0).to(tl.float64)
        answer = tl.load(actual + index, mask=inside, other=0.0).to(tl.float64)
        scale = tl.full([BLOCK], 0.0, tl.float64) + change_all
        if HAS_CHANGE:
            scale = tl.load(change + index, mask=inside, other=0.0).to(tl.float64)
        limit = times * tl.maximum(scale, error) + ulps_eps * tl.abs(expected) + tiny
        finite = (expected - expected) == 0.0
        same = (answer == expected) | ((answer != answer) & (expected != expected))
        wrong = tl.where(finite, (answer - answer) != 0.0, same == 0) & inside
        off = tl.where(finite & (wrong == 0) & inside, tl.abs(answer - expected), 0.0)
        ratio = tl.where(off > 0.0, off / limit, 0.0)
        place = tl.where(ratio > best, index, place)
        best = tl.maximum(best, ratio)
        largest = tl.maximum(largest, off)
        squares += off * off
        wrongs += wrong.to(tl.float64)
        blind += ((tl.abs(expected) < limit) & (expected != 0.0) & inside).to(tl.float64)
    top = tl.max(best, 0)
    row = out + tl.program_id(0) * 6
    tl.store(row, top)
    tl.store(row + 1, tl.max(largest, 0))
    tl.store(row + 2, tl.sum(squares, 0))
    tl.store(row + 3, tl.sum(wrongs, 0))
    tl.store(row + 4, tl.max(tl.where(best == top, place, 0), 0).to(tl.float64))
    tl.store(row + 5, tl.sum(blind, 0))


def table(actual: Tensor, eager: Tensor, delta: Tensor | None, change: Tensor | float, *, error: float, times: float, ulps_eps: float,
          tiny: float) -> Any:
    """Figures a program, float64 (programs, 6), on the device. All tensors flat, contiguous, floating, of the same length."""
    n = eager.numel()
    programs = triton.cdiv(n, BLOCK * STEPS)
    out = torch.empty(programs, FIGURES, dtype=torch.float64, device=eager.device)
    per_element = isinstance(change, Tensor)
    _figures[(programs,)](actual, eager, delta if delta is not None else eager, change if per_element else eager, out, n, error,
                          0.0 if per_element else change, times, ulps_eps, tiny, HAS_DELTA=delta is not None, HAS_CHANGE=per_element,
                          BLOCK=BLOCK, STEPS=STEPS, num_warps=8)
    return out
