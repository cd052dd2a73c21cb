# L1/84 84_conv_depthwise_2D_asymmetric_input_square_kernel: 3.106x eager (2.878 to 3.346); 2.424x compile (2.303 to 2.582)
# Rules strict/5, precision ieee-grade, candidate bfaf9ca1a145c7071d348bc5b0656e5633d924ce38cba69b430215ade7c581c0
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-12-01T14:01:58+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/84 runs/L1-h200-h/winners/L1_84.py --source kernelbench/data

"""Depthwise convolution, direct."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import nn

SHAPE = {'stride': [1, 1], 'padding': [0, 0], 'dilation': [1, 1]}
PARAMS = {'block_h': 16, 'block_w': 256, 'num_warps': 4, 'rolling': True}


class DirectKernel:
    """A kernel whose launches, from the second with like arguments on, go straight to what was compiled for the first."""

    def __init__(self, kernel):
        self.kernel, self.compiled = kernel, {}
        self.given = 1 + max(n for n, parameter in enumerate(kernel.params) if not parameter.is_constexpr)  # constants alone from there on

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.launch((*grid, 1, 1)[:3], arguments, options)

    def launch(self, grid, arguments, options):
        """All arguments by position. Triton compiles for constants, types, integers and whether pointers are multiples of 16."""
        key = (torch.cuda.current_device(), arguments[self.given:], *options.values(), *[
            (x.dtype, x.data_ptr() % 16) if isinstance(x, torch.Tensor) else float if isinstance(x, float) else x for x in arguments[:self.given]
        ])
        compiled = self.compiled.get(key)
        if compiled is None:
            self.compiled[key] = self.kernel[grid](*arguments, **options)
        else:
            compiled[grid](*arguments)


def direct(kernel):
    """Direct launches for a compiled kernel; an interpreted one stays as it is."""
    return DirectKernel(kernel) if isinstance(kernel, triton.JITFunction) else kernel


@direct
@triton.jit
def depthwise_kernel(
    x, w, b, y, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr, BIAS: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr,
):
    """A tile of (height, width) of one output plane; neighbouring windows overlap in the L1 cache."""
    TILES_W: tl.constexpr = (OW + BLOCK_W - 1) // BLOCK_W
    TILES: tl.constexpr = TILES_W * ((OH + BLOCK_H - 1) // BLOCK_H)
    pid = tl.program_id(0)
    tile = pid % TILES
    plane = pid // TILES
    channel = plane % C
    i = tl.arange(0, BLOCK_H * BLOCK_W)
    oh = (tile // TILES_W) * BLOCK_H + i // BLOCK_W
    ow = (tile % TILES_W) * BLOCK_W + i % BLOCK_W
    at_h = tl.minimum(oh, OH - 1) * SH - PH
    column = tl.minimum(ow, OW - 1)  # not known to be a neighbour of the next: one a thread, loads of a warp stay together
    at_w = column * SW - PW
    source = x + plane.to(tl.int64) * (H * W)
    total = tl.zeros([BLOCK_H * BLOCK_W], tl.float32)
    for kh in tl.static_range(0, KH):
        h = at_h + kh * DH
        for kw in tl.static_range(0, KW):
            col = at_w + kw * DW
            places = source + h * W + col
            if PH == 0 and PW == 0:
                v = tl.load(places).to(tl.float32)
            else:
                v = tl.load(places, mask=(h >= 0) & (h < H) & (col >= 0) & (col < W), other=0.0).to(tl.float32)
            total += v * tl.load(w + channel * (KH * KW) + kh * KW + kw).to(tl.float32)
    if BIAS:
        total += tl.load(b + channel).to(tl.float32)
    target = y + plane.to(tl.int64) * (OH * OW) + oh * OW + column
    tl.store(target, total.to(y.dtype.element_ty), mask=(oh < OH) & (ow < OW))


@direct
@triton.jit
def rolling_kernel(
    x, w, b, y, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, SW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, DW: tl.constexpr,
    BIAS: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr,
):
    """BLOCK_H output rows from the top, BLOCK_W wide: sums[k] is the row that has had its first k + 1 input rows."""
    TILES_W: tl.constexpr = (OW + BLOCK_W - 1) // BLOCK_W
    TILES: tl.constexpr = TILES_W * ((OH + BLOCK_H - 1) // BLOCK_H)
    pid = tl.program_id(0)
    tile = pid % TILES
    plane = pid // TILES
    channel = plane % C
    top = (tile // TILES_W) * BLOCK_H
    ow = (tile % TILES_W) * BLOCK_W + tl.arange(0, BLOCK_W)
    # a column that is not known to be a neighbour of the next: one a thread, so that each load of a warp is one piece of a row
    column = tl.minimum(ow, OW - 1)
    at_w = column * SW - PW
    source = x + plane.to(tl.int64) * (H * W)
    target = y + plane.to(tl.int64) * (OH * OW)
    begin = tl.zeros([BLOCK_W], tl.float32)
    if BIAS:
        begin += tl.load(b + channel).to(tl.float32)
    taps = ()
    for i in tl.static_range(0, KH * KW):
        taps = taps + (tl.load(w + channel * (KH * KW) + i).to(tl.float32),)
    sums = ()
    for _ in tl.static_range(0, KH - 1):
        sums = sums + (begin,)
    for row in tl.static_range(0, BLOCK_H + KH - 1):
        h = top + (row - PH)
        values = ()
        for kw in tl.static_range(0, KW):
            col = at_w + kw * DW
            if PH == 0 and PW == 0:
                values = values + (tl.load(source + tl.minimum(h, H - 1) * W + col).to(tl.float32),)
            else:
                mask = (h >= 0) & (h < H) & (col >= 0) & (col < W)
                values = values + (tl.load(source + h * W + col, mask=mask, other=0.0).to(tl.float32),)
        kept = ()
        for kh in tl.static_range(0, KH):
            if kh == 0:
                total = begin
            else:
                total = sums[kh - 1]
            for kw in tl.static_range(0, KW):
                total += values[kw] * taps[kh * KW + kw]
            if kh < KH - 1:
                kept = kept + (total,)
            elif row >= KH - 1:
                oh = top + (row - (KH - 1))
                tl.store(target + oh * OW + column, total.to(y.dtype.element_ty), mask=(oh < OH) & (ow < OW))
        sums = kept


def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """F.conv2d(x, weight, bias, groups=C): `x` (N, C, H, W), `weight` (C, 1, kh, kw), `bias` (C,); computed in float32."""
    x, weight = x.contiguous(), weight.contiguous()
    n, c, h, w = x.shape
    kh, kw = weight.shape[2:]
    (sh, sw), (ph, pw), (dh, dw) = SHAPE["stride"], SHAPE["padding"], SHAPE["dilation"]
    oh = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    ow = (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    y = torch.empty(n, c, oh, ow, dtype=x.dtype, device=x.device)
    block_h = min(PARAMS["block_h"], 1 << (oh - 1).bit_length())
    block_w = min(PARAMS["block_w"], 1 << (ow - 1).bit_length())
    grid = (n * c * -(-oh // block_h) * -(-ow // block_w),)
    extra = weight if bias is None else bias.contiguous()
    if PARAMS["rolling"] and sh == 1 and dh == 1 and kh * kw <= 32:
        rolling_kernel[grid](
            x, weight, extra, y, c, h, w, oh, ow, kh, kw, sw, ph, pw, dw, bias is not None, block_h, block_w, num_warps=PARAMS["num_warps"]
        )
    else:
        depthwise_kernel[grid](
            x, weight, extra, y, c, h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw, bias is not None, block_h, block_w,
            num_warps=PARAMS["num_warps"],
        )
    return y


class ModelNew(nn.Module):
    """Depthwise convolution, direct."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int=1, padding: int=0, bias: bool=False):
        super(ModelNew, self).__init__()
        self.conv2d = nn.Conv2d(in_channels, out_channels, kernel_size=(kernel_size, kernel_size), stride=stride, padding=padding, groups=in_channels, bias=bias)

    def forward(self, x):
        return run(x, self.conv2d.weight)
