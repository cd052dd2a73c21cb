"""Softmax or log-softmax over the last dimension in CUDA C++. Default problem: softmax over dim 1 of (rows, columns).

The thread blocks of one cluster share a row: each keeps its part in shared memory, and maxima and sums go through distributed shared
memory, so a row of up to 460,000 floats (8 blocks of 227 KiB) is read once. Longer rows are read twice.
PARAMS are the `constexpr int` lines of CUDA_SRC with the same names in capitals; a search rewrites both.
"""

import math

import native
import torch
from torch import nn

OP = "softmax"
SHAPE = {"dim": 1, "log": False}
PARAMS = {"threads": 1024, "cluster": 8}  # cluster: blocks that share a row at least; more where the row does not fit
SPACE = {"threads": [128, 256, 512, 1024], "cluster": [1, 2, 4, 8, 16]}

CUDA_SRC = r'''
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

constexpr int THREADS = 1024;
constexpr int CLUSTER = 8;
constexpr int UNROLL = 4;               // independent 16-byte loads in flight a thread
constexpr int MOST_BYTES = 227 * 1024;  // shared memory of one block on sm_90
constexpr int MOST_FLOATS = MOST_BYTES / 4 - 256;  // less what the exchanges take

struct Larger { static __device__ float of(float a, float b) { return (a > b || a != a) ? a : b; } };
struct Sum { static __device__ float of(float a, float b) { return a + b; } };

// The value of all threads of the block under Op, in every thread. `slots` holds 33 floats.
template <class Op> __device__ float over_block(float v, float neutral, float* slots) {
    for (int step = 16; step > 0; step /= 2) v = Op::of(v, __shfl_xor_sync(0xffffffffu, v, step));
    const int warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    v = (threadIdx.x % 32) < warps ? slots[threadIdx.x % 32] : neutral;
    for (int step = 16; step > 0; step /= 2) v = Op::of(v, __shfl_xor_sync(0xffffffffu, v, step));
    __syncthreads();  // the slots may be written again
    return v;
}

// The same over all blocks of the cluster, in a fixed order. `mine` is one float of this block's shared memory, used once.
template <class Op> __device__ float over_cluster(float v, float neutral, float* slots, float* mine) {
    v = over_block<Op>(v, neutral, slots);
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) *mine = v;
    cluster.sync();
    float all = neutral;
    for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) all = Op::of(all, *cluster.map_shared_rank(mine, rank));
    return all;
}

template <bool VECTOR, bool LOG>
__global__ void cluster_kernel(const float* __restrict__ x, float* __restrict__ y, int64_t cols, int chunk) {
    extern __shared__ __align__(16) float part[];  // chunk floats, a multiple of 4
    __shared__ float slots[33];
    __shared__ float exchanged[2];
    cg::cluster_group cluster = cg::this_cluster();
    const int64_t row = blockIdx.x / cluster.num_blocks();
    const int64_t begin = (int64_t)cluster.block_rank() * chunk;
    const int count = (int)max((int64_t)0, min((int64_t)chunk, cols - begin));
    const float* source = x + row * cols + begin;
    float* target = y + row * cols + begin;
    float top = -INFINITY;
    const int vectors = VECTOR ? count / 4 : 0;
    const float4* wide = reinterpret_cast<const float4*>(source);
    for (int start = threadIdx.x; start < vectors; start += blockDim.x * UNROLL) {
        float4 v[UNROLL];
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int i = start + u * blockDim.x;
            v[u] = i < vectors ? __ldcs(wide + i) : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
        }
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int i = start + u * blockDim.x;
            if (i < vectors) reinterpret_cast<float4*>(part)[i] = v[u];
            top = Larger::of(Larger::of(top, Larger::of(v[u].x, v[u].y)), Larger::of(v[u].z, v[u].w));
        }
    }
    #pragma unroll 4
    for (int i = vectors * 4 + threadIdx.x; i < count; i += blockDim.x) {
        const float v = __ldcs(source + i);
        part[i] = v;
        top = Larger::of(top, v);
    }
    top = over_cluster<Larger>(top, -INFINITY, slots, exchanged);
    float total = 0.0f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const float shifted = part[i] - top;
        const float e = expf(shifted);
        part[i] = LOG ? shifted : e;
        total += e;
    }
    total = over_cluster<Sum>(total, 0.0f, slots, exchanged + 1);
    const float scale = LOG ? -logf(total) : 1.0f / total;
    float4* wide_target = reinterpret_cast<float4*>(target);
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        float4 v = reinterpret_cast<const float4*>(part)[i];
        v = LOG ? make_float4(v.x + scale, v.y + scale, v.z + scale, v.w + scale)
                : make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
        __stcs(wide_target + i, v);
    }
    for (int i = vectors * 4 + threadIdx.x; i < count; i += blockDim.x) __stcs(target + i, LOG ? part[i] + scale : part[i] * scale);
    cluster.sync();  // nobody leaves while another block may still read its exchanged values
}

template <bool LOG>
__global__ void twice_kernel(const float* __restrict__ x, float* __restrict__ y, int64_t cols) {
    __shared__ float slots[33];
    const float* source = x + (int64_t)blockIdx.x * cols;
    float* target = y + (int64_t)blockIdx.x * cols;
    float top = -3.0e38f, total = 0.0f;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
        const float v = source[i];
        const float higher = Larger::of(top, v);
        total = total * expf(top - higher) + expf(v - higher);
        top = higher;
    }
    const float peak = over_block<Larger>(top, -INFINITY, slots);
    total = over_block<Sum>(total * expf(top - peak), 0.0f, slots);
    const float scale = LOG ? -logf(total) : 1.0f / total;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
        const float shifted = source[i] - peak;
        __stcs(target + i, LOG ? shifted + scale : expf(shifted) * scale);
    }
}

extern "C" int softmax_rows(const float* x, float* y, int64_t rows, int64_t cols, int32_t log, void* stream) {
    if (rows == 0 || cols == 0) return 0;
    int cluster = CLUSTER;
    const auto share = [&] { return (cols + cluster - 1) / cluster; };
    while (cluster > 1 && share() < 1024) cluster /= 2;  // a short row is not worth an exchange
    while (cluster < 8 && share() > MOST_FLOATS) cluster *= 2;
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    if (share() > MOST_FLOATS) {
        const unsigned threads = THREADS;
        if (log) twice_kernel<true><<<(unsigned)rows, threads, 0, on>>>(x, y, cols);
        else twice_kernel<false><<<(unsigned)rows, threads, 0, on>>>(x, y, cols);
        return (int)cudaGetLastError();
    }
    const int chunk = (int)((share() + 3) / 4 * 4);
    const bool vector = cols % 4 == 0 && ((uintptr_t)x | (uintptr_t)y) % 16 == 0;
    auto* kernel = vector ? (log ? cluster_kernel<true, true> : cluster_kernel<true, false>)
                          : (log ? cluster_kernel<false, true> : cluster_kernel<false, false>);
    const int bytes = chunk * 4;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error == cudaSuccess && cluster > 8) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess) return (int)error;
    const int wanted = vector ? chunk / 4 : chunk;
    const unsigned threads = (unsigned)(wanted >= THREADS ? THREADS : (wanted + 31) / 32 * 32);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = (unsigned)cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(rows * cluster));
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = (size_t)bytes;
    config.stream = on;
    config.attrs = &attribute;
    config.numAttrs = 1;
    error = cudaLaunchKernelEx(&config, kernel, x, y, cols, chunk);
    return (int)(error != cudaSuccess ? error : cudaGetLastError());
}
'''
SIGNATURES = {"softmax_rows": "f32* x, f32* y, i64 rows, i64 cols, i32 log"}


def run(x: torch.Tensor) -> torch.Tensor:
    """softmax (SHAPE["log"]: log_softmax) of float32 `x` over SHAPE["dim"]; a dim that is not the last is moved there by a copy."""
    dim = SHAPE["dim"] % x.dim()
    rows = x.movedim(dim, -1).contiguous()
    y = torch.empty_like(rows)
    native.softmax_rows(rows, y, math.prod(rows.shape[:-1]), rows.shape[-1], int(SHAPE["log"]))
    return y.movedim(-1, dim)


class ModelNew(nn.Module):
    """torch.softmax(x, dim=1)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape as `x`, float32."""
        return run(x)
