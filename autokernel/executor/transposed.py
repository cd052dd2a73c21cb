"""Transposed convolutions in float64, as products: the library's own take up to 15 times as long there on a GPU.

On an H200, ConvTranspose3d of 16 x 32 x 64 x 64 x 64 by 3 x 5 x 5 to 64 channels: 2.8 s by cuDNN, 0.25 s so.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

KINDS = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


class ByProducts(TorchDispatchMode):
    """Inside, transposed convolutions are computed by `by_products`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Every operation as it is, but for those."""
        if func is torch.ops.aten.convolution.default and args[6]:
            x, weight, bias, stride, padding, dilation, _, output_padding, groups = args
            return by_products(x, weight, bias, stride, padding, dilation, output_padding, groups)
        return func(*args, **kwargs or {})


def has_any(model: nn.Module) -> bool:
    """Whether the model has a module that is a transposed convolution."""
    return any(isinstance(module, KINDS) for module in model.modules())


def by_products(x: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
                output_padding: list[int], groups: int) -> Tensor:
    """For each place of the kernel one product over the channels, added where that place's outputs lie.

    `x` (N, C, *size), `weight` (C, D / groups, *kernel); the result (N, D, *output), in the dtype of `x`.
    """
    n, size, kernel = x.shape[0], x.shape[2:], weight.shape[2:]
    inner, outer = weight.shape[0] // groups, weight.shape[1]
    whole = [s * (i - 1) + d * (k - 1) + 1 + extra
             for s, i, d, k, extra in zip(stride, size, dilation, kernel, output_padding, strict=True)]
    made = x.new_zeros(n, groups * outer, *whole)
    flat = x.reshape(n, groups, inner, -1)
    taps = weight.reshape(groups, inner, outer, *kernel).movedim((0, 2, 1), (-3, -2, -1)).contiguous()  # *kernel, then D by C of each group
    for place in itertools.product(*map(range, kernel)):
        part = torch.matmul(taps[place], flat).reshape(n, groups * outer, *size)
        first = [p * d for p, d in zip(place, dilation, strict=True)]
        made[_box(first, [f + s * (i - 1) + 1 for f, s, i in zip(first, stride, size, strict=True)], stride)] += part
    made = made[_box(padding, [w - p for w, p in zip(whole, padding, strict=True)], [1] * len(size))]
    return made.contiguous() if bias is None else made + bias.reshape(-1, *[1] * len(size))


def _box(first: Sequence[int], end: Sequence[int], step: Sequence[int]) -> tuple[slice, ...]:
    """Index of a box in space, over all images and channels."""
    return (slice(None), slice(None), *map(slice, first, end, step))
