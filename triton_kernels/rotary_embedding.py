"""Rotary position embedding of (B, H, S, D). Default problem: x * cos + rotate_half(x) * sin."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import nn

OP = "rotary_embedding"
SHAPE = {"style": "half"}  # half: element i turns with i + D/2; interleaved: 2i with 2i + 1
PARAMS = {"block_s": 16, "num_warps": 4}
SPACE = {"block_s": [1, 2, 4, 8, 16, 32, 64], "num_warps": [1, 2, 4, 8]}


@triton.jit
def rotary_kernel(
    x, cos, sin, y, S: tl.constexpr, HALF: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, APART: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):
    """BLOCK_S positions of one head; cos and sin are (S, WIDTH), WIDTH the half or the whole of D."""
    TILES: tl.constexpr = (S + BLOCK_S - 1) // BLOCK_S
    s = (tl.program_id(0) % TILES) * BLOCK_S + tl.arange(0, BLOCK_S)
    head = tl.program_id(0) // TILES
    i = tl.arange(0, BLOCK_D)
    mask = (s < S)[:, None] & (i < HALF)[None, :]
    base = head.to(tl.int64) * (S * 2 * HALF) if WIDE else head * (S * 2 * HALF)
    first = base + s[:, None] * (2 * HALF) + i[None, :] * STEP
    a = tl.load(x + first, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x + first + APART, mask=mask, other=0.0).to(tl.float32)
    angle = s[:, None] * WIDTH + (i[None, :] if WIDTH == HALF else i[None, :] * STEP)
    cos_a = tl.load(cos + angle, mask=mask, other=0.0).to(tl.float32)
    sin_a = tl.load(sin + angle, mask=mask, other=0.0).to(tl.float32)
    if WIDTH == HALF:
        cos_b = cos_a
        sin_b = sin_a
    else:
        cos_b = tl.load(cos + angle + APART, mask=mask, other=0.0).to(tl.float32)
        sin_b = tl.load(sin + angle + APART, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + first, (a * cos_a - b * sin_a).to(y.dtype.element_ty), mask=mask)
    tl.store(y + first + APART, (b * cos_b + a * sin_b).to(y.dtype.element_ty), mask=mask)


def run(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate pairs of `x` (..., S, D) by the angles of `cos` and `sin` (S, D) or (S, D/2), leading 1s allowed; as x, in float32."""
    x, cos, sin = x.contiguous(), cos.contiguous(), sin.contiguous()
    s, d = x.shape[-2:]
    half = d // 2
    step, apart = (1, half) if SHAPE["style"] == "half" else (2, 1)
    y = torch.empty_like(x)
    block_s = min(PARAMS["block_s"], 1 << (s - 1).bit_length())
    rotary_kernel[(-(-s // block_s) * (x.numel() // (s * d)),)](
        x, cos, sin, y, s, half, cos.shape[-1], step, apart, x.numel() > 2**31 - 2**20, block_s, 1 << (half - 1).bit_length(),
        num_warps=PARAMS["num_warps"],
    )
    return y


class ModelNew(nn.Module):
    """x * cos + rotate_half(x) * sin."""

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Same shape and dtype as `x`."""
        return run(x, cos, sin)
