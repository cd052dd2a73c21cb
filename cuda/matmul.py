"""Matrix product in plain float32 on the CUDA cores, in CUDA C++. Default problem: A @ B.

Register tiles of 8 x 8 a thread, double-buffered through shared memory, every load and store guarded, so any size is right.
PARAMS are the `constexpr int` lines of CUDA_SRC with the same names in capitals; a search rewrites both.
"""

import native
import torch
from torch import nn

OP = "matmul"
SHAPE = {}
PARAMS = {"block_m": 128, "block_n": 128, "block_k": 8, "group_m": 8}
SPACE = {"block_m": [64, 128], "block_n": [64, 128], "block_k": [8, 16], "group_m": [1, 4, 8, 16]}

CUDA_SRC = r'''
constexpr int BLOCK_M = 128;
constexpr int BLOCK_N = 128;
constexpr int BLOCK_K = 8;
constexpr int GROUP_M = 8;
constexpr int THREADS = BLOCK_M * BLOCK_N / 64;  // 8 x 8 results a thread
constexpr int LOADS_A = BLOCK_M * BLOCK_K / THREADS;
constexpr int LOADS_B = BLOCK_N * BLOCK_K / THREADS;
static_assert(LOADS_A * THREADS == BLOCK_M * BLOCK_K && LOADS_B * THREADS == BLOCK_N * BLOCK_K, "tiles must divide over the threads");
static_assert(2 * BLOCK_K * (BLOCK_M + BLOCK_N + 8) * 4 <= 48 * 1024, "static shared memory of a block is 48 KiB at most");

// C (m, n) = A (m, k) B (k, n), all row-major.
__global__ void __launch_bounds__(THREADS, 2) matmul_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                                                          int m, int n, int k) {
    __shared__ __align__(16) float left[2][BLOCK_K][BLOCK_M + 4];  // A's tile transposed; the pad keeps rows 16-byte aligned
    __shared__ __align__(16) float right[2][BLOCK_K][BLOCK_N + 4];
    const int tiles_m = (m + BLOCK_M - 1) / BLOCK_M, tiles_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int group = blockIdx.x / (GROUP_M * tiles_n), within = blockIdx.x % (GROUP_M * tiles_n);
    const int height = min(tiles_m - group * GROUP_M, GROUP_M);
    const int row0 = (group * GROUP_M + within % height) * BLOCK_M, col0 = (within / height) * BLOCK_N;
    const int tx = threadIdx.x % (BLOCK_N / 8), ty = threadIdx.x / (BLOCK_N / 8);
    float next_a[LOADS_A], next_b[LOADS_B];
    float acc[8][8] = {};

    const auto fetch = [&](int k0) {
        #pragma unroll
        for (int i = 0; i < LOADS_A; ++i) {
            const int at = threadIdx.x + i * THREADS, row = row0 + at / BLOCK_K, col = k0 + at % BLOCK_K;
            next_a[i] = row < m && col < k ? a[(int64_t)row * k + col] : 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < LOADS_B; ++i) {
            const int at = threadIdx.x + i * THREADS, row = k0 + at / BLOCK_N, col = col0 + at % BLOCK_N;
            next_b[i] = row < k && col < n ? b[(int64_t)row * n + col] : 0.0f;
        }
    };
    const auto put = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < LOADS_A; ++i) {
            const int at = threadIdx.x + i * THREADS;
            left[buffer][at % BLOCK_K][at / BLOCK_K] = next_a[i];
        }
        #pragma unroll
        for (int i = 0; i < LOADS_B; ++i) {
            const int at = threadIdx.x + i * THREADS;
            right[buffer][at / BLOCK_N][at % BLOCK_N] = next_b[i];
        }
    };

    fetch(0);
    put(0);
    __syncthreads();
    int buffer = 0;
    for (int k0 = 0; k0 < k; k0 += BLOCK_K) {
        const bool more = k0 + BLOCK_K < k;
        if (more) fetch(k0 + BLOCK_K);  // in flight while this tile is multiplied
        #pragma unroll
        for (int kk = 0; kk < BLOCK_K; ++kk) {
            float p[8], q[8];  // a thread's rows and columns: two runs of four, half a tile apart, which spreads the banks
            *reinterpret_cast<float4*>(p) = *reinterpret_cast<const float4*>(&left[buffer][kk][ty * 4]);
            *reinterpret_cast<float4*>(p + 4) = *reinterpret_cast<const float4*>(&left[buffer][kk][BLOCK_M / 2 + ty * 4]);
            *reinterpret_cast<float4*>(q) = *reinterpret_cast<const float4*>(&right[buffer][kk][tx * 4]);
            *reinterpret_cast<float4*>(q + 4) = *reinterpret_cast<const float4*>(&right[buffer][kk][BLOCK_N / 2 + tx * 4]);
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] = fmaf(p[i], q[j], acc[i][j]);
        }
        if (more) {
            put(buffer ^ 1);
            __syncthreads();
            buffer ^= 1;
        }
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = row0 + (i / 4) * (BLOCK_M / 2) + ty * 4 + i % 4;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int col = col0 + (j / 4) * (BLOCK_N / 2) + tx * 4 + j % 4;
            if (row < m && col < n) c[(int64_t)row * n + col] = acc[i][j];
        }
    }
}

extern "C" int matmul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, void* stream) {
    if (m == 0 || n == 0) return 0;
    const int64_t tiles = ((m + BLOCK_M - 1) / BLOCK_M) * ((n + BLOCK_N - 1) / BLOCK_N);
    matmul_kernel<<<(unsigned)tiles, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(a, b, c, (int)m, (int)n, (int)k);
    return (int)cudaGetLastError();
}
'''
SIGNATURES = {"matmul": "f32* a, f32* b, f32* c, i64 m, i64 n, i64 k"}


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b of float32 matrices (M, K) and (K, N); other strides than row-major are copied first."""
    a, b = a.contiguous(), b.contiguous()
    c = torch.empty(a.shape[0], b.shape[1], device=a.device)
    native.matmul(a, b, c, a.shape[0], b.shape[1], a.shape[1])
    return c


class ModelNew(nn.Module):
    """torch.matmul(A, B)."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:  # noqa: N803 (names as problems have them)
        """(M, N), float32."""
        return run(A, B)
