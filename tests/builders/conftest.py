"""Candidates that the builder tests build."""

from __future__ import annotations

from pathlib import Path

import pytest

CPP = """import torch
import native

CPP_SRC = r'''
extern "C" int scale(const float* x, float* y, int64_t n, float a) {
    #pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) y[i] = a * x[i];
    return n == 3 ? 7 : 0;
}
'''
SIGNATURES = {"scale": "f32* x, f32* y, i64 n, f32 a"}


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        native.scale(x, y, x.numel(), 2.0)
        return y
"""

CUDA = """import torch
import native

CUDA_SRC = r'''
__global__ void scale_kernel(const float* x, float* y, int64_t n, float a) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
extern "C" int scale(const float* x, float* y, int64_t n, float a, void* stream) {
    scale_kernel<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(x, y, n, a);
    return (int)cudaGetLastError();
}
'''
SIGNATURES = {"scale": "f32* x, f32* y, i64 n, f32 a"}


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        native.scale(x, y, x.numel(), 2.0)
        return y
"""

TRITON = """import torch
import triton
import triton.language as tl


@triton.autotune(configs=[], key=["n"])
@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scale_kernel[(4,)](x, y, x.numel(), BLOCK=256)
        return y
"""

PYTHON = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x * 2
"""


@pytest.fixture(scope="session")
def candidates() -> dict[str, str]:
    """A right candidate for each builder, by its name; each doubles its input."""
    return {"cpp": CPP, "cuda": CUDA, "triton": TRITON, "python": PYTHON}


@pytest.fixture
def command_lines():
    """A function that gives the command lines of all processes."""

    def read() -> list[str]:
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                lines.append(path.read_text(errors="replace").replace("\0", " "))
            except OSError:
                continue  # it has just ended
        return lines

    return read
