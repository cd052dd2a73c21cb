"""Reduce: sum over dim 1 of 1024x2048 in 1 reducing pass."""

from __future__ import annotations

import native
import torch
from torch import nn

OP = "reduce"
SHAPE = {"space": [1024, 2048], "reduced": [1]}
SPACE = {"chunk": [256, 512, 1024, 2048, 4096]}
PARAMS = {"chunk": 1024}

CPP_SRC = r'''
#include <algorithm>
#include <vector>
#pragma GCC optimize("no-math-errno,no-trapping-math")

static inline float larger(float a, float b) { return ((a > b) | (a != a)) ? a : b; }  // NaN wins, as in torch
static inline float smaller(float a, float b) { return ((a < b) | (a != a)) ? a : b; }

extern "C" int fused(const float* x0, float* y, int64_t chunk) {
    const int64_t chunks = (2048 + chunk - 1) / chunk;
    const int64_t items = 1 * chunks;
    #pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < 1024; ++row) {
        const int64_t i0 = row;
        const float* __restrict u0 = x0 + i0 * 2048;
        float* v = y + i0;
        double s0 = 0;
        for (int64_t item = 0; item < items; ++item) {
            const int64_t begin = item % chunks * chunk;
            const int64_t end = std::min<int64_t>(begin + chunk, 2048);
            const float* __restrict p0 = u0;
            float* q = v;
            for (int64_t part = begin; part < end; part += 256) {
                const int64_t stop = std::min<int64_t>(part + 256, end);
                float b0 = 0;
                #pragma omp simd reduction(+ : b0)
                for (int64_t k = part; k < stop; ++k) {
                    const float t0 = p0[k];
                    b0 += t0;
                }
                s0 += b0;
            }
        }
        const float r0 = (float)s0;
        const float t1 = r0;
        v[0] = t1;
    }
    return 0;
}
'''
CPP_FLAGS = ["-fopenmp"]
SIGNATURES = {"fused": "f32* x0, f32* y, i64 chunk"}


def run(x0: torch.Tensor) -> torch.Tensor:
    """Launch the kernel; gives float32 of shape (1024,)."""
    assert x0.shape == (1024, 2048)
    y = torch.empty((1024,), dtype=torch.float32, device=x0.device)
    native.fused(x0, y, PARAMS["chunk"])
    return y


class ModelNew(nn.Module):
    """Reduce: sum over dim 1 of 1024x2048 in 1 reducing pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return run(x)
