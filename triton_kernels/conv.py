"""Convolution in 1, 2 or 3 dimensions, transposed or not, grouped, as implicit GEMM with what follows it. Default problem: 3 x 3, 2D.

A tile is block_m pixels of the output by block_n channels; the sum runs over the filter's taps and the input's channels. Transposed
convolution gathers: outputs whose places agree modulo the stride meet the same taps, and a tile holds such outputs only. `rows` "whole"
lets it hold outputs side by side along the last dimension instead, each with the taps that it meets: more is multiplied, by zeros, and
what is written lies together. Pooling windows that do not overlap are walked place by place, so that only pooled pixels are written.

float32 is multiplied as TF32 ("tf32", as cuDNN does by default; rounded to nearest first, since the tensor cores would cut off, which
adds up), as three TF32 or bfloat16 products ("tf32x3", "bf16x3", about
float32's own error where sums are long; "bf16x6" where they are short), or in plain float32 ("ieee"). `layout` "channels last" copies
the input so that neighbours in memory are neighbouring channels, which tensor cores read without turning them.
"""

import functools
import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import nn

OP = "conv"
SHAPE = {
    "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "output_padding": [0, 0], "transposed": False, "groups": 1,
    "pool": None, "kind": None, "across": False, "channels": None,
}  # pool: window of kind "max" or "avg"; across: a formula reduces over channels, so a tile holds them all; channels: what is left of them
PARAMS = {"block_m": 128, "block_n": 64, "block_k": 32, "num_warps": 4, "num_stages": 3, "precision": "tf32", "layout": "as it is",
          "rows": "by stride"}
SPACE = {
    "block_m": [32, 64, 128, 256], "block_n": [16, 32, 64, 128, 256], "block_k": [16, 32, 64], "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4, 5], "precision": ["tf32", "bf16x3", "tf32x3", "bf16x6", "ieee"], "layout": ["as it is", "channels last"],
    "rows": ["by stride", "whole"],
}


@triton.jit
def chain(x0, x1, x2, x3, inside):
    """Applied to the tile (channels, pixels), bias included, with up to three more tensors; `inside` says which channels are there."""
    return x0


@triton.jit
def finish(x0, x1, x2, x3, inside):
    """Applied to the pooled tile."""
    return x0


