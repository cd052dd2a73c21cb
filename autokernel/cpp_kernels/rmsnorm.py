"""Rmsnorm: sum over dim 1 of 1024x1024 in 1 reducing pass."""

from __future__ import annotations

import native
import torch
from torch import nn

OP = "rmsnorm"
SHAPE = {"space": [1024, 1024], "reduced": [1]}
SPACE = {"chunk": [256, 512, 1024, 2048, 4096]}
PARAMS = {"chunk": 1024}

CPP_SRC = r'''
#include <algorithm>
#include <vector>
#pragma GCC optimize("no-math-errno,no-trapping-math")

static inline float larger(float a, float b) { return ((a > b) | (a != a)) ? a : b; }  // NaN wins, as in torch
static inline float smaller(float a, float b) { return ((a < b) | (a != a)) ? a : b; }

extern "C" int fused(const float* x0, const float* x1, float* y, int64_t chunk) {
    const int64_t chunks = (1024 + chunk - 1) / chunk;
    const int64_t items = 1 * chunks;
    #pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < 1024; ++row) {
        const int64_t i0 = row;
        const float* __restrict u0 = x0 + i0 * 1024;
        const float* __restrict u1 = x1;
        float* v = y + i0 * 1024;
        double s0 = 0;
        for (int64_t item = 0; item < items; ++item) {
            const int64_t begin = item % chunks * chunk;
            const int64_t end = std::min<int64_t>(begin + chunk, 1024);
            const float* __restrict p0 = u0;
            const float* __restrict p1 = u1;
            float* q = v;
            for (int64_t part = begin; part < end; part += 256) {
                const int64_t stop = std::min<int64_t>(part + 256, end);
                float b0 = 0;
                #pragma omp simd reduction(+ : b0)
                for (int64_t k = part; k < stop; ++k) {
                    const float t0 = p0[k];
                    const float t1 = t0 * t0;
                    b0 += t1;
                }
                s0 += b0;
            }
        }
        const float r0 = (float)s0;
        const float t2 = r0;
        const float t4 = t2 / 1024.0f;
        const float t6 = t4 + 1e-06f;
        const float t7 = 1.0f / __builtin_sqrtf(t6);
        for (int64_t item = 0; item < items; ++item) {
            const int64_t begin = item % chunks * chunk;
            const int64_t end = std::min<int64_t>(begin + chunk, 1024);
            const float* __restrict p0 = u0;
            const float* __restrict p1 = u1;
            float* q = v;
            #pragma omp simd
            for (int64_t k = begin; k < end; ++k) {
                const float t0 = p0[k];
                const float t8 = t0 * t7;
                const float t9 = p1[k];
                const float t10 = t8 * t9;
                q[k] = t10;
            }
        }
    }
    return 0;
}
'''
CPP_FLAGS = ["-fopenmp"]
SIGNATURES = {"fused": "f32* x0, f32* x1, f32* y, i64 chunk"}


def run(x0: torch.Tensor, x1: torch.Tensor) -> torch.Tensor:
    """Launch the kernel; gives float32 of shape (1024, 1024)."""
    assert x0.shape == (1024, 1024)
    assert x1.shape == (1024,)
    y = torch.empty((1024, 1024), dtype=torch.float32, device=x0.device)
    native.fused(x0, x1, y, PARAMS["chunk"])
    return y


class ModelNew(nn.Module):
    """Rmsnorm: sum over dim 1 of 1024x1024 in 1 reducing pass."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1024))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return run(x, self.weight)
