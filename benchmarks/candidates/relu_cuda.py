"""ReLU in one pass, four floats a thread."""

import native
import torch
from torch import nn

CUDA_SRC = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void relu_kernel(const float4* x, float4* y, int64_t quads) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < quads) {
        float4 v = x[i];
        y[i] = make_float4(fmaxf(v.x, 0.f), fmaxf(v.y, 0.f), fmaxf(v.z, 0.f), fmaxf(v.w, 0.f));
    }
}

extern "C" int relu(const float* x, float* y, int64_t n, void* stream) {
    int64_t quads = n / 4;
    relu_kernel<<<(unsigned)((quads + 255) / 256), 256, 0, (cudaStream_t)stream>>>((const float4*)x, (float4*)y, quads);
    return (int)cudaGetLastError();
}
"""
SIGNATURES = {"relu": "f32* x, f32* y, i64 n"}


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        native.relu(x, y, x.numel())
        return y
