"""Max and average pooling in 1, 2 or 3 dimensions. Default problem: nn.MaxPool2d(4, stride=1, padding=1).

Windows are pooled along depth and height first, by loads of whole aligned rows, and along the width after that, from a smaller tensor:
far fewer loads than one for each place of each window. Windows along the width that do not overlap are read in one pass, a window's
places side by side, so that rows are read from end to end.
"""

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
PARAMS = {"block_h": 8, "block_w": 128, "num_warps": 4, "way": "best"}
SPACE = {
    "block_h": [1, 2, 4, 8, 16, 32], "block_w": [32, 64, 128, 256, 512, 1024], "num_warps": [2, 4, 8],
    "way": ["best", "direct", "two passes", "side by side"],
}  # best: chosen by the shape


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


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
    CEIL: tl.constexpr, MAX: tl.constexpr, WITH_PAD: tl.constexpr, TAPS: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr,
):
    """A tile of (height, width) of one output plane. TAPS > 1: BLOCK_H is 1 and a window's KW places lie along a second axis of TAPS."""
    TILES_W: tl.constexpr = (OW + BLOCK_W - 1) // BLOCK_W
    TILES: tl.constexpr = TILES_W * ((OH + BLOCK_H - 1) // BLOCK_H)
    pid = tl.program_id(0)
    tile = pid % TILES
    plane = pid // TILES
    image = (plane // OD).to(tl.int64)
    od = plane % OD
    i = tl.arange(0, BLOCK_H * BLOCK_W)
    oh = (tile // TILES_W) * BLOCK_H + i // BLOCK_W
    ow = (tile % TILES_W) * BLOCK_W + i % BLOCK_W
    whole: tl.constexpr = KW == 1 and SW == 1 and PW == 0  # rows as they are: neighbouring columns, for wide loads and stores
    # else a column is not known to be a neighbour of the next: one a thread, so that each load of a warp is one piece of a row
    column = ow if whole else tl.minimum(ow, OW - 1)
    edges: tl.constexpr = PD > 0 or PH > 0 or CEIL
    nothing = float("-inf") if MAX else 0.0
    source = x + image * (D * H * W)
    if TAPS > 1:
        tap = tl.arange(0, TAPS)
        w = ow[:, None] * SW - PW + tap[None, :] * DW
        within = (ow < OW)[:, None] & (tap < KW)[None, :]
        if PW > 0 or CEIL:
            within = within & (w >= 0) & (w < W)
        best = tl.full([BLOCK_W, TAPS], nothing, tl.float32)
        for kd in range(0, KD):
            d = od * SD - PD + kd * DD
            for kh in tl.static_range(0, KH):
                h = (tile // TILES_W) * SH - PH + kh * DH
                mask = within & ((d >= 0) & (d < D) & (h >= 0) & (h < H)) if edges else within
                v = tl.load(source + d * (H * W) + h * W + w, mask=mask, other=nothing).to(tl.float32)
                best = larger(best, v) if MAX else best + v
        best = tl.reduce(best, 1, larger) if MAX else tl.sum(best, 1)
    else:
        at_h = tl.minimum(oh, OH - 1) * SH - PH
        at_w = column * SW - PW
        best = tl.full([BLOCK_H * BLOCK_W], nothing, tl.float32)
        for kd in range(0, KD):
            d = od * SD - PD + kd * DD
            for kh in tl.static_range(0, KH):
                h = at_h + kh * DH
                rows = (h >= 0) & (h < H) & ((d >= 0) & (d < D))
                for kw in tl.static_range(0, KW):
                    w = at_w + kw * DW
                    places = source + d * (H * W) + h * W + w
                    if PW > 0 or CEIL or (whole and OW % BLOCK_W != 0):
                        mask = (w >= 0) & (w < W) & rows if edges else (w >= 0) & (w < W)
                        v = tl.load(places, mask=mask, other=nothing).to(tl.float32)
                    elif edges:
                        v = tl.load(places, mask=rows, other=nothing).to(tl.float32)
                    else:
                        v = tl.load(places).to(tl.float32)
                    best = larger(best, v) if MAX else best + v
    if not MAX and PW == 0 and not edges:
        best = best / (KD * KH * KW)
    elif not MAX:
        count = covered(od, D, KD, SD, PD, WITH_PAD) * covered(oh, H, KH, SH, PH, WITH_PAD) * covered(ow, W, KW, SW, PW, WITH_PAD)
        best = best / tl.maximum(count, 1).to(tl.float32)  # beyond the last output the count may be anything
    target = y + (image * OD + od) * (OH * OW) + oh * OW + column
    tl.store(target, best.to(y.dtype.element_ty), mask=(oh < OH) & (ow < OW))


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
    ones, zeros = [1] * (3 - dims), [0] * (3 - dims)
    windows = list(zip(ones + SHAPE["kernel"], ones + SHAPE["stride"], zeros + SHAPE["padding"], ones + SHAPE["dilation"], strict=True))
    sizes = ones + list(x.shape[-dims:])
    out = [pooled(size, *window) for size, window in zip(sizes, windows, strict=True)]
    y = torch.empty(*x.shape[:-dims], *out[3 - dims :], dtype=x.dtype, device=x.device)
    images = math.prod(x.shape[:-dims])
    width, step, _, apart = windows[2]
    way = PARAMS["way"]
    if way == "best":
        outer = windows[0][0] * windows[1][0]
        way = "side by side" if step >= width * apart and width > 2 else "two passes" if outer > 1 and width > 1 else "direct"
    if way != "two passes":
        taps = 1 << (width - 1).bit_length() if way == "side by side" and width > 1 else 1
        pool(x, y, images, sizes, out, windows, taps)
        return y
    tall = [out[0], out[1], sizes[2]]
    # sums are kept in float32 between the passes; a maximum needs no more than its own type
    middle = torch.empty(images, *tall, dtype=x.dtype if SHAPE["kind"] == "max" else torch.float32, device=x.device)
    pool(x, middle, images, sizes, tall, [*windows[:2], (1, 1, 0, 1)], 1)
    pool(middle, y, images, [1, out[0] * out[1], sizes[2]], [1, out[0] * out[1], out[2]], [(1, 1, 0, 1)] * 2 + windows[2:], 1)
    return y


def pool(x: torch.Tensor, y: torch.Tensor, images: int, sizes: list[int], out: list[int], windows: list[tuple[int, ...]], taps: int) -> None:
    """One pass over `x` (images, depth, height, width): `sizes` to `out` by three windows of (kernel, stride, padding, dilation)."""
    if taps > 1:
        block_h, block_w = 1, max(1, PARAMS["block_h"] * PARAMS["block_w"] // taps)
    else:
        block_h = min(PARAMS["block_h"], 1 << (out[1] - 1).bit_length())
        block_w = PARAMS["block_w"] * (PARAMS["block_h"] // block_h)
    block_w = min(block_w, 1 << (out[2] - 1).bit_length())
    pooling_kernel[(images * out[0] * -(-out[1] // block_h) * -(-out[2] // block_w),)](
        x, y, *sizes, *out, *[window[fact] for fact in range(4) for window in windows],
        SHAPE["ceil_mode"], SHAPE["kind"] == "max", SHAPE["count_include_pad"], taps, block_h, block_w, num_warps=PARAMS["num_warps"],
    )


class ModelNew(nn.Module):
    """nn.MaxPool2d."""

    def __init__(self, kernel_size: int = 4, stride: int = 1, padding: int = 1, dilation: int = 1) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, C, pooled height, pooled width)."""
        return run(x)
