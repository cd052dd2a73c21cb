"""Error figures of an answer against its oracle. Trusted; runs in the judge, on whatever device the tensors are on.

Figures only: what they mean for a verdict is the gate's to say.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 1 << 25  # elements a pass: bounds the float64 temporaries to a few hundred MB


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
    """How far one output tensor is off. `ratio` above 1.0 is out of bound; `blind` is the share of elements below their bound."""

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

    `delta` (float32, flat) is the float64 oracle less eager's output, None where eager itself is the oracle. Compared in float64.
    NaN matches only NaN, an infinity only itself.
    """
    info = torch.finfo(eager.dtype)
    flat_actual, flat_eager = actual.reshape(-1), eager.reshape(-1)
    total, device = flat_eager.numel(), eager.device
    if total == 0:
        return ErrorFigures(0.0, 0.0, 0.0, bound.rms, 0, 0, 0.0, 0.0, 0.0)
    rows = []
    for start in range(0, total, CHUNK):
        expected = flat_eager[start:start + CHUNK].double()
        if delta is not None:
            expected += delta[start:start + CHUNK]
        answer = flat_actual[start:start + CHUNK].double()
        limit = bound.at(expected, start, info.eps, info.tiny)
        finite = expected.isfinite()
        error = (answer - expected).abs_()
        same = (answer == expected) | (answer.isnan() & expected.isnan())
        wrong = torch.where(finite, ~answer.isfinite(), ~same)
        error = torch.where(finite & ~wrong, error, torch.zeros((), dtype=torch.float64, device=device))
        ratio, place = (error / limit).max(0)
        blind = (expected.abs() < limit).sum()
        rows.append(torch.stack([ratio, error.max(), (error * error).sum(), wrong.sum().double(), (place + start).double(), blind.double()]))
    table = torch.stack(rows).cpu()
    best = int(table[:, 0].argmax())
    where = int(table[best, 4])
    return ErrorFigures(
        ratio=float(table[best, 0]), max_error=float(table[:, 1].max()), rms_error=float((table[:, 2].sum() / total).sqrt()),
        rms_limit=bound.rms, nonfinite=int(table[:, 3].sum()), where=where, actual=float(flat_actual[where]),
        expected=float(flat_eager[where]), blind=float(table[:, 5].sum()) / total,
    )


def quick_error(actual: Tensor, eager: Tensor, bound: Bound) -> ErrorFigures:
    """As `floating_error` against eager alone with one limit for all elements, in float32: a few passes, for calls under the clock.

    Falls back to the full comparison where it sees a non-finite value or where something is out of bound.
    """
    if eager.dtype is not torch.float32 or isinstance(bound.change, Tensor):
        return floating_error(actual, eager, None, bound)
    flat_actual, flat_eager = actual.reshape(-1), eager.reshape(-1)
    total = flat_eager.numel()
    limit = bound.times * max(bound.error, bound.change)
    largest, squares = torch.zeros((), device=eager.device), torch.zeros((), dtype=torch.float64, device=eager.device)
    for start in range(0, total, CHUNK * 8):
        error = (flat_actual[start:start + CHUNK * 8] - flat_eager[start:start + CHUNK * 8]).abs_()
        largest = torch.maximum(largest, error.max())
        squares += error.square_().sum(dtype=torch.float64)
    peak = float(largest)
    rms = float((squares / max(total, 1)).sqrt())
    if not peak <= limit or rms > bound.rms:  # NaN included: `not <=`
        return floating_error(actual, eager, None, bound)
    ratio = peak / (limit + torch.finfo(torch.float32).tiny)
    return ErrorFigures(ratio, peak, rms, bound.rms, 0, 0, 0.0, 0.0, 0.0)


def exact_error(actual: Tensor, eager: Tensor, other: Tensor | None) -> ErrorFigures:
    """Figures for integers and bools: equal to eager, or, where eager and float64 (`other`) differ, to either."""
    wrong = actual != eager
    if other is not None:
        wrong &= actual != other
    count = int(wrong.sum())
    where = int(wrong.reshape(-1).to(torch.uint8).argmax()) if count else 0
    value = (float(actual.reshape(-1)[where]), float(eager.reshape(-1)[where])) if eager.numel() else (0.0, 0.0)
    return ErrorFigures(float("inf") if count else 0.0, float(count), 0.0, 0.0, 0, where, *value, 0.0)


def identical(left: Tensor, right: Tensor) -> bool:
    """Bit for bit the same contents; same shape and dtype are the caller's to know."""
    if left.numel() == 0:
        return True
    size = left.element_size()
    as_int = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(size)
    if as_int is None or left.is_complex():
        return torch.equal(torch.view_as_real(left), torch.view_as_real(right))
    return torch.equal(left.contiguous().view(as_int), right.contiguous().view(as_int))
