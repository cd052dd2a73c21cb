"""Matrix product with any strides, batched or not, with split K, triangular shortcuts and an epilogue. Default problem: A @ B.

float32 is multiplied on tensor cores as sums of bfloat16 products ("bf16x3": three of them, about float32's own error where K is a
thousand or more; "bf16x6": six, for smaller K) or in plain float32 ("ieee"); TF32 alone is not offered, its error is a thousand times
larger. float16 and bfloat16 accumulate in float32.

`prepare` "split" writes the bfloat16 parts of A and B once, side by side along K, so that the product is one of bfloat16 matrices with
K three or six times as long: worth two small passes where M and N are large. "pad" copies matrices whose rows are not a multiple of 16
bytes, which could be loaded only four bytes at a time.

A tensor core cuts what it adds off at its accumulator's last bit, always towards zero, so that a sum of thousands of positive products
comes out too small. `flush` ends the sum every so many products along K and adds it up outside, rounded.
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
    "block_m": 128, "block_n": 128, "block_k": 64, "group_m": 8, "split_k": 0, "num_warps": 8, "num_stages": 3, "precision": "bf16x3",
    "prepare": "split", "flush": 0,
}  # split_k 0: chosen by the shape; flush 0: never
SPACE = {
    "block_m": [32, 64, 128, 256], "block_n": [32, 64, 128, 256], "block_k": [16, 32, 64, 128],
    "group_m": [1, 4, 8, 16], "split_k": [0, 1, 2, 4, 8, 16, 32, 64, 128], "num_warps": [4, 8], "num_stages": [2, 3, 4, 5],
    "precision": ["bf16x3", "bf16x6", "tf32x3", "ieee"], "prepare": ["none", "pad", "split"],
    "flush": [0, 1024, 2048, 4096],
}
PARTS = {"bf16x3": 3, "bf16x6": 6}


@triton.jit
def chain(x0, x1, x2, x3):
    """Epilogue: applied to the float32 accumulator, bias included, with up to three more tensors or numbers."""
    return x0


@triton.jit
def extra(e, row, column, rows, columns, DOWN: tl.constexpr, ACROSS: tl.constexpr):
    """One more tensor at (row, column), DOWN and ACROSS apart, in float32. DOWN -1: a number; -2: none."""
    if DOWN == -2:
        return 0.0
    elif DOWN == -1:
        return e
    elif DOWN == 0 and ACROSS == 0:
        return tl.load(e).to(tl.float32)
    elif DOWN == 0:
        return tl.load(e + column * ACROSS, mask=columns, other=0.0).to(tl.float32)
    elif ACROSS == 0:
        return tl.load(e + row * DOWN, mask=rows, other=0.0).to(tl.float32)
    else:
        return tl.load(e + row * DOWN + column * ACROSS, mask=rows & columns, other=0.0).to(tl.float32)


@triton.jit
def kept(rm, rn, TRIANGULAR: tl.constexpr):
    return rn[None, :] <= rm[:, None] if TRIANGULAR == "lower" else rn[None, :] >= rm[:, None]


@triton.jit
def prepare_kernel(
    x, y, SLOW: tl.constexpr, FAST: tl.constexpr, WIDE_SLOW: tl.constexpr, WIDE_FAST: tl.constexpr,
    XB: tl.constexpr, XS: tl.constexpr, XF: tl.constexpr, YB: tl.constexpr, YS: tl.constexpr, PART: tl.constexpr,
    COPIES: tl.constexpr, LEFT: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_F: tl.constexpr,
):
    """Copy (SLOW, FAST) of each batch to (WIDE_SLOW, WIDE_FAST), zeros beyond, once for each of COPIES, which lie PART apart.

    Parts are rounded to bfloat16: the number, what that leaves, what that leaves again. The left matrix's part i meets the right
    one's part i, small products first, so that the sum is small while they are added.
    """
    TILES_F: tl.constexpr = (WIDE_FAST + BLOCK_F - 1) // BLOCK_F
    TILES: tl.constexpr = TILES_F * ((WIDE_SLOW + BLOCK_S - 1) // BLOCK_S)
    pid = tl.program_id(0) % TILES
    batch = (tl.program_id(0) // TILES).to(tl.int64)
    s = (pid // TILES_F) * BLOCK_S + tl.arange(0, BLOCK_S)
    f = (pid % TILES_F) * BLOCK_F + tl.arange(0, BLOCK_F)
    source = x + batch * XB + s.to(tl.int64)[:, None] * XS + f.to(tl.int64)[None, :] * XF
    target = y + batch * YB + s.to(tl.int64)[:, None] * YS + f[None, :]
    inside = (s < WIDE_SLOW)[:, None] & (f < WIDE_FAST)[None, :]
    v = tl.load(source, mask=(s < SLOW)[:, None] & (f < FAST)[None, :], other=0.0)
    if COPIES == 1:
        tl.store(target, v, mask=inside)
    else:
        first = v.to(tl.bfloat16).to(tl.float32)
        rest = tl.where(tl.abs(first) < float("inf"), v - first, 0.0)
        second = rest.to(tl.bfloat16).to(tl.float32)
        first_out = first.to(y.dtype.element_ty)
        second_out = second.to(y.dtype.element_ty)
        if COPIES == 3:
            tl.store(target, second_out if LEFT else first_out, mask=inside)
            tl.store(target + PART, first_out if LEFT else second_out, mask=inside)
            tl.store(target + 2 * PART, first_out, mask=inside)
        else:
            third_out = (rest - second).to(tl.bfloat16).to(y.dtype.element_ty)
            tl.store(target, first_out if LEFT else third_out, mask=inside)
            tl.store(target + PART, second_out, mask=inside)
            tl.store(target + 2 * PART, third_out if LEFT else first_out, mask=inside)
            tl.store(target + 3 * PART, first_out if LEFT else second_out, mask=inside)
            tl.store(target + 4 * PART, second_out if LEFT else first_out, mask=inside)
            tl.store(target + 5 * PART, first_out, mask=inside)


@triton.jit
def summed(
    a_at, b_at, rm, rn, rk, first, last, K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SAK: tl.constexpr, SBK: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """A tile's products over K from `first` to before `last`, from the tiles at `a_at` and `b_at` on."""
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(first, last, BLOCK_K):
        # a mask that cannot bite is left out, for each side apart: an even shape loads without any
        if K % BLOCK_K == 0:
            a_mask = None if ROWS % BLOCK_M == 0 else (rm < ROWS)[:, None]
            b_mask = None if COLUMNS % BLOCK_N == 0 else (rn < COLUMNS)[None, :]
        else:
            a_mask = (rk < K - k)[None, :] if ROWS % BLOCK_M == 0 else (rm < ROWS)[:, None] & (rk < K - k)[None, :]
            b_mask = (rk < K - k)[:, None] if COLUMNS % BLOCK_N == 0 else (rk < K - k)[:, None] & (rn < COLUMNS)[None, :]
        left = tl.load(a_at, mask=a_mask, other=None if a_mask is None else 0.0)
        right = tl.load(b_at, mask=b_mask, other=None if b_mask is None else 0.0)
        acc = tl.dot(left, right, acc, input_precision=PRECISION)
        a_at += BLOCK_K * SAK
        b_at += BLOCK_K * SBK
    return acc


