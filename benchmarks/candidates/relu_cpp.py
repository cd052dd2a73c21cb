"""ReLU in C++ for the CPU."""

import native
import torch
from torch import nn

CPP_SRC = r"""
#include <cstdint>

extern "C" int relu(const float* x, float* y, int64_t n) {
    #pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0.f ? x[i] : 0.f;
    return 0;
}
"""
SIGNATURES = {"relu": "f32* x, f32* y, i64 n"}


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        native.relu(x, y, x.numel())
        return y
