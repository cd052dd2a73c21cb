"""Sum, mean, maximum or minimum of an elementwise chain over adjacent dimensions, in CUDA C++. Default problem: sum over dim 1.

Sums: a thread's few neighbours in float32, everything else in float64 (a half-rate unit on data-centre GPUs, hidden behind memory),
in an order that does not depend on timing. Long rows are split over blocks and combined by a second kernel.
PARAMS are the `constexpr int` lines of CUDA_SRC with the same names in capitals; a search rewrites both, and may replace the text
between the `chain` markers.
"""

import math

import native
import torch
from torch import nn

OP = "reduce"
SHAPE = {"kind": "sum", "dim": 1, "keepdim": False, "divide": None}  # kind: sum, mean, max, min; dim None: all
PARAMS = {"threads": 256, "unroll": 4, "blocks": 1056}  # blocks: about how many in all, where rows are split
SPACE = {"threads": [128, 256, 512, 1024], "unroll": [1, 2, 4, 8], "blocks": [264, 528, 1056, 2112, 4224]}

CUDA_SRC = r'''
constexpr int THREADS = 256;
constexpr int UNROLL = 4;
constexpr int BLOCKS = 1056;  // the Python side reads this one, from PARAMS: it makes room for the parts

// chain begin
__device__ __forceinline__ float chain(float x0, float x1) { return x0; }
// chain end

enum Kind { SUM = 0, MAX = 1, MIN = 2 };

template <int KIND> __device__ __forceinline__ float neutral() { return KIND == SUM ? 0.0f : KIND == MAX ? -INFINITY : INFINITY; }

template <int KIND, class T> __device__ __forceinline__ T join(T a, T b) {  // NaN wins, as in torch
    if (KIND == SUM) return a + b;
    if (KIND == MAX) return (a > b || a != a) ? a : b;
    return (a < b || a != a) ? a : b;
}

template <int KIND> __device__ double over_block(double v, double* slots) {
    for (int step = 16; step > 0; step /= 2) v = join<KIND>(v, __shfl_xor_sync(0xffffffffu, v, step));
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < THREADS / 32 ? slots[threadIdx.x % 32] : (double)neutral<KIND>();
    for (int step = 16; step > 0; step /= 2) v = join<KIND>(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}

// One chunk of one contiguous row of n, into parts[split * rows + row].
template <int KIND, bool VECTOR>
__global__ void row_kernel(const float* __restrict__ a, const float* __restrict__ b, double* __restrict__ parts, int64_t n, int64_t chunk) {
    __shared__ double slots[32];
    const int64_t row = blockIdx.x, begin = blockIdx.y * chunk, end = min(n, begin + chunk);
    const float* p = a + row * n;
    const float* q = b + row * n;
    double total = neutral<KIND>();
    if (VECTOR) {
        const int64_t pace = (int64_t)THREADS * 4;
        for (int64_t start = begin + threadIdx.x * 4; start < end; start += pace * UNROLL) {
            float4 v[UNROLL], w[UNROLL];
            #pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const int64_t at = start + u * pace;
                if (at < end) {
                    v[u] = __ldcs(reinterpret_cast<const float4*>(p + at));
                    w[u] = b == a ? v[u] : __ldcs(reinterpret_cast<const float4*>(q + at));
                }
            }
            #pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                if (start + u * pace < end) {
                    const float low = join<KIND>(chain(v[u].x, w[u].x), chain(v[u].y, w[u].y));
                    const float high = join<KIND>(chain(v[u].z, w[u].z), chain(v[u].w, w[u].w));
                    total = join<KIND>(total, (double)join<KIND>(low, high));
                }
            }
        }
    } else {
        #pragma unroll 4
        for (int64_t at = begin + threadIdx.x; at < end; at += THREADS) {
            total = join<KIND>(total, (double)chain(__ldcs(p + at), b == a ? __ldcs(p + at) : __ldcs(q + at)));
        }
    }
    total = over_block<KIND>(total, slots);
    if (threadIdx.x == 0) parts[(int64_t)blockIdx.y * gridDim.x + row] = total;
}

// One chunk of n of 32 neighbouring columns of (outer, n, inner); THREADS / 32 threads share a column.
template <int KIND>
__global__ void column_kernel(const float* __restrict__ a, const float* __restrict__ b, double* __restrict__ parts, int64_t n, int64_t inner,
                              int64_t tiles, int64_t chunk) {
    __shared__ double slots[THREADS / 32][33];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t outer = blockIdx.x / tiles, column = (blockIdx.x % tiles) * 32 + lane;
    const int64_t begin = blockIdx.y * chunk, end = min(n, begin + chunk);
    const int64_t base = outer * n * inner + column;
    double total = neutral<KIND>();
    if (column < inner) {
        constexpr int64_t PACE = THREADS / 32;
        for (int64_t start = begin + warp; start < end; start += PACE * UNROLL) {
            float v[UNROLL], w[UNROLL];
            #pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const int64_t at = start + u * PACE;
                if (at < end) {
                    v[u] = __ldcs(a + base + at * inner);
                    w[u] = b == a ? v[u] : __ldcs(b + base + at * inner);
                }
            }
            float few = neutral<KIND>();
            #pragma unroll
            for (int u = 0; u < UNROLL; ++u) if (start + u * PACE < end) few = join<KIND>(few, chain(v[u], w[u]));
            total = join<KIND>(total, (double)few);
        }
    }
    slots[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && column < inner) {
        for (int part = 1; part < THREADS / 32; ++part) total = join<KIND>(total, slots[part][lane]);
        parts[blockIdx.y * ((int64_t)gridDim.x / tiles * inner) + outer * inner + column] = total;
    }
}

// parts (splits, lanes) to y (lanes,), one warp a lane.
template <int KIND>
__global__ void combine_kernel(const double* __restrict__ parts, float* __restrict__ y, int64_t lanes, int64_t splits, double divide) {
    const int64_t lane = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (lane >= lanes) return;  // whole warps leave together
    double total = neutral<KIND>();
    for (int64_t split = threadIdx.x % 32; split < splits; split += 32) total = join<KIND>(total, parts[split * lanes + lane]);
    for (int step = 16; step > 0; step /= 2) total = join<KIND>(total, __shfl_xor_sync(0xffffffffu, total, step));
    if (threadIdx.x % 32 == 0) y[lane] = (float)(total / divide);
}

template <int KIND>
int reduce(const float* a, const float* b, double* parts, float* y, int64_t outer, int64_t n, int64_t inner, int64_t splits, double divide,
           cudaStream_t on) {
    const int64_t lanes = outer * inner;
    const int64_t chunk = ((n + splits - 1) / splits + 3) / 4 * 4;
    if (inner == 1) {
        const bool vector = n % 4 == 0 && ((uintptr_t)a | (uintptr_t)b) % 16 == 0;
        const dim3 grid((unsigned)outer, (unsigned)splits);
        if (vector) row_kernel<KIND, true><<<grid, THREADS, 0, on>>>(a, b, parts, n, chunk);
        else row_kernel<KIND, false><<<grid, THREADS, 0, on>>>(a, b, parts, n, chunk);
    } else {
        const int64_t tiles = (inner + 31) / 32;
        column_kernel<KIND><<<dim3((unsigned)(outer * tiles), (unsigned)splits), THREADS, 0, on>>>(a, b, parts, n, inner, tiles, chunk);
    }
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return (int)error;
    const int64_t warps = THREADS / 32;
    combine_kernel<KIND><<<(unsigned)((lanes + warps - 1) / warps), THREADS, 0, on>>>(parts, y, lanes, splits, divide);
    return (int)cudaGetLastError();
}

extern "C" int reduce_lanes(const float* a, const float* b, double* parts, float* y, int64_t outer, int64_t n, int64_t inner,
                            int64_t splits, int32_t kind, double divide, void* stream) {
    if (outer == 0 || inner == 0) return 0;
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    if (kind == SUM) return reduce<SUM>(a, b, parts, y, outer, n, inner, splits, divide, on);
    if (kind == MAX) return reduce<MAX>(a, b, parts, y, outer, n, inner, splits, divide, on);
    return reduce<MIN>(a, b, parts, y, outer, n, inner, splits, divide, on);
}
'''
SIGNATURES = {
    "reduce_lanes": "f32* a, f32* b, f64* parts, f32* y, i64 outer, i64 n, i64 inner, i64 splits, i32 kind, f64 divide",
}


