"""Errors slice by slice: for outputs whose parts differ so much in size that the error of one part hides another."""

from __future__ import annotations

import torch
from torch import Tensor

FEWEST = 64  # elements a slice must have, that its largest error says something of the errors there
ALLOWANCE = 2.0  # the largest of a few errors varies more than the largest of all


def by_slice(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """For each element the least of its slices' largest values, times ALLOWANCE; flat, as `values` (non-negative, of that shape).

    A slice is all elements that share one index. Dimensions whose slices are too small do not count; if none counts, the largest
    value of all stands everywhere.
    """
    whole = values.reshape(shape)
    least = whole.max().expand(shape)
    for dim, size in enumerate(shape):
        others = [d for d in range(len(shape)) if d != dim]
        if size > 1 and whole.numel() // size >= FEWEST:
            least = torch.minimum(least, whole.amax(dim=others, keepdim=True))
    return least.mul(ALLOWANCE).reshape(-1)
