# L1/88 88_MinGPTNewGelu: 6.672x eager (5.001 to 9.33); 1.028x compile (0.9684 to 1.12)
# Rules strict/2, precision ieee-grade, candidate 7ee9b975449475cb89324af2774ef53a483e6925954ecbd70690bac487327bc2
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-11-30T06:01:51+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/88 runs/L1-h200-b/winners/L1_88.py --source kernelbench/data

"""Elementwise chain in one pass."""

from __future__ import annotations

import functools
import math
import torch
import triton
import triton.language as tl
from torch import nn

SHAPE = {'out_dtype': None}
PARAMS = {'block': 4096, 'num_warps': 8}


@triton.jit
def expm1(x):
    """exp(x) - 1; a polynomial near 0, where the subtraction would lose digits."""
    q = 0.00019914547738153487
    q = q * x + 0.0013941259821876884
    q = q * x + 0.00833327230066061
    q = q * x + 0.04166635125875473
    q = q * x + 0.1666666716337204
    q = q * x + 0.5
    return tl.where(tl.abs(x) < 0.34, x + x * x * q, tl.exp(x) - 1.0)


@triton.jit
def tanh(x):
    """tanh by expm1(2|x|), so that small x keep their digits."""
    a = tl.abs(x)
    t = expm1(2.0 * tl.where(a > 10.0, 10.0, a))
    r = t / (t + 2.0)
    return tl.where(x < 0.0, -r, r)


@triton.jit
def chain(x0):
    t2 = x0 * 0.5
    t3 = x0 * x0
    t4 = t3 * x0
    t6 = t4 * 0.044715
    t7 = x0 + t6
    t9 = t7 * 0.7978845608028654
    t10 = tanh(t9)
    t12 = t10 + 1.0
    t13 = t2 * t12
    return t13


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


def run(*inputs: torch.Tensor | float) -> torch.Tensor:
    """`chain` of 1 to 4 tensors or Python scalars, broadcast against each other as torch does.

    Computed in float32, stored in SHAPE["out_dtype"] or the tensors' promoted dtype (float32 if that is no floating type).
    """
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    shape = torch.broadcast_shapes(*[x.shape for x in tensors])
    promoted = functools.reduce(torch.promote_types, [x.dtype for x in tensors])
    dtype = getattr(torch, SHAPE["out_dtype"]) if SHAPE["out_dtype"] else promoted if promoted.is_floating_point else torch.float32
    y = torch.empty(shape, dtype=dtype, device=tensors[0].device)
    total = y.numel()
    if total == 0:
        return y
    placed = [place(x, shape) for x in inputs]
    placed += [(y, 1, 0)] * (4 - len(placed))  # unused arguments
    block = min(PARAMS["block"], triton.next_power_of_2(total))
    elementwise_kernel[(triton.cdiv(total, block),)](
        *[x for x, _, _ in placed], y,
        total, len(inputs), total > 2**31 - 2 * block, block,
        *[number for _, inner, size in placed for number in (inner, size)],
        num_warps=PARAMS["num_warps"],
    )
    return y


class ModelNew(nn.Module):
    """Elementwise chain in one pass."""

    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x):
        return run(x)
