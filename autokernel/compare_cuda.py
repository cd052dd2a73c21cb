"""The judge's own kernels: what it asks of whole outputs, in a single pass each. compare.py is their meaning and their fallback."""

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


@triton.jit  # type: ignore[untyped-decorator]
def _extent(left, right, out, n, HAS_RIGHT: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    base = tl.program_id(0).to(tl.int64) * (BLOCK * STEPS)
    largest = tl.full([BLOCK], 0.0, tl.float64)
    squares = tl.full([BLOCK], 0.0, tl.float64)
    for step in range(STEPS):
        index = base + step * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(left + index, mask=index < n, other=0.0).to(tl.float64)
        if HAS_RIGHT:
            value -= tl.load(right + index, mask=index < n, other=0.0).to(tl.float64)
        size = tl.where(value == value, tl.abs(value), float("inf"))
        largest = tl.maximum(largest, size)
        squares += size * size
    tl.store(out + tl.program_id(0) * 2, tl.max(largest, 0))
    tl.store(out + tl.program_id(0) * 2 + 1, tl.sum(squares, 0))


def extent(left: Tensor, right: Tensor | None) -> Tensor:
    """(largest, sum of squares) of |left - right|, or of |left|, float64 (2,) on the device; NaN counts as infinite. Flat, contiguous."""
    programs = triton.cdiv(left.numel(), BLOCK * STEPS)
    out = torch.empty(programs, 2, dtype=torch.float64, device=left.device)
    _extent[(programs,)](left, left if right is None else right, out, left.numel(), HAS_RIGHT=right is not None, BLOCK=BLOCK, STEPS=STEPS,
                         num_warps=8)
    return torch.stack([out[:, 0].max(), out[:, 1].sum()])


@triton.jit  # type: ignore[untyped-decorator]
def _raise(change, answer, eager, delta, n, HAS_DELTA: tl.constexpr,  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
           BLOCK: tl.constexpr, STEPS: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * (BLOCK * STEPS)
    for step in range(STEPS):
        index = base + step * BLOCK + tl.arange(0, BLOCK)
        inside = index < n
        centre = tl.load(eager + index, mask=inside).to(tl.float64)
        if HAS_DELTA:
            centre += tl.load(delta + index, mask=inside).to(tl.float64)
        moved = tl.abs(tl.load(answer + index, mask=inside).to(tl.float64) - centre)
        moved = tl.where((moved - moved) == 0.0, moved, 0.0).to(tl.float32)
        tl.store(change + index, tl.maximum(tl.load(change + index, mask=inside), moved), mask=inside)


def raise_to_difference(change: Tensor, answer: Tensor, eager: Tensor, delta: Tensor | None) -> None:
    """`change` (float32) becomes the larger of itself and |answer - (eager + delta)|, element by element; differences that are not finite
    are zero. All flat and contiguous."""
    _raise[(triton.cdiv(change.numel(), BLOCK * STEPS),)](change, answer, eager, delta if delta is not None else eager, change.numel(),
                                                          HAS_DELTA=delta is not None, BLOCK=BLOCK, STEPS=STEPS, num_warps=8)
