"""Reduce: sum over dim 1 of 16x256x1024 in 1 reducing pass."""

from __future__ import annotations

import native
import torch
from torch import nn

OP = "columns"
SHAPE = {"space": [16, 256, 1024], "reduced": [1]}
SPACE = {"block": [64, 128, 256, 512, 1024, 2048, 4096]}
PARAMS = {"block": 1024}

CPP_SRC = r'''
#include <algorithm>
#include <vector>
#pragma GCC optimize("no-math-errno,no-trapping-math")

static inline float larger(float a, float b) { return ((a > b) | (a != a)) ? a : b; }  // NaN wins, as in torch
static inline float smaller(float a, float b) { return ((a < b) | (a != a)) ? a : b; }

extern "C" int fused(const float* x0, float* y, int64_t block) {
    const int64_t tiles = (1024 + block - 1) / block;
    #pragma omp parallel for schedule(static)
    for (int64_t tile = 0; tile < 16 * tiles; ++tile) {
        const int64_t begin = tile % tiles * block;
        const int64_t count = std::min<int64_t>(block, 1024 - begin);
        const int64_t outer = tile / tiles;
        const int64_t i0 = outer;
        const float* __restrict u0 = x0 + i0 * 262144 + begin;
        float* v = y + i0 * 1024 + begin;
        double s0[4096];
        for (int64_t k = 0; k < count; ++k) s0[k] = 0;
        for (int64_t i1 = 0; i1 < 256; ++i1) {
            const float* __restrict p0 = u0 + i1 * 1024;
            float* q = v;
            #pragma omp simd
            for (int64_t k = 0; k < count; ++k) {
                const float t0 = p0[k];
                s0[k] += t0;
            }
        }
        float r0[4096];
        for (int64_t k = 0; k < count; ++k) r0[k] = (float)s0[k];
        float h3[4096];
        #pragma omp simd
        for (int64_t k = 0; k < count; ++k) {
            const float t1 = r0[k];
            h3[k] = t1 / 256.0f;
        }
        for (int64_t k = 0; k < count; ++k) {
            const float t3 = h3[k];
            v[k] = t3;
        }
    }
    return 0;
}
'''
CPP_FLAGS = ["-fopenmp"]
SIGNATURES = {"fused": "f32* x0, f32* y, i64 block"}


def run(x0: torch.Tensor) -> torch.Tensor:
    """Launch the kernel; gives float32 of shape (16, 1024)."""
    assert x0.shape == (16, 256, 1024)
    y = torch.empty((16, 1024), dtype=torch.float32, device=x0.device)
    native.fused(x0, y, PARAMS["block"])
    return y


class ModelNew(nn.Module):
    """Reduce: sum over dim 1 of 16x256x1024 in 1 reducing pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return run(x)
