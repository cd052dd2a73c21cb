"""Layernorm: sum/sum over dim 1 of 1024x768 in 2 reducing passes."""

from __future__ import annotations

import native
import torch
from torch import nn

OP = "layernorm"
SHAPE = {"space": [1024, 768], "reduced": [1]}
SPACE = {"chunk": [256, 512, 1024, 2048, 4096]}
PARAMS = {"chunk": 1024}

CPP_SRC = r'''
#include <algorithm>
#include <vector>
#pragma GCC optimize("no-math-errno,no-trapping-math")

static inline float larger(float a, float b) { return ((a > b) | (a != a)) ? a : b; }  // NaN wins, as in torch
static inline float smaller(float a, float b) { return ((a < b) | (a != a)) ? a : b; }

extern "C" int fused(const float* x0, const float* x1, const float* x2, float* y, int64_t chunk) {
    const int64_t chunks = (768 + chunk - 1) / chunk;
    const int64_t items = 1 * chunks;
    #pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < 1024; ++row) {
        const int64_t i0 = row;
        const float* __restrict u0 = x0 + i0 * 768;
        const float* __restrict u1 = x1;
        const float* __restrict u2 = x2;
        float* v = y + i0 * 768;
        double s0 = 0;
        for (int64_t item = 0; item < items; ++item) {
            const int64_t begin = item % chunks * chunk;
            const int64_t end = std::min<int64_t>(begin + chunk, 768);
            const float* __restrict p0 = u0;
            const float* __restrict p1 = u1;
            const float* __restrict p2 = u2;
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
        const float t3 = t1 / 768.0f;
        double s1 = 0;
        for (int64_t item = 0; item < items; ++item) {
            const int64_t begin = item % chunks * chunk;
            const int64_t end = std::min<int64_t>(begin + chunk, 768);
            const float* __restrict p0 = u0;
            const float* __restrict p1 = u1;
            const float* __restrict p2 = u2;
            float* q = v;
            for (int64_t part = begin; part < end; part += 256) {
                const int64_t stop = std::min<int64_t>(part + 256, end);
                float b1 = 0;
                #pragma omp simd reduction(+ : b1)
                for (int64_t k = part; k < stop; ++k) {
                    const float t0 = p0[k];
                    const float t4 = t0 - t3;
                    const float t5 = t4 * t4;
                    b1 += t5;
                }
                s1 += b1;
            }
        }
        const float r1 = (float)s1;
        const float t6 = r1;
        const float t7 = t6 / 768.0f;
        const float t9 = t7 + 1e-05f;
        const float t10 = 1.0f / __builtin_sqrtf(t9);
        for (int64_t item = 0; item < items; ++item) {
            const int64_t begin = item % chunks * chunk;
            const int64_t end = std::min<int64_t>(begin + chunk, 768);
            const float* __restrict p0 = u0;
            const float* __restrict p1 = u1;
            const float* __restrict p2 = u2;
            float* q = v;
            #pragma omp simd
            for (int64_t k = begin; k < end; ++k) {
                const float t0 = p0[k];
                const float t4 = t0 - t3;
                const float t11 = t4 * t10;
                const float t12 = p1[k];
                const float t13 = t11 * t12;
                const float t14 = p2[k];
                const float t15 = t13 + t14;
                q[k] = t15;
            }
        }
    }
    return 0;
}
'''
CPP_FLAGS = ["-fopenmp"]
SIGNATURES = {"fused": "f32* x0, f32* x1, f32* x2, f32* y, i64 chunk"}


def run(x0: torch.Tensor, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """Launch the kernel; gives float32 of shape (1024, 768)."""
    assert x0.shape == (1024, 768)
    assert x1.shape == (768,)
    assert x2.shape == (768,)
    y = torch.empty((1024, 768), dtype=torch.float32, device=x0.device)
    native.fused(x0, x1, x2, y, PARAMS["chunk"])
    return y


class ModelNew(nn.Module):
    """Layernorm: sum/sum over dim 1 of 1024x768 in 2 reducing passes."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(768)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return run(x, self.norm.weight, self.norm.bias)
