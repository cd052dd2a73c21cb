"""Matrix product with any strides, batched or not, with split K, triangular shortcuts and an epilogue. Default problem: A @ B.

float32 is multiplied on tensor cores as sums of bfloat16 products ("bf16x3": three of them, about float32's own error) or in plain
float32 ("ieee"); TF32 alone is not offered, its error is a thousand times larger. float16 and bfloat16 accumulate in float32.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import nn

OP = "matmul"
SHAPE = {"triangular": None, "triangular_inputs": False}  # "lower", "upper": output masked; inputs too: K outside is skipped
PARAMS = {
    "block_m": 128, "block_n": 128, "block_k": 32, "group_m": 8, "split_k": 1, "num_warps": 8, "num_stages": 3, "precision": "bf16x3",
}
SPACE = {
    "block_m": [32, 64, 128, 256], "block_n": [32, 64, 128, 256], "block_k": [16, 32, 64], "group_m": [1, 4, 8, 16],
    "split_k": [1, 2, 4, 8, 16, 32, 64], "num_warps": [4, 8], "num_stages": [2, 3, 4, 5],
    "precision": ["bf16x3", "bf16x6", "tf32x3", "ieee"],
}


@triton.jit
def chain(x0):
    """Epilogue: applied to the float32 accumulator, bias included."""
    return x0


@triton.jit
def kept(rm, rn, TRIANGULAR: tl.constexpr):
    return rn[None, :] <= rm[:, None] if TRIANGULAR == "lower" else rn[None, :] >= rm[:, None]


@triton.jit
def matmul_kernel(
    a, b, bias, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    SAB: tl.constexpr, SAM: tl.constexpr, SAK: tl.constexpr, SBB: tl.constexpr, SBK: tl.constexpr, SBN: tl.constexpr,
    BIAS: tl.constexpr, TRIANGULAR: tl.constexpr, TRIANGULAR_INPUTS: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, SPLIT_K: tl.constexpr,
    CHUNK: tl.constexpr, BATCH: tl.constexpr,
):
    """One (BLOCK_M, BLOCK_N) tile of one batch over K chunk program_id(1); SPLIT_K > 1 writes parts (SPLIT_K, BATCH, M, N)."""
    TILES_M: tl.constexpr = (M + BLOCK_M - 1) // BLOCK_M
    TILES_N: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    pid = tl.program_id(0) % (TILES_M * TILES_N)
    batch = tl.program_id(0) // (TILES_M * TILES_N)
    split = tl.program_id(1)
    if TRIANGULAR == "lower":
        pid = TILES_M * TILES_N - 1 - pid  # the longest tiles first
    group = pid // (GROUP_M * TILES_N)
    height = tl.minimum(TILES_M - group * GROUP_M, GROUP_M)
    pid_m = group * GROUP_M + (pid % (GROUP_M * TILES_N)) % height
    pid_n = (pid % (GROUP_M * TILES_N)) // height
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    first = split * CHUNK
    last = tl.minimum(first + CHUNK, K)
    if TRIANGULAR == "lower":
        if TRIANGULAR_INPUTS:  # a[i, k] is zero for k > i, b[k, j] for k < j
            first = tl.maximum(first, (pid_n * BLOCK_N) // BLOCK_K * BLOCK_K)
            last = tl.minimum(last, pid_m * BLOCK_M + BLOCK_M)
        if pid_n * BLOCK_N > pid_m * BLOCK_M + BLOCK_M - 1:
            last = first
    elif TRIANGULAR == "upper":
        if TRIANGULAR_INPUTS:
            first = tl.maximum(first, (pid_m * BLOCK_M) // BLOCK_K * BLOCK_K)
            last = tl.minimum(last, pid_n * BLOCK_N + BLOCK_N)
        if pid_m * BLOCK_M > pid_n * BLOCK_N + BLOCK_N - 1:
            last = first
    rk = tl.arange(0, BLOCK_K)
    wide_m = rm.to(tl.int64) if WIDE else rm
    wide_n = rn.to(tl.int64) if WIDE else rn
    wide_first = first.to(tl.int64) if WIDE else first
    a_at = a + batch.to(tl.int64) * SAB + wide_m[:, None] * SAM + (wide_first + rk)[None, :] * SAK
    b_at = b + batch.to(tl.int64) * SBB + (wide_first + rk)[:, None] * SBK + wide_n[None, :] * SBN
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(first, last, BLOCK_K):
        # a mask that cannot bite is left out, for each side apart: an even shape loads without any
        if K % BLOCK_K == 0:
            a_mask = None if M % BLOCK_M == 0 else (rm < M)[:, None]
            b_mask = None if N % BLOCK_N == 0 else (rn < N)[None, :]
        else:
            a_mask = (rk < K - k)[None, :] if M % BLOCK_M == 0 else (rm < M)[:, None] & (rk < K - k)[None, :]
            b_mask = (rk < K - k)[:, None] if N % BLOCK_N == 0 else (rk < K - k)[:, None] & (rn < N)[None, :]
        left = tl.load(a_at, mask=a_mask, other=None if a_mask is None else 0.0)
        right = tl.load(b_at, mask=b_mask, other=None if b_mask is None else 0.0)
        acc = tl.dot(left, right, acc, input_precision=PRECISION)
        a_at += BLOCK_K * SAK
        b_at += BLOCK_K * SBK
    inside = (rm < M)[:, None] & (rn < N)[None, :]
    slot = split.to(tl.int64) * BATCH + batch
    at = c + slot * M * N + wide_m[:, None] * N + wide_n[None, :]
    if SPLIT_K == 1:
        if BIAS:
            acc += tl.load(bias + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
        acc = chain(acc)
        if TRIANGULAR is not None:
            acc = tl.where(kept(rm, rn, TRIANGULAR), acc, 0.0)
    tl.store(at, acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def combine_kernel(
    parts, bias, c, M: tl.constexpr, N: tl.constexpr, TOTAL: tl.constexpr, SPLIT_K: tl.constexpr, BIAS: tl.constexpr,
    TRIANGULAR: tl.constexpr, BLOCK: tl.constexpr,
):
    """Add the SPLIT_K parts in their order, then bias and epilogue."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at = parts + i
    acc = tl.zeros([BLOCK], tl.float32)
    for _ in range(0, SPLIT_K):
        acc += tl.load(at, mask=i < TOTAL, other=0.0)
        at += TOTAL
    if BIAS:
        acc += tl.load(bias + i % N, mask=i < TOTAL, other=0.0).to(tl.float32)
    acc = chain(acc)
    if TRIANGULAR == "lower":
        acc = tl.where(i % N <= (i // N) % M, acc, 0.0)
    elif TRIANGULAR == "upper":
        acc = tl.where(i % N >= (i // N) % M, acc, 0.0)
    tl.store(c + i, acc.to(c.dtype.element_ty), mask=i < TOTAL)


def batched(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """`a` (batch, M, K), `b` (batch, K, N) with batch stride 0 where shared, and the output's leading dimensions."""
    if b.dim() == 2:
        rows = math.prod(a.shape[:-1])
        flat = a if a.dim() == 2 else a.reshape(rows, a.shape[-1])
        return flat.unsqueeze(0), b.unsqueeze(0), list(a.shape[:-1])
    lead = list(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    a, b = a.expand(*lead, *a.shape[-2:]), b.expand(*lead, *b.shape[-2:])
    if len(lead) > 1:
        a, b = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
    return a, b, [*lead, a.shape[-2]]


def run(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """chain(a @ b + bias): `a` (..., M, K), `b` (K, N) or (..., K, N), `bias` (N,); result (..., M, N) in the promoted dtype.

    Any strides: transposes are passed as views. SHAPE["triangular"] "lower" or "upper" is torch.tril or torch.triu of the result;
    SHAPE["triangular_inputs"] may be set only where both inputs are triangular the same way.
    """
    dtype = torch.promote_types(a.dtype, b.dtype)
    exact = a.device.type == "cpu"  # the interpreter: it knows "ieee" alone, and multiplies bfloat16 wrongly
    a, b, lead = batched(*(x.to(torch.float32 if exact else dtype) for x in (a, b)))
    (batch, m, k), n = a.shape, b.shape[2]
    c = torch.empty(*lead, n, dtype=dtype, device=a.device)
    block_m, block_n, block_k = (
        min(PARAMS[name], max(16, triton.next_power_of_2(size))) for name, size in (("block_m", m), ("block_n", n), ("block_k", k))
    )
    chunk = triton.cdiv(triton.cdiv(k, PARAMS["split_k"]), block_k) * block_k
    split_k = triton.cdiv(k, chunk)
    parts = torch.empty(split_k, batch, m, n, dtype=torch.float32, device=a.device) if split_k > 1 else c
    reach = max(m * n, *(sum((size - 1) * stride for size, stride in zip(x.shape[1:], x.stride()[1:], strict=True)) for x in (a, b)))
    matmul_kernel[(triton.cdiv(m, block_m) * triton.cdiv(n, block_n) * batch, split_k)](
        a, b, a if bias is None else bias.contiguous(), parts, m, n, k, *a.stride(), *b.stride(),
        bias is not None, SHAPE["triangular"], SHAPE["triangular_inputs"], PARAMS["precision"] if dtype == torch.float32 and not exact else "ieee",
        reach > 2**31 - 2**24, block_m, block_n, block_k, PARAMS["group_m"], split_k, chunk, batch,
        num_warps=PARAMS["num_warps"], num_stages=PARAMS["num_stages"],
    )
    if split_k > 1:
        block = min(1024, triton.next_power_of_2(c.numel()))
        combine_kernel[(triton.cdiv(c.numel(), block),)](
            parts, a if bias is None else bias.contiguous(), c, m, n, c.numel(), split_k, bias is not None, SHAPE["triangular"], block
        )
    return c


class ModelNew(nn.Module):
    """torch.matmul(A, B)."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:  # noqa: N803 (names as problems have them)
        """(M, N)."""
        return run(A, B)
