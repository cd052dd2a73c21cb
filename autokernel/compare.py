"""Error figures of an answer against its oracle. Trusted; runs in the judge, on whatever device the tensors are on.

Figures only: what they mean for a verdict is the gate's to say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 1 << 25  # elements a pass on a GPU: bounds the float64 temporaries to a few hundred MB
CACHED_CHUNK = 1 << 16  # on the CPU: temporaries that stay in its caches
SCREEN = 1 << 18


@dataclass(frozen=True)
class Bound:
    """What an element may be off by: times * max(error, change) + (ulps * eps) * |r| + the dtype's smallest normal number.

    `error` is eager's own largest error (one number), `change` the oracle's largest change when inputs and weights move by one ulp
    (per element, or one number). The last term lets subnormals be flushed. Source: design, law 6.
    """

    error: float
    change: Tensor | float
    times: float
    ulps: float
    rms: float  # limit for the rms error

    def at(self, expected: Tensor, start: int, eps: float, tiny: float) -> Tensor:
        """Limits for the chunk `expected` (float64, (n,)) that begins at flat element `start`."""
        change = self.change
        if isinstance(change, Tensor):
            scale = change[start:start + expected.numel()].double().clamp_(min=self.error).mul_(self.times)
        else:
            scale = torch.full_like(expected, self.times * max(self.error, change))
        return scale.add_(expected.abs().nan_to_num_(posinf=0.0), alpha=self.ulps * eps).add_(tiny)


@dataclass(frozen=True)
class ErrorFigures:
    """How far one output tensor is off. `ratio` above 1.0 is out of bound; `blind` is the share of elements other than zero
    that lie below their bound."""

    ratio: float
    max_error: float
    rms_error: float
    rms_limit: float
    nonfinite: int  # elements whose NaN or infinity differs from the oracle's
    where: int  # flat index of the largest ratio
    actual: float
    expected: float
    blind: float

    @property
    def within(self) -> bool:
        """No element out of bound, rms in its limit, non-finite values where the oracle has them."""
        return self.nonfinite == 0 and self.ratio <= 1.0 and self.rms_error <= self.rms_limit


def floating_error(actual: Tensor, eager: Tensor, delta: Tensor | None, bound: Bound) -> ErrorFigures:
    """Figures of `actual` against the oracle `eager + delta`; all of the same shape, floating, contiguous.

    `delta` (float32, flat) is the float64 oracle less eager's output, None where eager itself is the oracle. Compared in float64: one
    fused pass on CUDA, chunks elsewhere. NaN matches only NaN, an infinity only itself.
    """
    flat_actual, flat_eager = actual.reshape(-1), eager.reshape(-1)
    total = flat_eager.numel()
    if total == 0:
        return ErrorFigures(0.0, 0.0, 0.0, bound.rms, 0, 0, 0.0, 0.0, 0.0)
    table = _table(flat_actual, flat_eager, delta, bound)
    best = int(table[:, 0].argmax())
    where = int(table[best, 4])
    return ErrorFigures(
        ratio=float(table[best, 0]), max_error=float(table[:, 1].max()), rms_error=float((table[:, 2].sum() / total).sqrt()),
        rms_limit=bound.rms, nonfinite=int(table[:, 3].sum()), where=where, actual=float(flat_actual[where]),
        expected=float(flat_eager[where]), blind=float(table[:, 5].sum()) / total,
    )


def surely_within(actual: Tensor, eager: Tensor, bound: Bound) -> bool:
    """Whether `actual` is within `bound` of eager's output by the smallest limit that any element has; False means: look closely.

    For bounds of one number. A few passes instead of twenty, in float32 on the CPU: timed calls compare millions of elements a window.
    """
    if isinstance(bound.change, Tensor) or eager.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return False
    total = 0.0
    limit = bound.times * max(bound.error, bound.change) * (1 - 2.0 ** -20)  # a float32 difference is off by a rounding
    if eager.is_cuda:
        largest, total = extent(actual, eager)
        return largest <= limit and total <= bound.rms * bound.rms * eager.numel() * (1 - 2.0 ** -10)
    for start in range(0, eager.numel(), SCREEN):
        part = slice(start, start + SCREEN)
        error = actual.reshape(-1)[part].float() - eager.reshape(-1)[part]
        low, high = torch.aminmax(error)
        if not (-limit <= float(low) and float(high) <= limit):  # NaN is neither
            return False
        total += float(torch.dot(error, error))
    return total <= bound.rms * bound.rms * eager.numel() * (1 - 2.0 ** -10)


def extent(left: Tensor, right: Tensor | None = None) -> tuple[float, float]:
    """(largest, sum of squares) of |left - right|, or of |left|, in float64; both are infinite where any element is not finite."""
    if not left.numel():
        return 0.0, 0.0
    flat, other = left.reshape(-1), None if right is None else right.reshape(-1)
    if left.is_cuda:
        from autokernel import compare_cuda

        largest, squares = compare_cuda.extent(flat, other).tolist()
    else:
        largest = squares = 0.0
        for start in range(0, flat.numel(), CACHED_CHUNK):
            value = flat[start:start + CACHED_CHUNK].double()
            if other is not None:
                value = value - other[start:start + CACHED_CHUNK]
            here = float(torch.linalg.vector_norm(value, math.inf))
            if not math.isfinite(here):
                return math.inf, math.inf
            largest, squares = max(largest, here), squares + float(torch.dot(value, value))
    return (largest, squares) if math.isfinite(largest) else (math.inf, math.inf)


def raise_to_difference(change: Tensor, answer: Tensor, eager: Tensor, delta: Tensor | None = None) -> None:
    """`change` (float32, flat) becomes the larger of itself and |answer - (eager + delta)|, `delta` (flat) or none; differences that are
    not finite count as zero."""
    answer, eager = answer.reshape(-1), eager.reshape(-1)
    if change.is_cuda and change.numel():
        from autokernel import compare_cuda

        compare_cuda.raise_to_difference(change, answer, eager, delta)
        return
    for start in range(0, change.numel(), CACHED_CHUNK):
        part = slice(start, start + CACHED_CHUNK)
        centre = eager[part].double()
        if delta is not None:
            centre = centre + delta[part]
        moved = (answer[part].double() - centre).abs_().nan_to_num_(nan=0.0, posinf=0.0)
        torch.maximum(change[part], moved.float(), out=change[part])


def distance(left: Tensor, right: Tensor) -> tuple[float, float]:
    """(largest, rms) difference of two floating tensors of one shape; elements that are not finite on the right do not count."""
    figures = floating_error(left.contiguous(), right.contiguous(), None, Bound(0.0, 0.0, 1.0, 1.0, 0.0))
    return figures.max_error, figures.rms_error


def _table(actual: Tensor, eager: Tensor, delta: Tensor | None, bound: Bound) -> Tensor:
    """Rows of (ratio, largest error, sum of squares, wrong non-finite, where, blind), float64 on the CPU."""
    info = torch.finfo(eager.dtype)
    if eager.is_cuda:
        from autokernel import compare_cuda

        made: Tensor = compare_cuda.table(actual, eager, delta, bound.change, error=bound.error, times=bound.times,
                                          ulps_eps=bound.ulps * info.eps, tiny=info.tiny)
        return made.cpu()
    return _chunked_table(actual, eager, delta, bound)


def _chunked_table(actual: Tensor, eager: Tensor, delta: Tensor | None, bound: Bound) -> Tensor:
    info, device, rows = torch.finfo(eager.dtype), eager.device, []
    for start in range(0, eager.numel(), CACHED_CHUNK):
        part = slice(start, start + CACHED_CHUNK)
        expected, answer = eager[part].double(), actual[part].double()
        if delta is not None:
            expected = expected + delta[part]  # not in place: what is float64 already was not copied
        limit = bound.at(expected, start, info.eps, info.tiny)
        finite = expected.isfinite()
        error = (answer - expected).abs_()
        same = (answer == expected) | (answer.isnan() & expected.isnan())
        wrong = torch.where(finite, ~answer.isfinite(), ~same)
        error = torch.where(finite & ~wrong, error, torch.zeros((), dtype=torch.float64, device=device))
        ratio, place = torch.where(error > 0, error / limit, error).max(0)
        blind = ((expected.abs() < limit) & (expected != 0)).sum()
        squares = (error * error).sum()
        rows.append(torch.stack([ratio, error.max(), squares, wrong.sum().double(), (place + start).double(), blind.double()]))
    return torch.stack(rows).cpu()


def exact_error(actual: Tensor, eager: Tensor, other: Tensor | None) -> ErrorFigures:
    """Figures for integers and bools: equal to eager, or, where eager and float64 (`other`) differ, to either."""
    wrong = actual != eager
    if other is not None:
        wrong &= actual != other
    count = int(wrong.sum())
    where = int(wrong.reshape(-1).to(torch.uint8).argmax()) if count else 0
    value = (float(actual.reshape(-1)[where]), float(eager.reshape(-1)[where])) if eager.numel() else (0.0, 0.0)
    return ErrorFigures(float("inf") if count else 0.0, float(count), 0.0, 0.0, 0, where, *value, 0.0)


def as_real(tensor: Tensor) -> Tensor:
    """A complex tensor's parts along a last dimension of two; any other as it is. Errors are those of the parts."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def identical(left: Tensor, right: Tensor) -> bool:
    """Bit for bit the same contents; same shape and dtype are the caller's to know."""
    if left.numel() == 0:
        return True
    size = left.element_size()
    as_int = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(size)
    if as_int is None or left.is_complex():
        return torch.equal(torch.view_as_real(left), torch.view_as_real(right))
    return torch.equal(left.contiguous().view(as_int), right.contiguous().view(as_int))
