# L1/97 97_ScaledDotProductAttention: 1.294x eager (1.246 to 1.402); 1.306x compile (1.223 to 1.393)
# Rules strict/5, precision ieee-grade, candidate cd35d427461bc9b351db915ea07f0b8d371775042369d29c729a01d4a507c331
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-12-01T14:03:56+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/97 runs/L1-h200-h/winners/L1_97.py --source kernelbench/data

"""Attention without storing the scores."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import nn

SHAPE = {'causal': False, 'scale': None}
PARAMS = {'block_m': 64, 'block_n': 64, 'num_warps': 4, 'num_stages': 2, 'precision': 'bf16x6'}


class DirectKernel:
    """A kernel whose launches, from the second with like arguments on, go straight to what was compiled for the first."""

    def __init__(self, kernel):
        self.kernel, self.compiled = kernel, {}
        self.given = 1 + max(n for n, parameter in enumerate(kernel.params) if not parameter.is_constexpr)  # constants alone from there on

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.launch((*grid, 1, 1)[:3], arguments, options)

    def launch(self, grid, arguments, options):
        """All arguments by position. Triton compiles for constants, types, integers and whether pointers are multiples of 16."""
        key = (torch.cuda.current_device(), arguments[self.given:], *options.values(), *[
            (x.dtype, x.data_ptr() % 16) if isinstance(x, torch.Tensor) else float if isinstance(x, float) else x for x in arguments[:self.given]
        ])
        compiled = self.compiled.get(key)
        if compiled is None:
            self.compiled[key] = self.kernel[grid](*arguments, **options)
        else:
            compiled[grid](*arguments)


def direct(kernel):
    """Direct launches for a compiled kernel; an interpreted one stays as it is."""
    return DirectKernel(kernel) if isinstance(kernel, triton.JITFunction) else kernel


@direct
@triton.jit
def attention_kernel(
    q, k, v, o, HEADS: tl.constexpr, SHARED: tl.constexpr, SQ: tl.constexpr, SK: tl.constexpr, D: tl.constexpr, SCALE: tl.constexpr,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):
    """BLOCK_M queries of one head over all its keys, by an online softmax in base 2; q, k, v contiguous (B, heads, S, D)."""
    TILES: tl.constexpr = (SQ + BLOCK_M - 1) // BLOCK_M
    head = (tl.program_id(0) // TILES).to(tl.int64)
    tile = TILES - 1 - tl.program_id(0) % TILES  # where causal, the longest tiles first
    kv_head = (head // HEADS) * (HEADS // SHARED) + (head % HEADS) // SHARED
    rm = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    rd = tl.arange(0, BLOCK_D)
    queries = tl.load(q + head * SQ * D + rm[:, None] * D + rd[None, :], mask=(rm < SQ)[:, None] & (rd < D)[None, :], other=0.0)
    top = tl.full([BLOCK_M], -1.0e30, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    end = tl.minimum(SK, (tile + 1) * BLOCK_M) if CAUSAL else SK
    for start in range(0, end, BLOCK_N):
        rn = start + tl.arange(0, BLOCK_N)
        places = rn[:, None] * D + rd[None, :]
        mask = (rn < SK)[:, None] & (rd < D)[None, :]
        keys = tl.load(k + kv_head * SK * D + places, mask=mask, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * (SCALE * 1.4426950408889634)
        seen = (rn < SK)[None, :]
        if CAUSAL:
            seen = seen & (rn[None, :] <= rm[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(weights, 1)
        values = tl.load(v + kv_head * SK * D + places, mask=mask, other=0.0)
        acc = tl.dot(weights.to(values.dtype), values, acc * fade[:, None], input_precision=PRECISION)
        top = higher
    at = o + head * SQ * D + rm[:, None] * D + rd[None, :]
    tl.store(at, (acc / total[:, None]).to(o.dtype.element_ty), mask=(rm < SQ)[:, None] & (rd < D)[None, :])


@direct
@triton.jit
def product_kernel(
    a, b, c, HEADS: tl.constexpr, SHARED: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TRANSPOSED: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One tile of a (M, K) times b (K, N), or b's transpose (N, K), of one head."""
    TILES_N: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    TILES: tl.constexpr = TILES_N * ((M + BLOCK_M - 1) // BLOCK_M)
    head = (tl.program_id(0) // TILES).to(tl.int64)
    tile = tl.program_id(0) % TILES
    kv_head = (head // HEADS) * (HEADS // SHARED) + (head % HEADS) // SHARED
    rm = (tile // TILES_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = (tile % TILES_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        rk = start + tl.arange(0, BLOCK_K)
        left = tl.load(a + head * M * K + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
        places = rk[:, None] + rn[None, :] * K if TRANSPOSED else rk[:, None] * N + rn[None, :]
        right = tl.load(b + kv_head * N * K + places, mask=(rk < K)[:, None] & (rn < N)[None, :], other=0.0)
        acc = tl.dot(left.to(right.dtype), right, acc, input_precision=PRECISION)
    at = c + head * M * N + rm[:, None] * N + rn[None, :]
    tl.store(at, acc.to(c.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])


@direct
@triton.jit
def softmax_kernel(s, SQ: tl.constexpr, SK: tl.constexpr, SCALE: tl.constexpr, CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax of one row of scores, in place."""
    row = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, BLOCK)
    seen = (n < SK) & (n <= row % SQ) if CAUSAL else n < SK
    v = tl.load(s + row * SK + n, mask=seen, other=float("-inf")) * (SCALE * 1.4426950408889634)
    e = tl.exp2(v - tl.max(v, 0))
    tl.store(s + row * SK + n, e / tl.sum(e, 0), mask=n < SK)


def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """softmax(q @ k^T * scale) @ v for (B, heads, S, D); k and v may have fewer heads, each serving neighbouring query heads.

    SHAPE["causal"]: query i sees keys 0 .. i. Same dtype as `q`, softmax and sums in float32.
    """
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    batch, heads, sq, d = q.shape
    sk, shared = k.shape[2], heads // k.shape[1]
    scale = SHAPE["scale"] or 1.0 / math.sqrt(d)
    precision = PARAMS["precision"] if q.dtype == torch.float32 and q.device.type != "cpu" else "ieee"
    options = {"num_warps": PARAMS["num_warps"], "num_stages": PARAMS["num_stages"]}
    o = torch.empty_like(q)
    if q.device.type == "cpu":  # the interpreter: it knows "ieee" alone, and multiplies bfloat16 wrongly
        q, k, v = q.float(), k.float(), v.float()
    if d <= 256:
        block_m, block_n = (min(PARAMS[name], max(16, 1 << (s - 1).bit_length())) for name, s in (("block_m", sq), ("block_n", sk)))
        attention_kernel[(-(-sq // block_m) * batch * heads,)](
            q, k, v, o, heads, shared, sq, sk, d, scale, SHAPE["causal"], precision, block_m, block_n, max(16, 1 << (d - 1).bit_length()),
            **options,
        )
        return o
    scores = torch.empty(batch * heads, sq, sk, dtype=torch.float32, device=q.device)
    for a, b, c, n, inner, transposed in ((q, k, scores, sk, d, True), (scores, v, o, d, sk, False)):
        block_m, block_n, block_k = (min(size, max(16, 1 << (s - 1).bit_length())) for size, s in ((128, sq), (128, n), (32, inner)))
        product_kernel[(-(-sq // block_m) * -(-n // block_n) * batch * heads,)](
            a, b, c, heads, shared, sq, n, inner, transposed, precision, block_m, block_n, block_k, num_warps=8, num_stages=3
        )
        if transposed:
            softmax_kernel[(batch * heads * sq,)](scores, sq, sk, scale, SHAPE["causal"], 1 << (sk - 1).bit_length(), num_warps=4)
    return o


class ModelNew(nn.Module):
    """Attention without storing the scores."""

    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, Q, K, V):
        return run(Q, K, V)
