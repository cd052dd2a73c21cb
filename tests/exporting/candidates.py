"""Winners of embedded problems for the tests: texts as candidates are."""

RMSNORM_CPP = """
import native
import torch
from torch import nn

PARAMS = {"block": 256}
SPACE = {"block": [64, 256]}

CPP_SRC = r'''
#include <cmath>
extern "C" int rms_rows(const float* x, const float* w, float* y, int64_t rows, int64_t n, float eps) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* from = x + row * n;
        double total = 0;
        for (int64_t i = 0; i < n; ++i) total += (double)from[i] * from[i];
        const float scale = 1.0f / sqrtf((float)(total / n) + eps);
        for (int64_t i = 0; i < n; ++i) y[row * n + i] = from[i] * scale * w[i];
    }
    return 0;
}
'''
CPP_FLAGS = ["-fopenmp"]
SIGNATURES = {"rms_rows": "f32* x, f32* w, f32* y, i64 rows, i64 n, f32 eps"}


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(0.5 + torch.rand(features))

    def forward(self, x):
        y = torch.empty_like(x)
        native.rms_rows(x, self.weight, y, x.shape[0], x.shape[1], self.eps)
        return y
"""

SOFTMAX_PYTHON = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
"""

SOFTMAX_TRITON = """
import torch
import triton
import triton.language as tl
from torch import nn

PARAMS = {"num_warps": 4}


@triton.jit
def rows(x, y, N: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * N + at, mask=at < N, other=float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * N + at, e / tl.sum(e, 0), mask=at < N)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows[(x.shape[0],)](x, y, x.shape[1], triton.next_power_of_2(x.shape[1]), num_warps=PARAMS["num_warps"])
        return y
"""

RELU_CUDA = """
import native
import torch
from torch import nn

CUDA_SRC = r'''
__global__ void relu_kernel(const float* x, float* y, int64_t n) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}
extern "C" int relu(const float* x, float* y, int64_t n, void* stream) {
    relu_kernel<<<(unsigned)((n + 255) / 256), 256, 0, (cudaStream_t)stream>>>(x, y, n);
    return (int)cudaGetLastError();
}
'''
SIGNATURES = {"relu": "f32* x, f32* y, i64 n"}


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        native.relu(x, y, x.numel())
        return y
"""
