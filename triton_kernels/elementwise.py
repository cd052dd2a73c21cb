"""Elementwise chain over one to four broadcast inputs in one pass. Default problem: Swish, x * sigmoid(x)."""

from __future__ import annotations

import functools
import math

import torch
import triton
import triton.language as tl
from torch import nn

OP = "elementwise"
SHAPE = {"out_dtype": None}  # None: the inputs' promoted dtype; else a torch dtype's name, e.g. "bool"
PARAMS = {"block": 512, "num_warps": 4}
SPACE = {"block": [512, 1024, 2048, 4096, 8192, 16384], "num_warps": [2, 4, 8, 16]}


@triton.jit
def chain(x0):
    """The function of one element; arguments are float32 blocks, one for each input."""
    return x0 / (1.0 + tl.exp(-x0))


@triton.jit
def value(x, offsets, mask, INNER: tl.constexpr, SIZE: tl.constexpr):
    """Input `x` at linear `offsets` of the output. SIZE 0: same shape; -1: a scalar; else element (offset // INNER) % SIZE."""
    if SIZE == -1:
        return x
    elif SIZE == 0:
        return tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32)
    else:
        return tl.load(x + (offsets // INNER) % SIZE, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def elementwise_kernel(
    x0, x1, x2, x3, y,
    TOTAL: tl.constexpr, INPUTS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
    I0: tl.constexpr, S0: tl.constexpr, I1: tl.constexpr, S1: tl.constexpr,
    I2: tl.constexpr, S2: tl.constexpr, I3: tl.constexpr, S3: tl.constexpr,
):
    start = tl.program_id(0)
    if WIDE:
        start = start.to(tl.int64)
    offsets = start * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < TOTAL
    a = value(x0, offsets, mask, I0, S0)
    if INPUTS == 1:
        r = chain(a)
    elif INPUTS == 2:
        r = chain(a, value(x1, offsets, mask, I1, S1))
    elif INPUTS == 3:
        r = chain(a, value(x1, offsets, mask, I1, S1), value(x2, offsets, mask, I2, S2))
    else:
        r = chain(a, value(x1, offsets, mask, I1, S1), value(x2, offsets, mask, I2, S2), value(x3, offsets, mask, I3, S3))
    if y.dtype.element_ty == tl.int1:
        tl.store(y + offsets, r != 0.0, mask=mask)
    else:
        tl.store(y + offsets, r.to(y.dtype.element_ty), mask=mask)


def place(x: torch.Tensor | float, shape: torch.Size) -> tuple[torch.Tensor | float, int, int]:
    """(`x` ready to be read, INNER, SIZE) so that `value` finds `x` broadcast to `shape`; copies only where no formula fits."""
    if not isinstance(x, torch.Tensor):
        return float(x), 1, -1
    if x.shape == shape:
        return x.contiguous(), 1, 0
    sizes = [1] * (len(shape) - x.dim()) + list(x.shape)
    own = [i for i, size in enumerate(sizes) if size != 1]
    if not own:
        return x.contiguous(), 1, 1
    first, last = own[0], own[-1]
    if sizes[first : last + 1] != list(shape[first : last + 1]):
        return x.expand(shape).contiguous(), 1, 0
    return x.contiguous(), math.prod(shape[last + 1 :]), x.numel()


@functools.lru_cache
def common(shapes: tuple[torch.Size, ...], dtypes: tuple[torch.dtype, ...]) -> tuple[torch.Size, torch.dtype]:
    """The shape and the type that torch gives such tensors together; it takes longer to say so than small kernels run."""
    return torch.broadcast_shapes(*shapes), functools.reduce(torch.promote_types, dtypes)


def run(*inputs: torch.Tensor | float) -> torch.Tensor:
    """`chain` of 1 to 4 tensors or Python scalars, broadcast against each other as torch does.

    Computed in float32, stored in SHAPE["out_dtype"] or the tensors' promoted dtype (float32 if that is no floating type).
    """
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    shape, promoted = common(tuple([x.shape for x in tensors]), tuple([x.dtype for x in tensors]))
    dtype = getattr(torch, SHAPE["out_dtype"]) if SHAPE["out_dtype"] else promoted if promoted.is_floating_point else torch.float32
    y = torch.empty(shape, dtype=dtype, device=tensors[0].device)
    total = y.numel()
    if total == 0:
        return y
    placed = [place(x, shape) for x in inputs]
    placed += [(y, 1, 0)] * (4 - len(placed))  # unused arguments
    block = min(PARAMS["block"], 1 << (total - 1).bit_length())
    elementwise_kernel[(-(-total // block),)](
        *[x for x, _, _ in placed], y,
        total, len(inputs), total > 2**31 - 2 * block, block,
        *[number for _, inner, size in placed for number in (inner, size)],
        num_warps=PARAMS["num_warps"],
    )
    return y


class ModelNew(nn.Module):
    """x * sigmoid(x) of one tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape and dtype as `x`."""
        return run(x)
