"""Scaled dot product attention without storing the scores. Default problem: F.scaled_dot_product_attention(q, k, v).

Heads up to 256 wide run in one kernel. Wider heads do not fit a tile: scores, softmax and product are three kernels then.
float32 is multiplied as in matmul.py: bfloat16 products that keep about float32's own error.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import nn

OP = "attention"
SHAPE = {"causal": False, "scale": None}  # scale None: 1 / sqrt(head size)
PARAMS = {"block_m": 64, "block_n": 64, "num_warps": 4, "num_stages": 2, "precision": "bf16x3"}
SPACE = {
    "block_m": [16, 32, 64, 128], "block_n": [16, 32, 64, 128], "num_warps": [4, 8], "num_stages": [1, 2, 3, 4],
    "precision": ["bf16x3", "bf16x6", "tf32x3", "ieee"],
}


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
    """F.scaled_dot_product_attention(Q, K, V)."""

    def forward(self, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:  # noqa: N803 (names as problems have them)
        """(B, heads, S, D)."""
        return run(Q, K, V)
