"""Max and average pooling in 1, 2 or 3 dimensions. Default problem: nn.MaxPool2d(4, stride=1, padding=1)."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import nn

OP = "pooling"
SHAPE = {
    "kind": "max", "kernel": [4, 4], "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "ceil_mode": False, "count_include_pad": True,
}
PARAMS = {"block_h": 8, "block_w": 128, "num_warps": 4}
SPACE = {"block_h": [1, 2, 4, 8, 16, 32], "block_w": [32, 64, 128, 256, 512, 1024], "num_warps": [2, 4, 8]}


@triton.jit
def covered(o, SIZE: tl.constexpr, KERNEL: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr, WITH_PAD: tl.constexpr):
    """How many places of output o's window count along one dimension (dilation 1): in the input, or in input and padding."""
    begin = o * STRIDE - PAD
    if WITH_PAD:
        return tl.minimum(begin + KERNEL, SIZE + PAD) - begin
    else:
        return tl.minimum(begin + KERNEL, SIZE) - tl.maximum(begin, 0)


@triton.jit
def pooling_kernel(
    x, y, D: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OD: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    MAX: tl.constexpr, INSIDE: tl.constexpr, WITH_PAD: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr,
):
    """A tile of (height, width) of one output plane. INSIDE: no window leaves the input, so loads need no mask."""
    TILES_W: tl.constexpr = (OW + BLOCK_W - 1) // BLOCK_W
    TILES: tl.constexpr = TILES_W * ((OH + BLOCK_H - 1) // BLOCK_H)
    pid = tl.program_id(0)
    tile = pid % TILES
    plane = pid // TILES
    image = (plane // OD).to(tl.int64)
    od = plane % OD
    oh = (tile // TILES_W) * BLOCK_H + tl.arange(0, BLOCK_H)
    ow = (tile % TILES_W) * BLOCK_W + tl.arange(0, BLOCK_W)
    at_h = tl.minimum(oh, OH - 1) * SH - PH
    at_w = tl.minimum(ow, OW - 1) * SW - PW
    source = x + image * (D * H * W)
    best = tl.full([BLOCK_H, BLOCK_W], float("-inf") if MAX else 0.0, tl.float32)
    for kd in range(0, KD):
        d = od * SD - PD + kd * DD
        for kh in range(0, KH):
            h = at_h + kh * DH
            for kw in tl.static_range(0, KW):
                w = at_w + kw * DW
                places = source + d * (H * W) + h[:, None] * W + w[None, :]
                if INSIDE:
                    v = tl.load(places).to(tl.float32)
                else:
                    mask = ((d >= 0) & (d < D)) & ((h >= 0) & (h < H))[:, None] & ((w >= 0) & (w < W))[None, :]
                    v = tl.load(places, mask=mask, other=float("-inf") if MAX else 0.0).to(tl.float32)
                best = tl.maximum(best, v, propagate_nan=tl.PropagateNan.ALL) if MAX else best + v
    if not MAX:
        if INSIDE:
            best = best / (KD * KH * KW)
        else:
            rows = covered(oh, H, KH, SH, PH, WITH_PAD)
            columns = covered(ow, W, KW, SW, PW, WITH_PAD)
            best = best / (covered(od, D, KD, SD, PD, WITH_PAD) * rows[:, None] * columns[None, :]).to(tl.float32)
    target = y + (image * OD + od) * (OH * OW) + oh[:, None] * OW + ow[None, :]
    tl.store(target, best.to(y.dtype.element_ty), mask=(oh < OH)[:, None] & (ow < OW)[None, :])


def pooled(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Output size along one dimension, by torch's rule: in ceil mode the last window must begin inside the input or its left padding."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if not SHAPE["ceil_mode"]:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count


def run(x: torch.Tensor) -> torch.Tensor:
    """Pool `x` (N, C, ...) over as many trailing dimensions as SHAPE["kernel"] has; (N, C, pooled...), computed in float32."""
    x = x.contiguous()
    dims = len(SHAPE["kernel"])
    kernel, stride = [1] * (3 - dims) + SHAPE["kernel"], [1] * (3 - dims) + SHAPE["stride"]
    padding, dilation = [0] * (3 - dims) + SHAPE["padding"], [1] * (3 - dims) + SHAPE["dilation"]
    sizes = [1] * (3 - dims) + list(x.shape[-dims:])
    out = [pooled(*each) for each in zip(sizes, kernel, stride, padding, dilation, strict=True)]
    y = torch.empty(*x.shape[:-dims], *out[3 - dims :], dtype=x.dtype, device=x.device)
    inside = not any(padding) and not SHAPE["ceil_mode"]
    block_h = min(PARAMS["block_h"], triton.next_power_of_2(out[1]))
    block_w = min(PARAMS["block_w"] * (PARAMS["block_h"] // block_h), triton.next_power_of_2(out[2]))
    images = math.prod(x.shape[:-dims])
    pooling_kernel[(images * out[0] * triton.cdiv(out[1], block_h) * triton.cdiv(out[2], block_w),)](
        x, y, *sizes, *out, *kernel, *stride, *padding, *dilation,
        SHAPE["kind"] == "max", inside, SHAPE["count_include_pad"], block_h, block_w, num_warps=PARAMS["num_warps"],
    )
    return y


class ModelNew(nn.Module):
    """nn.MaxPool2d."""

    def __init__(self, kernel_size: int = 4, stride: int = 1, padding: int = 1, dilation: int = 1) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, C, pooled height, pooled width)."""
        return run(x)
