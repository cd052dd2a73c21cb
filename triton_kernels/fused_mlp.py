"""Gated MLP: activation(x @ w_gate) * (x @ w_up), and the product with w_down if it is given. Default problem: SwiGLU.

Gate and up projection share one pass over x; the gated product never leaves registers in float32. float32 is multiplied as in
matmul.py: bfloat16 products that keep about float32's own error.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import nn

OP = "fused_mlp"
SHAPE = {"activation": "silu"}  # silu, gelu (erf), relu
PARAMS = {"block_m": 128, "block_n": 64, "block_k": 32, "group_m": 8, "num_warps": 8, "num_stages": 3, "precision": "bf16x3"}
SPACE = {
    "block_m": [32, 64, 128], "block_n": [32, 64, 128], "block_k": [16, 32, 64], "group_m": [1, 4, 8, 16], "num_warps": [4, 8],
    "num_stages": [2, 3, 4], "precision": ["bf16x3", "bf16x6", "tf32x3", "ieee"],
}


@triton.jit
def activate(g, KIND: tl.constexpr):
    if KIND == "silu":
        return g / (1.0 + tl.exp(-g))
    elif KIND == "gelu":
        return 0.5 * g * (1.0 + tl.erf(g * 0.7071067811865476))
    else:
        return tl.maximum(g, 0.0)


@triton.jit
def product_kernel(
    x, w, v, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SXM: tl.constexpr, SXK: tl.constexpr,
    SWK: tl.constexpr, SWN: tl.constexpr, SVK: tl.constexpr, SVN: tl.constexpr, KIND: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):
    """One tile of activate(x @ w) * (x @ v), or of x @ w if KIND is None."""
    TILES_M: tl.constexpr = (M + BLOCK_M - 1) // BLOCK_M
    TILES_N: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    pid = tl.program_id(0)
    group = pid // (GROUP_M * TILES_N)
    height = tl.minimum(TILES_M - group * GROUP_M, GROUP_M)
    rm = (group * GROUP_M + (pid % (GROUP_M * TILES_N)) % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = ((pid % (GROUP_M * TILES_N)) // height) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    x_at = x + rm.to(tl.int64)[:, None] * SXM + rk[None, :] * SXK
    w_at = w + rk.to(tl.int64)[:, None] * SWK + rn[None, :] * SWN
    v_at = v + rk.to(tl.int64)[:, None] * SVK + rn[None, :] * SVN
    gate = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    up = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        left_mask = (rm < M)[:, None] & (rk < K - k)[None, :]
        right_mask = (rk < K - k)[:, None] & (rn < N)[None, :]
        left = tl.load(x_at, mask=left_mask, other=0.0)
        gate = tl.dot(left, tl.load(w_at, mask=right_mask, other=0.0), gate, input_precision=PRECISION)
        x_at += BLOCK_K * SXK
        w_at += BLOCK_K * SWK
        if KIND is not None:
            up = tl.dot(left, tl.load(v_at, mask=right_mask, other=0.0), up, input_precision=PRECISION)
            v_at += BLOCK_K * SVK
    if KIND is not None:
        gate = activate(gate, KIND) * up
    inside = (rm < M)[:, None] & (rn < N)[None, :]
    tl.store(y + rm.to(tl.int64)[:, None] * N + rn[None, :], gate.to(y.dtype.element_ty), mask=inside)


def product(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor, kind: str | None) -> torch.Tensor:
    """activate(x @ w) * (x @ v), or x @ w if `kind` is None; `x` (M, K), `w` and `v` (K, N), any strides."""
    (m, k), n = x.shape, w.shape[1]
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    block_m, block_n, block_k = (
        min(PARAMS[name], max(16, 1 << (size - 1).bit_length())) for name, size in (("block_m", m), ("block_n", n), ("block_k", k))
    )
    emulated = x.dtype == torch.float32 and x.device.type != "cpu"
    if x.device.type == "cpu":  # the interpreter: it knows "ieee" alone, and multiplies bfloat16 wrongly
        x, w, v = x.float(), w.float(), v.float()
    product_kernel[(-(-m // block_m) * -(-n // block_n),)](
        x, w, v, y, m, n, k, *x.stride(), *w.stride(), *v.stride(), kind, PARAMS["precision"] if emulated else "ieee",
        block_m, block_n, block_k, PARAMS["group_m"], num_warps=PARAMS["num_warps"], num_stages=PARAMS["num_stages"],
    )
    return y


def run(x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor, w_down: torch.Tensor | None = None) -> torch.Tensor:
    """activation(x @ w_gate) * (x @ w_up), then @ w_down if given: `x` (..., D), w_gate and w_up (D, hidden), w_down (hidden, out).

    Any strides: pass nn.Linear weights as `weight.t()`. All of one dtype, accumulated in float32; the gated product is stored in
    that dtype before w_down.
    """
    hidden = product(x.reshape(-1, x.shape[-1]), w_gate, w_up, SHAPE["activation"])
    y = hidden if w_down is None else product(hidden, w_down, w_down, None)
    return y.view(*x.shape[:-1], y.shape[1])


class ModelNew(nn.Module):
    """silu(x @ w_gate) * (x @ w_up) @ w_down."""

    def forward(self, x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor, w_down: torch.Tensor) -> torch.Tensor:
        """(..., columns of w_down)."""
        return run(x, w_gate, w_up, w_down)
