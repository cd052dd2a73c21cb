"""ReLU as KernelBench answers write it: torch headers, built by load_inline on import."""

from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void relu_kernel(const float* x, float* y, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.f);
}

torch::Tensor relu_forward(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int64_t n = x.numel();
    relu_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
module = load_inline(name="relu_inline", cpp_sources="torch::Tensor relu_forward(torch::Tensor x);", cuda_sources=CUDA,
                     functions=["relu_forward"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.relu_forward(x)
