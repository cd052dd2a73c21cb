"""Max and average pooling in 1 to 3 dimensions. Default problem: nn.MaxPool2d(3, 2, 1).

One output row at a time: each of the window's positions is added to (or compared with) the whole row at once, over just those outputs
for which it lies inside the input, so that the innermost loop has no conditions.
"""

from __future__ import annotations

import math

import native
import torch
from torch import nn

OP = "pooling"
SHAPE = {
    "kind": "max", "kernel": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "ceil_mode": False, "count_include_pad": True,
}
PARAMS = {"rows": 8}
SPACE = {"rows": [1, 4, 8, 16, 64]}

CPP_SRC = r'''
#include <algorithm>

constexpr int ROWS = 8;  // output rows that a thread takes at a time

struct Axis { int64_t size, out, kernel, stride, padding, dilation; };

// How many positions of output o's window count, in the input alone or with padding.
static inline int64_t counted(const Axis& a, int64_t o, bool with_padding) {
    const int64_t start = o * a.stride - a.padding;
    const int64_t end = std::min(start + a.kernel, a.size + a.padding);
    return with_padding ? end - start : std::min(end, a.size) - std::max<int64_t>(start, 0);
}

template <bool MAX>
static void row(const float* plane, float* y, const Axis& d, const Axis& h, const Axis& w, int64_t od, int64_t oh, bool with_padding) {
    for (int64_t o = 0; o < w.out; ++o) y[o] = MAX ? -__builtin_inff() : 0.0f;
    for (int64_t kd = 0; kd < d.kernel; ++kd) {
        const int64_t id = od * d.stride - d.padding + kd * d.dilation;
        if (id < 0 || id >= d.size) continue;
        for (int64_t kh = 0; kh < h.kernel; ++kh) {
            const int64_t ih = oh * h.stride - h.padding + kh * h.dilation;
            if (ih < 0 || ih >= h.size) continue;
            for (int64_t kw = 0; kw < w.kernel; ++kw) {
                const int64_t shift = kw * w.dilation - w.padding;
                const int64_t first = shift < 0 ? (-shift + w.stride - 1) / w.stride : 0;
                const int64_t room = w.size - 1 - shift;
                const int64_t last = room < 0 ? 0 : std::min(w.out, room / w.stride + 1);
                const float* x = plane + (id * h.size + ih) * w.size + shift;
                if (w.stride == 1) {
#pragma omp simd
                    for (int64_t o = first; o < last; ++o) y[o] = MAX ? (x[o] < y[o] ? y[o] : x[o]) : y[o] + x[o];
                } else {
#pragma omp simd
                    for (int64_t o = first; o < last; ++o) {
                        const float v = x[o * w.stride];
                        y[o] = MAX ? (v < y[o] ? y[o] : v) : y[o] + v;
                    }
                }
            }
        }
    }
    if (!MAX) {
        const int64_t lines = counted(d, od, with_padding) * counted(h, oh, with_padding);
        for (int64_t o = 0; o < w.out; ++o) y[o] /= (float)(lines * counted(w, o, with_padding));
    }
}

extern "C" int pooling(const float* x, float* y, int64_t planes, int64_t d, int64_t h, int64_t w, int64_t od, int64_t oh, int64_t ow,
                       int64_t kd, int64_t kh, int64_t kw, int64_t sd, int64_t sh, int64_t sw, int64_t pd, int64_t ph, int64_t pw,
                       int64_t dd, int64_t dh, int64_t dw, int32_t max, int32_t with_padding) {
    const Axis a = {d, od, kd, sd, pd, dd}, b = {h, oh, kh, sh, ph, dh}, c = {w, ow, kw, sw, pw, dw};
    const int64_t rows = planes * od * oh;
#pragma omp parallel for schedule(static, ROWS)
    for (int64_t r = 0; r < rows; ++r) {
        const float* plane = x + r / (od * oh) * d * h * w;
        if (max) row<true>(plane, y + r * ow, a, b, c, r / oh % od, r % oh, with_padding);
        else row<false>(plane, y + r * ow, a, b, c, r / oh % od, r % oh, with_padding);
    }
    return 0;
}
'''
CPP_FLAGS = ["-fopenmp"]
SIGNATURES = {
    "pooling": "f32* x, f32* y, i64 planes, i64 d, i64 h, i64 w, i64 od, i64 oh, i64 ow, i64 kd, i64 kh, i64 kw, i64 sd, i64 sh, i64 sw, "
               "i64 pd, i64 ph, i64 pw, i64 dd, i64 dh, i64 dw, i32 max, i32 with_padding",
}


def pooled(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Output size along one dimension, by torch's rule; with ceil_mode no window starts in the right padding."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    out = (room + (stride - 1 if SHAPE["ceil_mode"] else 0)) // stride + 1
    return out - 1 if SHAPE["ceil_mode"] and (out - 1) * stride >= size + padding else out


def run(x: torch.Tensor) -> torch.Tensor:
    """Pool float32 `x` (N, C, ...) over as many trailing dimensions as SHAPE["kernel"] has."""
    dims = len(SHAPE["kernel"])
    facts = [[fill] * (3 - dims) + list(SHAPE[name]) for name, fill in (("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1))]
    sizes = [1] * (3 - dims) + list(x.shape[-dims:])
    out = [pooled(*each) for each in zip(sizes, *facts, strict=True)]
    y = torch.empty(*x.shape[:-dims], *out[3 - dims :])
    native.pooling(x, y, math.prod(x.shape[:-dims]), *sizes, *out, *facts[0], *facts[1], *facts[2], *facts[3],
                   int(SHAPE["kind"] == "max"), int(SHAPE["count_include_pad"]))
    return y


class ModelNew(nn.Module):
    """nn.MaxPool2d(3, 2, 1)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, C, pooled height, pooled width)."""
        return run(x)