@triton.jit
def matmul_kernel(
    a, b, bias, e1, e2, e3, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    SAB: tl.constexpr, SAM: tl.constexpr, SAK: tl.constexpr, SBB: tl.constexpr, SBK: tl.constexpr, SBN: tl.constexpr,
    BIAS: tl.constexpr, TRIANGULAR: tl.constexpr, TRIANGULAR_INPUTS: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, SPLIT_K: tl.constexpr,
    CHUNK: tl.constexpr, BATCH: tl.constexpr, FLUSH: tl.constexpr,
    D1: tl.constexpr, A1: tl.constexpr, D2: tl.constexpr, A2: tl.constexpr, D3: tl.constexpr, A3: tl.constexpr,
):
    """One (BLOCK_M, BLOCK_N) tile of one batch over K chunk program_id(1); SPLIT_K > 1 writes parts (SPLIT_K, BATCH, M, N).

    ROWS and COLUMNS are what may be read of a and b: M and N, or more where they are padded.
    """
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
    if FLUSH == 0:
        acc = summed(a_at, b_at, rm, rn, rk, first, last, K, ROWS, COLUMNS, SAK, SBK, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K)
    else:
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for start in range(first, last, FLUSH):
            end = tl.minimum(start + FLUSH, last)
            acc += summed(a_at, b_at, rm, rn, rk, start, end, K, ROWS, COLUMNS, SAK, SBK, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K)
            a_at += FLUSH * SAK
            b_at += FLUSH * SBK
    inside = (rm < M)[:, None] & (rn < N)[None, :]
    slot = split.to(tl.int64) * BATCH + batch
    at = c + slot * M * N + wide_m[:, None] * N + wide_n[None, :]
    if SPLIT_K == 1:
        if BIAS:
            acc += tl.load(bias + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
        row, column, rows, columns = wide_m[:, None], wide_n[None, :], (rm < M)[:, None], (rn < N)[None, :]
        x1, x2 = extra(e1, row, column, rows, columns, D1, A1), extra(e2, row, column, rows, columns, D2, A2)
        acc = chain(acc, x1, x2, extra(e3, row, column, rows, columns, D3, A3))
        if TRIANGULAR is not None:
            acc = tl.where(kept(rm, rn, TRIANGULAR), acc, 0.0)
    tl.store(at, acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def combine_kernel(
    parts, bias, e1, e2, e3, c, M: tl.constexpr, N: tl.constexpr, TOTAL: tl.constexpr, SPLIT_K: tl.constexpr, BIAS: tl.constexpr,
    TRIANGULAR: tl.constexpr, ROUND: tl.constexpr, BLOCK: tl.constexpr,
    D1: tl.constexpr, A1: tl.constexpr, D2: tl.constexpr, A2: tl.constexpr, D3: tl.constexpr, A3: tl.constexpr,
):
    """Add the SPLIT_K parts, ROUND at a time, always in the same order; then bias and epilogue."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, SPLIT_K, ROUND):
        part = start + tl.arange(0, ROUND)
        at = parts + part.to(tl.int64)[:, None] * TOTAL + i[None, :]
        acc += tl.sum(tl.load(at, mask=(part < SPLIT_K)[:, None] & (i < TOTAL)[None, :], other=0.0), 0)
    if BIAS:
        acc += tl.load(bias + i % N, mask=i < TOTAL, other=0.0).to(tl.float32)
    row, column, mask = i // N, i % N, i < TOTAL
    x1, x2 = extra(e1, row, column, mask, mask, D1, A1), extra(e2, row, column, mask, mask, D2, A2)
    acc = chain(acc, x1, x2, extra(e3, row, column, mask, mask, D3, A3))
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
    lead = list(a.shape[:-2] if a.shape[:-2] == b.shape[:-2] else torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    a, b = a.expand(*lead, *a.shape[-2:]), b.expand(*lead, *b.shape[-2:])
    if len(lead) > 1:
        a, b = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
    return a, b, [*lead, a.shape[-2]]


def ragged(x: torch.Tensor) -> bool:
    """Whether some row of `x` (batch, rows, columns) begins or ends off a multiple of 16 bytes."""
    fast = 1 if x.stride(1) == 1 else 2
    return any(number * x.element_size() % 16 for number in (x.shape[fast], x.stride(3 - fast), x.stride(0)))


def prepared(x: torch.Tensor, left: bool, parts: int, dtype: torch.dtype, block: int, block_k: int) -> torch.Tensor:
    """`x` (batch, M, K), or (batch, K, N) if not `left`, as `prepare_kernel` copies it: K padded to `block_k` and repeated for each of
    `parts`, the other size to `block` where it is the contiguous one."""
    batch, along_k = x.shape[0], 2 if left else 1
    source = x[:1] if x.stride(0) == 0 else x
    fast = 1 if x.stride(1) == 1 else 2
    wide = list(x.shape)
    wide[along_k] = -(-x.shape[along_k] // block_k) * block_k
    if fast != along_k:
        wide[fast] = -(-x.shape[fast] // block) * block
    sizes = [source.shape[0], wide[1], wide[2]]
    sizes[along_k] *= parts
    y = torch.empty(sizes if fast == 2 else [sizes[0], sizes[2], sizes[1]], dtype=dtype, device=x.device)
    y = y if fast == 2 else y.transpose(1, 2)
    slow = 3 - fast
    block_s, block_f = min(16, 1 << (wide[slow] - 1).bit_length()), min(128, 1 << (wide[fast] - 1).bit_length())
    prepare_kernel[(-(-wide[slow] // block_s) * -(-wide[fast] // block_f) * sizes[0],)](
        source, y, x.shape[slow], x.shape[fast], wide[slow], wide[fast], source.stride(0), x.stride(slow), x.stride(fast),
        y.stride(0), y.stride(slow), wide[along_k] * y.stride(along_k), parts, left, block_s, block_f, num_warps=4,
    )
    return y.expand(batch, *y.shape[1:])


def reaches(x: torch.Tensor) -> int:
    """The largest offset inside one batch of `x`."""
    return sum((size - 1) * stride for size, stride in zip(x.shape[1:], x.stride()[1:], strict=True))


def placed(extras: tuple[torch.Tensor | float, ...], m: int, n: int, c: torch.Tensor) -> tuple[list[torch.Tensor | float], list[int]]:
    """Three arguments for `extra` and their six steps; `c` stands in for what is not there."""
    lent: list[torch.Tensor | float] = []
    steps: list[int] = []
    for e in [*extras, *[None] * (3 - len(extras))]:
        lent.append(c if e is None else e)
        steps += e.expand(m, n).stride() if isinstance(e, torch.Tensor) else (-2, 0) if e is None else (-1, 0)
    return lent, steps


def run(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None, *extras: torch.Tensor | float,
        out: torch.Tensor | None = None) -> torch.Tensor:
    """chain(a @ b + bias, *extras): `a` (..., M, K), `b` (K, N) or (..., K, N), `bias` (N,); result (..., M, N) in the promoted dtype.

    `extras` are up to three numbers or tensors that broadcast to the product's (rows, N); none where it is batched. `out`, contiguous
    and of the result's shape and dtype, takes the result.

    Any strides: transposes are passed as views. SHAPE["triangular"] "lower" or "upper" is torch.tril or torch.triu of the result;
    SHAPE["triangular_inputs"] may be set only where both inputs are triangular the same way.
    """
    dtype = torch.promote_types(a.dtype, b.dtype)
    exact = a.device.type == "cpu"  # the interpreter: it knows "ieee" alone, and multiplies bfloat16 wrongly
    a, b, lead = batched(*(x.to(torch.float32 if exact else dtype) for x in (a, b)))
    (batch, m, k), n = a.shape, b.shape[2]
    c = torch.empty(*lead, n, dtype=dtype, device=a.device) if out is None else out
    block_m, block_n, block_k = (
        min(PARAMS[name], max(16, 1 << (size - 1).bit_length())) for name, size in (("block_m", m), ("block_n", n), ("block_k", k))
    )
    precision = PARAMS["precision"] if dtype == torch.float32 and not exact else "ieee"
    parts, rows, columns = 1, m, n
    if PARAMS["prepare"] == "split" and dtype == torch.float32 and not SHAPE["triangular_inputs"]:
        parts = PARTS.get(PARAMS["precision"], 1)
    if parts > 1 or (PARAMS["prepare"] != "none" and (ragged(a) or ragged(b))):
        kept = a.dtype if parts == 1 or exact else torch.bfloat16
        a, b = prepared(a, True, parts, kept, block_m, block_k), prepared(b, False, parts, kept, block_n, block_k)
        rows, k, columns = a.shape[1], a.shape[2], b.shape[2]
        precision = precision if parts == 1 else "ieee"
    tiles = -(-m // block_m) * -(-n // block_n) * batch
    # two programs for each of an H200's 132 multiprocessors, with enough of K in each to pay for the second pass
    splits = PARAMS["split_k"] or max(1, min(264 // tiles, k // 512))
    chunk = -(-k // splits // block_k) * block_k
    splits = -(-k // chunk)
    sums = torch.empty(splits, batch, m, n, dtype=torch.float32, device=a.device) if splits > 1 else c
    lent, steps = placed(extras, m, n, c)
    more = a if bias is None else bias.contiguous()
    matmul_kernel[(tiles, splits)](
        a, b, more, *lent, sums, m, n, k, rows, columns, *a.stride(), *b.stride(),
        bias is not None, SHAPE["triangular"], SHAPE["triangular_inputs"], precision, max(m * n, reaches(a), reaches(b)) > 2**31 - 2**24,
        block_m, block_n, block_k, PARAMS["group_m"], splits, chunk, batch, PARAMS["flush"] if PARAMS["flush"] < chunk else 0, *steps,
        num_warps=PARAMS["num_warps"], num_stages=PARAMS["num_stages"],
    )
    if splits > 1:
        block = min(256, 1 << (c.numel() - 1).bit_length())
        combine_kernel[(-(-c.numel() // block),)](
            sums, more, *lent, c, m, n, c.numel(), splits, bias is not None,
            SHAPE["triangular"], min(16, 1 << (splits - 1).bit_length()), block, *steps, num_warps=4,
        )
    return c


class ModelNew(nn.Module):
    """torch.matmul(A, B)."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:  # noqa: N803 (names as problems have them)
        """(M, N)."""
        return run(A, B)