@triton.jit
def rounded(v):
    """float32 rounded to TF32's ten bits of fraction."""
    return ((v.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def turn_kernel(x, y, C: tl.constexpr, SPOTS: tl.constexpr, ROUND: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_S: tl.constexpr):
    """(samples, C, SPOTS) to (samples, SPOTS, C), a tile of one sample."""
    TILES_C: tl.constexpr = (C + BLOCK_C - 1) // BLOCK_C
    TILES_S: tl.constexpr = (SPOTS + BLOCK_S - 1) // BLOCK_S
    pid = tl.program_id(0)
    c = (pid % TILES_C) * BLOCK_C + tl.arange(0, BLOCK_C)
    s = (pid // TILES_C % TILES_S) * BLOCK_S + tl.arange(0, BLOCK_S)
    sample = (pid // (TILES_C * TILES_S)).to(tl.int64) * (C * SPOTS)
    mask = (c < C)[:, None] & (s < SPOTS)[None, :]
    v = tl.load(x + sample + c[:, None] * SPOTS + s[None, :], mask=mask, other=0.0)
    if ROUND:
        v = rounded(v)
    tl.store(y + sample + s[:, None] * C + c[None, :], tl.trans(v), mask=tl.trans(mask))


@triton.jit
def greatest(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def begin(r, K: tl.constexpr, S: tl.constexpr, P: tl.constexpr, D: tl.constexpr, G: tl.constexpr, INVERSE: tl.constexpr, T: tl.constexpr):
    """One dimension, for outputs r, r + step, ...: where the first one's first tap reads, that tap's number, and how many taps there are.

    Transposed (T): output o meets tap k at input (o + P - k D) / S where that is whole, which is so for every S // G-th tap, or for none
    (G is the greatest common divisor of S and D, INVERSE that of D / G modulo S / G).
    """
    if T:
        rest = (r + P) % S
        first = (rest // G * INVERSE) % (S // G)
        taps = (K - first + S // G - 1) // (S // G)
        return (r + P - first * D) // S, first, tl.where(rest % G == 0, taps, 0)
    else:
        return r * S - P, 0, K


@triton.jit
def extra(e, n, c, at, channels, inside, SN: tl.constexpr, SC: tl.constexpr, SP: tl.constexpr):
    """One more tensor at (sample, channel, pixel), in float32, by its strides. SN -1: a number; -2: none; SP -1: pixels lie side by side."""
    if SN == -2:
        return 0.0
    elif SN == -1:
        return e
    elif SN == 0 and SC == 0 and SP == 0:
        return tl.load(e).to(tl.float32)
    elif SN == 0 and SP == 0:
        return tl.load(e + c * SC, mask=channels, other=0.0).to(tl.float32)
    else:
        return tl.load(e + n * SN + c * SC + at * SP, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def conv_kernel(
    x, w, b, e1, e2, e3, y,
    N: tl.constexpr, C: tl.constexpr, OC: tl.constexpr, GROUPS: tl.constexpr, CHANNELS: tl.constexpr,
    D: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OD: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    XN: tl.constexpr, XC: tl.constexpr, XD: tl.constexpr, XH: tl.constexpr, XW: tl.constexpr,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    GD: tl.constexpr, GH: tl.constexpr, GW: tl.constexpr, ID: tl.constexpr, IH: tl.constexpr, IW: tl.constexpr,
    LD: tl.constexpr, LH: tl.constexpr, LW: tl.constexpr, POOL: tl.constexpr, TRANSPOSED: tl.constexpr, EDGES: tl.constexpr, WHOLE: tl.constexpr,
    N1: tl.constexpr, C1: tl.constexpr, P1: tl.constexpr, N2: tl.constexpr, C2: tl.constexpr, P2: tl.constexpr,
    N3: tl.constexpr, C3: tl.constexpr, P3: tl.constexpr,
    BIAS: tl.constexpr, PRECISION: tl.constexpr, LAST: tl.constexpr, FLAT: tl.constexpr, WIDE: tl.constexpr, ROUND: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One tile. Outputs lie on lattices of steps (LD, LH, LW): a tile belongs to one of them, or pools over all of them (POOL).

    `w` is (GROUPS * OC, taps, C). WHOLE (transposed, LW 1): outputs along the last dimension each mask the taps that they do not meet. FLAT: taps and channels are one axis, cut anywhere; else a step of the sum stays within a tap.
    """
    LATTICES: tl.constexpr = LD * LH * LW
    QD: tl.constexpr = OD // LD if POOL is not None else (OD + LD - 1) // LD
    QH: tl.constexpr = OH // LH if POOL is not None else (OH + LH - 1) // LH
    QW: tl.constexpr = OW // LW if POOL is not None else (OW + LW - 1) // LW
    TILES_N: tl.constexpr = (OC + BLOCK_N - 1) // BLOCK_N
    KSD: tl.constexpr = SD // GD if TRANSPOSED else 1  # from one tap that is met to the next
    KSH: tl.constexpr = SH // GH if TRANSPOSED else 1
    KSW: tl.constexpr = SW // GW if TRANSPOSED and not WHOLE else 1
    JD: tl.constexpr = -(DD // GD) if TRANSPOSED else DD  # what that moves in the input
    JH: tl.constexpr = -(DH // GH) if TRANSPOSED else DH
    JW: tl.constexpr = -DW if WHOLE else -(DW // GW) if TRANSPOSED else DW
    pid = tl.program_id(0)
    if POOL is None:
        lattice = pid % LATTICES
        pid = pid // LATTICES
        last = lattice + 1
    else:
        lattice = 0
        last = LATTICES
    part = pid % (TILES_N * GROUPS)
    group = part // TILES_N
    m = (pid // (TILES_N * GROUPS)) * BLOCK_M + tl.arange(0, BLOCK_M)
    qw = m % QW
    qh = (m // QW) % QH
    qd = (m // (QW * QH)) % QD
    sample = m // (QW * QH * QD)
    pixels = m < N * QD * QH * QW
    c_out = (part % TILES_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    channels = c_out < OC
    wide = sample.to(tl.int64) if WIDE else sample
    source = x + wide * XN + group * (C * XC)
    rows = w + (group * OC + c_out) * (KD * KH * KW * C)
    rk = tl.arange(0, BLOCK_K)
    c_all = (group * OC + c_out)[:, None]
    at = tl.zeros([1, BLOCK_M], tl.int32)
    LEFT: tl.constexpr = 1 if CHANNELS == 1 and POOL is None else BLOCK_N
    best = tl.full([LEFT, BLOCK_M], float("-inf") if POOL == "max" else 0.0, tl.float32)
    for place in range(lattice, last):
        rd = place // (LH * LW)
        rh = (place // LW) % LH
        rw = place % LW
        bd, fd, nd = begin(rd, KD, SD, PD, DD, GD, ID, TRANSPOSED)
        bh, fh, nh = begin(rh, KH, SH, PH, DH, GH, IH, TRANSPOSED)
        bw, fw, nw = begin(rw, KW, 1 if WHOLE else SW, -PW if WHOLE else PW, DW, GW, IW, TRANSPOSED and not WHOLE)
        at_d = bd + qd * (LD // SD if TRANSPOSED else LD * SD)
        at_h = bh + qh * (LH // SH if TRANSPOSED else LH * SH)
        at_w = bw + qw * (1 if WHOLE else LW // SW if TRANSPOSED else LW * SW)
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        STEPS: tl.constexpr = (C + BLOCK_K - 1) // BLOCK_K
        if FLAT:
            total = (KD * KH * KW * C + BLOCK_K - 1) // BLOCK_K
        else:
            total = nd * nh * nw * STEPS
        for step in range(0, total):
            if FLAT:  # (tap, channel) from one number; a filter's taps are all met
                k = step * BLOCK_K + rk
                tap = k // C
                c = k % C
                jw = tap % KW
                jh = (tap // KW) % KH
                jd = tap // (KW * KH)
                number = k
                more = k < KD * KH * KW * C
            else:
                tap = step // STEPS
                c = (step % STEPS) * BLOCK_K + rk
                jw = tap % nw
                jh = (tap // nw) % nh
                jd = tap // (nw * nh)
                number = (((fd + jd * KSD) * KH + fh + jh * KSH) * KW + fw + jw * KSW) * C + c
                more = c < C
            # neighbours are channels (LAST): pixels down, channels across; else the other way round, so that threads walk along rows
            d = (at_d[:, None] if LAST else at_d[None, :]) + (jd if not FLAT else jd[None, :] if LAST else jd[:, None]) * JD
            h = (at_h[:, None] if LAST else at_h[None, :]) + (jh if not FLAT else jh[None, :] if LAST else jh[:, None]) * JH
            v = (at_w[:, None] if LAST else at_w[None, :]) + (jw if not FLAT else jw[None, :] if LAST else jw[:, None]) * JW
            mask = pixels[:, None] & more[None, :] if LAST else pixels[None, :] & more[:, None]
            if WHOLE:
                mask = mask & (v % SW == 0)
                v = v // SW
            if EDGES:
                mask = mask & ((d >= 0) & (d < D) & (h >= 0) & (h < H) & (v >= 0) & (v < W))
            places = (source[:, None] if LAST else source[None, :]) + (d * XD + h * XH + v * XW) + (c[None, :] if LAST else c[:, None]) * XC
            left = tl.load(places, mask=mask, other=0.0)
            if not LAST:
                left = tl.trans(left)
            if ROUND:
                left = rounded(left)
            right = tl.load(rows[None, :] + number[:, None], mask=more[:, None] & channels[None, :], other=0.0)
            acc = tl.dot(left, right, acc, input_precision=PRECISION)
        tile = tl.trans(acc)
        if BIAS:
            tile += tl.load(b + group * OC + c_out, mask=channels, other=0.0).to(tl.float32)[:, None]
        if POOL is None:
            od = qd * LD + rd
            oh = qh * LH + rh
            ow = qw * LW + rw
            pixels = pixels & (od < OD) & (oh < OH) & (ow < OW)
        else:
            od = qd
            oh = qh
            ow = qw
        at = ((od * (QH if POOL is not None else OH) + oh) * (QW if POOL is not None else OW) + ow)[None, :]
        inside = channels[:, None] & pixels[None, :]
        x1 = extra(e1, wide[None, :], c_all, at, channels[:, None], inside, N1, C1, P1)
        x2 = extra(e2, wide[None, :], c_all, at, channels[:, None], inside, N2, C2, P2)
        x3 = extra(e3, wide[None, :], c_all, at, channels[:, None], inside, N3, C3, P3)
        tile = chain(tile, x1, x2, x3, channels[:, None])
        if POOL == "max":
            best = greatest(best, tile)
        elif POOL == "avg":
            best += tile * (1.0 / LATTICES)
        else:
            best = tile
    if POOL is not None:
        within = channels[:, None] & pixels[None, :]
        y1 = extra(e1, wide[None, :], c_all, at, channels[:, None], within, N1, C1, P1)
        y2 = extra(e2, wide[None, :], c_all, at, channels[:, None], within, N2, C2, P2)
        y3 = extra(e3, wide[None, :], c_all, at, channels[:, None], within, N3, C3, P3)
        best = finish(best, y1, y2, y3, channels[:, None])
    SPOTS: tl.constexpr = QD * QH * QW if POOL is not None else OD * OH * OW
    if CHANNELS == 1:
        tl.store(y + wide[None, :] * SPOTS + at, best.to(y.dtype.element_ty), mask=pixels[None, :])
    else:
        places = y + wide[None, :] * (GROUPS * OC * SPOTS) + c_all * SPOTS + at
        tl.store(places, best.to(y.dtype.element_ty), mask=channels[:, None] & pixels[None, :])


def three(values: Sequence[int], fill: int) -> list[int]:
    """The last three dimensions' values, `fill` for those that are not there."""
    return [fill] * (3 - len(values)) + list(values)


def turned(x: torch.Tensor, samples: int, channels: int, tf32: bool) -> torch.Tensor:
    """(samples, spots, channels) of a tensor that holds (samples, channels, spots), rounded if `tf32`."""
    x = x.contiguous()
    spots = x.numel() // (samples * channels)
    y = torch.empty(samples, spots, channels, dtype=x.dtype, device=x.device)
    block_c, block_s = min(64, 1 << (channels - 1).bit_length()), min(64, 1 << (spots - 1).bit_length())
    turn_kernel[(samples * -(-channels // block_c) * -(-spots // block_s),)](x, y, channels, spots, tf32, block_c, block_s, num_warps=4)
    return y


def placed(extras: tuple[torch.Tensor | float, ...], shape: list[int], y: torch.Tensor) -> tuple[list[torch.Tensor | float], list[int]]:
    """Three arguments for `extra` and their nine strides (sample, channel, pixel); `y` stands in for what is not there."""
    lent: list[torch.Tensor | float] = []
    steps: list[int] = []
    for e in [*extras, *[None] * (3 - len(extras))]:
        if isinstance(e, torch.Tensor):
            e = e.expand(shape)
            if any(e.stride()[2:]) and not e[0, 0].is_contiguous():
                e = e.contiguous()
            steps += [e.stride(0), e.stride(1), int(any(e.stride()[2:]))]
        else:
            steps += [-2, 0, 0] if e is None else [-1, 0, 0]
        lent.append(y if e is None else e)
    return lent, steps


@functools.lru_cache
def planned(x: torch.Size, weight: torch.Size) -> tuple[list[int], tuple[int, ...], tuple[int | str | None, ...], tuple[int, ...]]:
    """For an input and a weight of these shapes: the result's shape with all channels, the kernel's constants before the input's strides
    and after them, and (tiles, whether taps and channels are one axis, block_n, block_k)."""
    transposed, groups, dims = SHAPE["transposed"], SHAPE["groups"], len(x) - 2
    size, kernel = three(x[2:], 1), three(weight[2:], 1)
    stride, padding, dilation = three(SHAPE["stride"], 1), three(SHAPE["padding"], 0), three(SHAPE["dilation"], 1)
    rest = three(SHAPE["output_padding"], 0)
    if transposed:
        out = [(i - 1) * s - 2 * p + d * (k - 1) + r + 1 for i, s, p, d, k, r in zip(size, stride, padding, dilation, kernel, rest, strict=True)]
    else:
        out = [(i + 2 * p - d * (k - 1) - 1) // s + 1 for i, s, p, d, k in zip(size, stride, padding, dilation, kernel, strict=True)]
    divisors = [math.gcd(s, d) for s, d in zip(stride, dilation, strict=True)]
    inverses = [pow(d // g, -1, s // g) if transposed and s > g else 0 for s, d, g in zip(stride, dilation, divisors, strict=True)]
    window = three(SHAPE["pool"], 1) if SHAPE["pool"] else None
    whole = PARAMS["rows"] == "whole" and transposed and window is None
    lattice = window or ([*stride[:2], 1 if whole else stride[2]] if transposed else [1, 1, 1])
    spots = [o // s for o, s in zip(out, lattice, strict=True)] if window else out
    c, oc = x[1] // groups, weight[1] if transposed else weight[0] // groups
    flat = c % PARAMS["block_k"] != 0 and (not transposed or max(stride) == 1)
    depth = math.prod(kernel) * c if flat else c
    block_n = max(16, 1 << (oc - 1).bit_length())
    block_n = block_n if SHAPE["across"] else min(PARAMS["block_n"], block_n)
    block_k = min(PARAMS["block_k"], max(16, 1 << (depth - 1).bit_length()))
    each = math.prod(-(-o // s) for o, s in zip(out, lattice, strict=True)) if not window else math.prod(spots)
    tiles = -(-(x[0] * each) // PARAMS["block_m"]) * -(-oc // block_n) * groups * (1 if window else math.prod(lattice))
    before = (x[0], c, oc, groups, SHAPE["channels"], *size, *out)
    after = (*kernel, *stride, *padding, *dilation, *divisors, *inverses, *lattice, SHAPE["kind"] if window else None, transposed, transposed or any(padding),
             whole)
    return [x[0], oc * groups, *spots[3 - dims :]], before, after, (tiles, flat, block_n, block_k)


def run(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *extras: torch.Tensor | float
) -> torch.Tensor:
    """finish(pool(chain(convolution(x, weight) + bias))): `x` (N, C, ...) with one to three further dimensions, `weight` as torch has it.

    `extras` are up to three numbers or tensors that broadcast to the result. Gives (N, channels, ...) in `x`'s dtype.
    """
    groups, kind, exact = SHAPE["groups"], x.dtype, x.device.type == "cpu"  # the interpreter knows plain float32 alone
    tf32 = PARAMS["precision"] == "tf32" and kind == torch.float32 and not exact
    last = PARAMS["layout"] == "channels last"
    shape, before, after, (tiles, flat, block_n, block_k) = planned(x.shape, weight.shape)
    # the weights as (output channels, taps, input channels of a group)
    samples, inner = (groups, weight.shape[0] // groups) if SHAPE["transposed"] else weight.shape[:2]
    w = turned(weight, samples, inner, tf32)
    if last:
        x = turned(x, x.shape[0], x.shape[1], tf32).view(x.shape[0], *x.shape[2:], x.shape[1]).movedim(-1, 1)
    if exact:
        x, w = x.float(), w.float()
    y = torch.empty(shape[0], SHAPE["channels"] or shape[1], *shape[2:], dtype=kind, device=x.device)
    lent, steps = placed(extras, shape, y)
    conv_kernel[(tiles,)](
        x, w, w if bias is None else bias, *lent, y, *before, x.stride(0), x.stride(1), *three(x.stride()[2:], 0), *after, *steps, bias is not None,
        PARAMS["precision"] if x.dtype == torch.float32 and not exact else "ieee", last, flat,
        max(x.numel(), y.numel()) > 2**31 - 2**24, tf32 and not last, PARAMS["block_m"], block_n, block_k,
        num_warps=PARAMS["num_warps"], num_stages=PARAMS["num_stages"],
    )
    return y


class ModelNew(nn.Module):
    """nn.Conv2d."""

    def __init__(self, in_channels: int = 3, out_channels: int = 64, kernel_size: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, out_channels, out height, out width)."""
        return run(x, self.conv.weight, self.conv.bias)
