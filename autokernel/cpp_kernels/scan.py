"""Running sum or product along one dimension, forward or reversed, inclusive or exclusive, masked. Default problem: cumsum over dim 1.

A running total is a chain of additions that wait for each other; LANES neighbouring lines are summed side by side so that they do not
wait for nothing. Totals are kept in double, as torch does.
"""

from __future__ import annotations

import math

import native
import torch
from torch import nn

OP = "scan"
SHAPE = {"kind": "sum", "dim": 1, "reverse": False, "exclusive": False}
PARAMS = {"lanes": 4}
SPACE = {"lanes": [1, 2, 4, 8]}

CPP_SRC = r'''
#include <algorithm>

constexpr int LANES = 4;

// LANES lines of (outer, n, inner) from line `first` on; `count` of them exist.
template <bool PROD, bool MASKED>
static void lines(const float* x, const bool* mask, float* y, int64_t first, int count, int64_t n, int64_t inner, bool reverse, bool exclusive) {
    int64_t start[LANES];
    double total[LANES];
    for (int l = 0; l < LANES; ++l) {
        const int64_t line = first + std::min(l, count - 1);  // spare lanes repeat the last line
        start[l] = line / inner * n * inner + line % inner;
        total[l] = PROD ? 1 : 0;
    }
    for (int64_t k = 0; k < n; ++k) {
        const int64_t at = (reverse ? n - 1 - k : k) * inner;
        for (int l = 0; l < LANES; ++l) {
            const int64_t i = start[l] + at;
            const double value = MASKED && !mask[i] ? 0.0 : (double)x[i];
            const double before = total[l];
            total[l] = PROD ? before * value : before + value;
            y[i] = (float)(exclusive ? before : total[l]);
        }
    }
}

extern "C" int scan(const float* x, const bool* mask, float* y, int64_t outer, int64_t n, int64_t inner, int32_t prod, int32_t masked,
                    int32_t reverse, int32_t exclusive) {
    const int64_t groups = (outer * inner + LANES - 1) / LANES;
#pragma omp parallel for schedule(static)
    for (int64_t g = 0; g < groups; ++g) {
        const int count = (int)std::min<int64_t>(LANES, outer * inner - g * LANES);
        auto* run = prod ? (masked ? lines<true, true> : lines<true, false>) : (masked ? lines<false, true> : lines<false, false>);
        run(x, mask, y, g * LANES, count, n, inner, reverse, exclusive);
    }
    return 0;
}
'''
CPP_FLAGS = ["-fopenmp"]
SIGNATURES = {
    "scan": "f32* x, bool* mask, f32* y, i64 outer, i64 n, i64 inner, i32 prod, i32 masked, i32 reverse, i32 exclusive",
}


def run(x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Running sum or product of float32 `x` along SHAPE["dim"], entries where the bool `mask` (x's shape) is False counting 0."""
    dim = SHAPE["dim"] % x.dim()
    y = torch.empty_like(x)
    spare = torch.empty(0, dtype=torch.bool) if mask is None else mask
    outer, inner = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    native.scan(x, spare, y, outer, x.shape[dim], inner, int(SHAPE["kind"] == "prod"), int(mask is not None),
                int(SHAPE["reverse"]), int(SHAPE["exclusive"]))
    return y


class ModelNew(nn.Module):
    """torch.cumsum(x, dim=1)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape as `x`."""
        return run(x)
