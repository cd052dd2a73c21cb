"""Softmax: amax/sum over dim 1 of 1024x1536 in 2 reducing passes."""

from __future__ import annotations

import native
import torch
from torch import nn

OP = "softmax"
SHAPE = {"space": [1024, 1536], "reduced": [1]}
SPACE = {"chunk": [256, 512, 1024, 2048, 4096]}
PARAMS = {"chunk": 1024}

CPP_SRC = r'''
#include <algorithm>
#include <vector>
#pragma GCC optimize("no-math-errno,no-trapping-math")

static inline float larger(float a, float b) { return ((a > b) | (a != a)) ? a : b; }  // NaN wins, as in torch
static inline float smaller(float a, float b) { return ((a < b) | (a != a)) ? a : b; }

// 2^n for n in [-126, 127].
static inline float pow2(int32_t n) {
    const int32_t bits = (n + 127) << 23;
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
}

// x rounded to a whole number, |x| < 2^22: adding 1.5 * 2^23 pushes the fraction out.
static inline float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

// exp: x = n ln 2 + r; the scale goes in two steps so that results fade into denormals.
static inline float exp_(float x) {
    x = x < -105.0f ? -105.0f : x;
    x = x > 89.0f ? 89.0f : x;
    const float n = nearest(x * 1.44269504f);
    const float r = __builtin_fmaf(n, 2.12194440e-4f, __builtin_fmaf(n, -0.693359375f, x));
    float q = 0.0013814190169796348f;
    q = __builtin_fmaf(q, r, 0.008368914015591145f);
    q = __builtin_fmaf(q, r, 0.04166840761899948f);
    q = __builtin_fmaf(q, r, 0.1666651964187622f);
    q = __builtin_fmaf(q, r, 0.4999999403953552f);
    const float p = 1.0f + __builtin_fmaf(r * r, q, r);
    const int32_t whole = (int32_t)n;
    const int32_t half = whole >> 1;
    return p * pow2(half) * pow2(whole - half);
}

extern "C" int fused(const float* x0, float* y, int64_t chunk) {
    const int64_t chunks = (1536 + chunk - 1) / chunk;
    const int64_t items = 1 * chunks;
    #pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < 1024; ++row) {
        const int64_t i0 = row;
        const float* __restrict u0 = x0 + i0 * 1536;
        float* v = y + i0 * 1536;
        float s0 = -__builtin_inff();
        for (int64_t item = 0; item < items; ++item) {
            const int64_t begin = item % chunks * chunk;
            const int64_t end = std::min<int64_t>(begin + chunk, 1536);
            const float* __restrict p0 = u0;
            float* q = v;
            for (int64_t part = begin; part < end; part += 256) {
                const int64_t stop = std::min<int64_t>(part + 256, end);
                float b0 = -__builtin_inff();
                #pragma omp simd reduction(max : b0)
                for (int64_t k = part; k < stop; ++k) {
                    const float t0 = p0[k];
                    b0 = larger(b0, t0);
                }
                s0 = larger(s0, b0);
            }
        }
        const float r0 = (float)s0;
        const float t1 = r0;
        double s1 = 0;
        for (int64_t item = 0; item < items; ++item) {
            const int64_t begin = item % chunks * chunk;
            const int64_t end = std::min<int64_t>(begin + chunk, 1536);
            const float* __restrict p0 = u0;
            float* q = v;
            for (int64_t part = begin; part < end; part += 256) {
                const int64_t stop = std::min<int64_t>(part + 256, end);
                float b1 = 0;
                #pragma omp simd reduction(+ : b1)
                for (int64_t k = part; k < stop; ++k) {
                    const float t0 = p0[k];
                    const float t2 = t0 - t1;
                    const float t3 = exp_(t2);
                    q[k] = t3;
                    b1 += t3;
                }
                s1 += b1;
            }
        }
        const float r1 = (float)s1;
        const float t4 = r1;
        for (int64_t item = 0; item < items; ++item) {
            const int64_t begin = item % chunks * chunk;
            const int64_t end = std::min<int64_t>(begin + chunk, 1536);
            const float* __restrict p0 = u0;
            float* q = v;
            #pragma omp simd
            for (int64_t k = begin; k < end; ++k) {
                const float t3 = q[k];
                const float t5 = t3 / t4;
                q[k] = t5;
            }
        }
    }
    return 0;
}
'''
CPP_FLAGS = ["-fopenmp"]
SIGNATURES = {"fused": "f32* x0, f32* y, i64 chunk"}


def run(x0: torch.Tensor) -> torch.Tensor:
    """Launch the kernel; gives float32 of shape (1024, 1536)."""
    assert x0.shape == (1024, 1536)
    y = torch.empty((1024, 1536), dtype=torch.float32, device=x0.device)
    native.fused(x0, y, PARAMS["chunk"])
    return y


class ModelNew(nn.Module):
    """Softmax: amax/sum over dim 1 of 1024x1536 in 2 reducing passes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return run(x)