def parts_of(outer: int, n: int, inner: int) -> int:
    """How many parts a lane's `n` elements are cut into, so that about PARAMS["blocks"] blocks run."""
    blocks = outer if inner == 1 else outer * ((inner + 31) // 32)
    least = PARAMS["threads"] * (16 if inner == 1 else 1)  # elements that are worth a block
    return max(1, min(PARAMS["blocks"] // max(1, blocks), n // least))


def run(*inputs: torch.Tensor) -> torch.Tensor:
    """`chain` of 1 or 2 float32 tensors of one shape, reduced over SHAPE["dim"] (int, adjacent ints, or None for all); float32.

    "sum" is divided by SHAPE["divide"] if given, "mean" by the number of elements.
    """
    a, b = inputs[0].contiguous(), inputs[-1].contiguous()
    dims = range(a.dim()) if SHAPE["dim"] is None else [SHAPE["dim"]] if isinstance(SHAPE["dim"], int) else SHAPE["dim"]
    ordered = sorted(d % a.dim() for d in dims)
    first, end = ordered[0], ordered[-1] + 1
    outer, n, inner = (math.prod(part) for part in (a.shape[:first], a.shape[first:end], a.shape[end:]))
    kept = [1] * (end - first) if SHAPE["keepdim"] else []
    splits = parts_of(outer, n, inner)
    y = torch.empty([*a.shape[:first], *kept, *a.shape[end:]], device=a.device)
    parts = torch.empty(splits * outer * inner, dtype=torch.float64, device=a.device)
    kind = {"sum": 0, "mean": 0, "max": 1, "min": 2}[SHAPE["kind"]]
    divide = float(n) if SHAPE["kind"] == "mean" else float(SHAPE["divide"] or 1.0)
    native.reduce_lanes(a, b, parts, y, outer, n, inner, splits, kind, divide)
    return y


class ModelNew(nn.Module):
    """torch.sum(x, dim=1)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` without dim 1, float32."""
        return run(x)
