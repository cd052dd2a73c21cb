"""Small odd cases for every Triton starter, for the interpreter (tests/test_triton_starters.py) and for a GPU (tests/gpu)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor

TOLERANCE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@dataclass(frozen=True)
class Case:
    """`truth(*inputs)` in float64 is what the starter must give; `scale` widens the tolerance for sums of large terms."""

    name: str
    starter: str
    inputs: Callable[[], list[Any]]
    truth: Callable[..., Any]
    shape: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    chain: tuple[str, str] | None = None
    scale: float = 1.0

    @property
    def label(self) -> str:
        """How tests and reports name it."""
        return f"{self.starter}: {self.name}"


def randn(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers, rounded to `dtype`."""
    return torch.randn(*sizes).to(dtype)


def some(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, times: float = 1.0) -> Callable[[], list[Any]]:
    """A maker of normal tensors."""
    return lambda: [(torch.randn(shape) * times).to(dtype) for shape in shapes]


def reversible(function: Callable[[Tensor, int], Tensor], reverse: bool, exclusive: float | None = None) -> Callable[[Tensor], Tensor]:
    """A scan along dim 1, possibly from the end, possibly exclusive with a first element."""

    def truth(x: Tensor) -> Tensor:
        x = x.flip(1) if reverse else x
        y = function(x, 1)
        if exclusive is not None:
            y = torch.cat((torch.full_like(x[:, :1], exclusive), y[:, :-1]), 1)
        return y.flip(1) if reverse else y

    return truth


def reduction(kind: str, flat: bool) -> Callable[[Tensor], Tensor]:
    """torch's reduction of that name over dim 1, or over dims 1 and 2 at once."""

    def truth(x: Tensor) -> Tensor:
        y = getattr(x.flatten(1) if flat else x, kind)(1)
        return y[0] if kind in ("max", "min") else y

    return truth


def rms(x: Tensor, w: Tensor | float = 1.0, dim: int = -1) -> Tensor:
    """RMS normalisation with eps 1e-5."""
    return x / (x.pow(2).mean(dim, True) + 1e-5).sqrt() * w


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding on halves, with angles for all of D."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def rotated_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding on neighbouring pairs."""
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


def mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """SwiGLU."""
    return (F.silu(x @ gate) * (x @ up)) @ down


def three_types() -> list[Case]:
    """Cases for each floating type the starters take."""
    cases = []
    for dtype in TOLERANCE:
        name = str(dtype).removeprefix("torch.")
        square = some((5, 1023), dtype=dtype)
        cases += [
            Case(name, "elementwise", square, F.silu, params={"block": 512}),
            Case(name, "softmax", square, lambda x: x.softmax(1)),
            Case(name, "rmsnorm", some((5, 1023), (1023,), dtype=dtype), rms, {"dim": -1}),
            Case(
                name,
                "layernorm",
                some((5, 1023), (1023,), (1023,), dtype=dtype),
                lambda x, w, b: F.layer_norm(x, [1023], w, b),
                {"ndim": 1},
            ),
            Case(name, "norm_scale", square, lambda x: x / x.norm(2, 1, True)),
            Case(name, "reduce", square, lambda x: x.sum(1), scale=64),
            Case(name, "scan", some((3, 300), dtype=dtype, times=1 / 16), lambda x: x.cumsum(1), params={"tile": 128}),
            Case(
                name,
                "cross_entropy",
                lambda d=dtype: [randn(5, 1023, dtype=d), torch.tensor([0, 1022, 7, -100, 9])],
                F.cross_entropy,
                scale=8,
            ),
            Case(name, "groupnorm", some((3, 8, 7, 9), (8,), (8,), dtype=dtype), lambda x, w, b: F.group_norm(x, 4, w, b), {"groups": 4}),
            Case(
                name,
                "matmul",
                some((33, 47), (47, 19), (19,), dtype=dtype),
                lambda a, b, c: a @ b + c,
                params={"block_m": 16, "block_n": 16, "precision": "bf16x6"},
                scale=8,
            ),
            Case(
                name, "fused_mlp", some((9, 33), (33, 20), (33, 20), (20, 17), dtype=dtype, times=0.3), mlp, params={"block_m": 16}, scale=4
            ),
            Case(
                name,
                "flash_attention",
                some((1, 2, 37, 24), (1, 2, 37, 24), (1, 2, 37, 24), dtype=dtype),
                F.scaled_dot_product_attention,
                params={"block_m": 16, "block_n": 16},
                scale=2,
            ),
            Case(name, "rotary_embedding", some((2, 3, 17, 12), (17, 12), (17, 12), dtype=dtype), rotated, scale=4),
            Case(name, "pooling", some((2, 3, 9, 11), dtype=dtype), lambda x: F.max_pool2d(x, 4, 1, 1)),
            Case(name, "depthwise_conv", some((2, 3, 9, 11), (3, 1, 3, 3), dtype=dtype), lambda x, w: F.conv2d(x, w, groups=3), scale=8),
        ]
    return cases


def rows_and_norms() -> list[Case]:
    """Softmax, norms and losses: long rows, strided rows, split rows."""
    triple = some((3, 8, 7, 9), (8,), (8,))
    return [
        Case("two reads", "softmax", some((2, 1023), times=9), lambda x: x.softmax(1), params={"tile": 256}),
        Case("log, inner dim", "softmax", some((2, 37, 5)), lambda x: x.log_softmax(1), {"log": True}, {"tile": 64, "lanes": 16}),
        Case("inner dim, two reads", "rmsnorm", some((2, 37, 9)), lambda x: rms(x, dim=1), params={"tile": 64, "lanes": 8}),
        Case("inner dim, weight", "rmsnorm", some((2, 13, 9), (13,)), lambda x, w: rms(x, w[:, None], 1)),
        Case("long rows", "norm_scale", some((3, 1023)), lambda x: x / x.norm(1, 1, True), {"kind": "l1"}, {"tile": 256}),
        Case("frobenius", "norm_scale", some((3, 1023)), lambda x: x / x.norm(), {"dim": None}, {"tile": 256, "splits": 3}),
        Case("mean of absolutes", "norm_scale", some((3, 65)), lambda x: x / x.abs().mean(1, True), {"kind": "l1", "mean": True}, scale=4),
        Case("zero rows with eps", "norm_scale", lambda: [torch.zeros(3, 65)], lambda x: F.normalize(x, eps=1e-2), {"eps": 1e-2}),
        Case(
            "few huge rows",
            "layernorm",
            lambda: [randn(2, 9, 117) + 9, randn(9, 117), randn(9, 117)],
            lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b),
            {"ndim": 2},
            {"tile": 128, "splits": 3},
            scale=4,
        ),
        Case(
            "long rows",
            "layernorm",
            lambda: [randn(3, 1000) + 9],
            lambda x: F.layer_norm(x, [1000]),
            {"ndim": 1},
            {"tile": 128, "splits": 1},
            scale=4,
        ),
        Case("three kernels", "groupnorm", triple, lambda x, w, b: F.group_norm(x, 4, w, b), {"groups": 4}, {"tile": 32}, scale=2),
        Case("instance", "groupnorm", some((3, 8, 7, 9)), lambda x: F.instance_norm(x), {"kind": "instance"}, {"tile": 32}),
        Case(
            "batch",
            "groupnorm",
            triple,
            lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
            {"kind": "batch"},
            {"tile": 32},
            scale=2,
        ),
        Case("batch of vectors", "groupnorm", some((33, 8)), lambda x: F.batch_norm(x, None, None, training=True), {"kind": "batch"}),
        Case(
            "long rows, not reduced",
            "cross_entropy",
            lambda: [randn(5, 99) * 9, torch.tensor([0, 98, 7, 8, 9])],
            lambda x, t: F.cross_entropy(x, t, reduction="none"),
            {"reduction": "none"},
            {"tile": 64},
            scale=8,
        ),
        Case("margin", "triplet_loss", some((5, 99), (5, 99), (5, 99)), F.triplet_margin_loss, params={"tile": 64}, scale=8),
    ]


def reductions_and_scans() -> list[Case]:
    """Every kind of reduction along inner and split dims, chains of two inputs, every kind of scan."""
    cases = []
    for kind in ("sum", "mean", "max", "min", "prod", "argmax", "argmin"):
        cases += [
            Case(
                f"{kind}, inner dim",
                "reduce",
                some((2, 33, 5)),
                reduction(kind, False),
                {"kind": kind},
                {"tile": 64, "lanes": 4, "splits": 1},
                scale=8,
            ),
            Case(
                f"{kind}, split",
                "reduce",
                some((2, 33, 5)),
                reduction(kind, True),
                {"kind": kind, "dim": [1, 2]},
                {"tile": 32, "splits": 3},
                scale=8,
            ),
        ]
    squares = ("x0, x1", "(x0 - x1) * (x0 - x1)")
    for name, other in (("full", (7, 99)), ("row", (99,)), ("column", (7, 1))):
        cases.append(
            Case(
                f"squares, {name}",
                "reduce",
                some((7, 99), other),
                lambda x, y: ((x - y) ** 2).mean(),
                {"kind": "mean", "dim": None},
                {"tile": 64, "splits": 4},
                squares,
                8,
            )
        )
    for reverse in (False, True):
        name = ", reversed" if reverse else ""
        cases += [
            Case(f"sum{name}", "scan", some((3, 150)), reversible(torch.cumsum, reverse), {"reverse": reverse}, {"tile": 64}, scale=8),
            Case(
                f"product{name}",
                "scan",
                lambda: [torch.rand(3, 150) + 0.5],
                reversible(torch.cumprod, reverse),
                {"kind": "prod", "reverse": reverse},
                {"tile": 64},
                scale=8,
            ),
            Case(
                f"exclusive{name}",
                "scan",
                some((3, 150)),
                reversible(torch.cumsum, reverse, 0.0),
                {"reverse": reverse, "exclusive": True},
                {"tile": 64},
                scale=8,
            ),
        ]
    return [
        *cases,
        Case("kept dim, divided", "reduce", some((2, 33, 5)), lambda x: x.sum(1, True) / 4, {"keepdim": True, "divide": 4}, scale=8),
        Case(
            "ties",
            "reduce",
            lambda: [torch.ones(3, 99)],
            lambda x: torch.zeros(3, dtype=torch.int64),
            {"kind": "argmax"},
            {"tile": 16, "splits": 3},
        ),
        Case(
            "NaN is the largest",
            "reduce",
            lambda: [torch.tensor([[1.0, float("nan"), 3.0, float("nan")]])],
            lambda x: torch.tensor([1]),
            {"kind": "argmax"},
        ),
        Case(
            "masked, inner dim",
            "scan",
            lambda: [randn(2, 40, 5), torch.rand(2, 40, 5) > 0.5],
            lambda x, m: (x * m).cumsum(1),
            params={"tile": 64, "lanes": 4},
            scale=8,
        ),
        Case(
            "exclusive product",
            "scan",
            lambda: [torch.rand(2, 9) + 0.5],
            reversible(torch.cumprod, False, 1.0),
            {"kind": "prod", "exclusive": True},
        ),
    ]


def products() -> list[Case]:
    """Matrix products with every shortcut, attention with every option."""
    small = {"block_m": 16, "block_n": 16, "block_k": 16, "precision": "bf16x6"}
    tiles = {"block_m": 16, "block_n": 16}
    lower, upper = {"triangular": "lower"}, {"triangular": "upper"}
    return [
        Case("transposed views", "matmul", lambda: [randn(47, 33).t(), randn(19, 47).t()], torch.matmul, params=small, scale=8),
        Case("split K", "matmul", some((20, 100), (100, 19), (19,)), lambda a, b, c: a @ b + c, params=small | {"split_k": 3}, scale=16),
        Case("sums ended", "matmul", some((20, 300), (300, 19)), torch.matmul, params=small | {"flush": 64}, scale=32),
        Case("sums ended, split", "matmul", some((20, 300), (300, 19)), torch.matmul, params=small | {"flush": 64, "split_k": 2}, scale=32),
        Case("in the loop", "matmul", some((33, 47), (47, 19)), torch.matmul, params=small | {"prepare": "none"}, scale=8),
        Case("odd rows padded", "matmul", some((33, 47), (47, 19)), torch.matmul, params=small | {"prepare": "pad"}, scale=8),
        Case("split K by itself", "matmul", some((2, 20, 2100), (2100, 19)), torch.matmul, params=small | {"block_k": 64}, scale=64),
        # the interpreter cuts bfloat16 off instead of rounding: a part less is further off there than on a GPU
        Case("two parts", "matmul", some((33, 47), (47, 19)), torch.matmul, params=small | {"precision": "bf16x3"}, scale=1000),
        Case(
            "one matrix for all", "matmul", lambda: [randn(3, 17, 20), randn(20, 18).expand(3, 20, 18)], torch.matmul, params=small, scale=8
        ),
        Case("one turned", "matmul", lambda: [randn(3, 20, 17).transpose(1, 2), randn(3, 20, 18)], torch.matmul, params=small, scale=8),
        Case("even", "matmul", some((32, 64), (64, 16)), torch.matmul, params=small, scale=8),
        Case("batched", "matmul", some((3, 17, 20), (3, 20, 18)), torch.matmul, params=small, scale=8),
        Case("batched, split K", "matmul", some((2, 2, 17, 40), (2, 2, 40, 18)), torch.matmul, params=small | {"split_k": 2}, scale=8),
        Case("rows of rows", "matmul", some((2, 3, 5, 20), (20, 18)), torch.matmul, params=small, scale=8),
        Case(
            "epilogue",
            "matmul",
            some((17, 20), (20, 18)),
            lambda a, b: (a @ b).relu(),
            params=small,
            chain=("x0, x1, x2, x3", "tl.maximum(x0, 0.0)"),
            scale=8,
        ),
        Case("masked lower", "matmul", some((40, 24), (24, 40)), lambda a, b: (a @ b).tril(), lower, small, scale=8),
        Case(
            "lower",
            "matmul",
            lambda: [randn(50, 50).tril(), randn(50, 50).tril()],
            lambda a, b: (a @ b).tril(),
            lower | {"triangular_inputs": True},
            small,
            scale=16,
        ),
        Case(
            "upper",
            "matmul",
            lambda: [randn(50, 50).triu(), randn(50, 50).triu()],
            lambda a, b: (a @ b).triu(),
            upper | {"triangular_inputs": True},
            small,
            scale=16,
        ),
        Case(
            "upper, split K",
            "matmul",
            lambda: [randn(50, 50).triu(), randn(50, 50).triu()],
            lambda a, b: (a @ b).triu(),
            upper | {"triangular_inputs": True},
            small | {"split_k": 2},
            scale=16,
        ),
        Case("right", "diag_matmul", some((7,), (9, 7)), lambda d, b: b * d, {"side": "right"}),
        Case("left", "diag_matmul", some((9,), (9, 7)), lambda d, b: d[:, None] * b),
        Case(
            "no last product",
            "fused_mlp",
            some((2, 5, 20), (20, 18), (20, 18)),
            lambda x, g, u: F.gelu(x @ g) * (x @ u),
            {"activation": "gelu"},
            scale=32,
        ),
        Case(
            "causal",
            "flash_attention",
            some((1, 2, 37, 16), (1, 2, 37, 16), (1, 2, 37, 16)),
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            {"causal": True},
            tiles,
            scale=4,
        ),
        Case(
            "shared heads",
            "flash_attention",
            some((2, 4, 20, 16), (2, 2, 33, 16), (2, 2, 33, 16)),
            lambda q, k, v: F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)),
            params=tiles,
            scale=4,
        ),
        Case(
            "wide heads, causal",
            "flash_attention",
            some((1, 2, 9, 300), (1, 1, 9, 300), (1, 1, 9, 300)),
            lambda q, k, v: F.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q), is_causal=True),
            {"causal": True},
            scale=8,
        ),
        Case("pairs", "rotary_embedding", some((2, 3, 17, 12), (17, 6), (17, 6)), rotated_pairs, {"style": "interleaved"}, scale=4),
    ]


def windows() -> list[Case]:
    """Pooling in one to three dimensions, depthwise convolutions, chains with broadcast inputs."""
    three = {"kernel": [3] * 3, "stride": [2] * 3, "padding": [1] * 3, "dilation": [1] * 3}
    two = {"kind": "avg", "kernel": [3, 2], "stride": [2, 2], "padding": [1, 1]}
    cases = [
        Case(
            "max 1d, dilated",
            "pooling",
            some((2, 3, 40)),
            lambda x: F.max_pool1d(x, 8, 1, 4, 3),
            {"kernel": [8], "stride": [1], "padding": [4], "dilation": [3]},
        ),
        Case(
            "max 3d, ceil",
            "pooling",
            some((1, 2, 7, 8, 9)),
            lambda x: F.max_pool3d(x, 3, 2, 1, 1, ceil_mode=True),
            three | {"ceil_mode": True},
        ),
        Case("average 3d", "pooling", some((1, 2, 7, 8, 9)), lambda x: F.avg_pool3d(x, 3, 2, 1), three | {"kind": "avg"}),
        Case("average 2d, ceil", "pooling", some((1, 2, 8, 9)), lambda x: F.avg_pool2d(x, (3, 2), 2, 1, True), two | {"ceil_mode": True}),
        Case(
            "average 2d, padding not counted",
            "pooling",
            some((1, 2, 8, 9)),
            lambda x: F.avg_pool2d(x, (3, 2), 2, 1, False, False),
            two | {"count_include_pad": False},
        ),
        *[
            Case(
                f"{kind}, {way}",
                "pooling",
                some((2, 2, 11, 13)),
                truth,
                two | {"kind": kind, "dilation": [1, 1]},
                {"way": way, "block_w": 32},
            )
            for kind, truth in (("max", lambda x: F.max_pool2d(x, (3, 2), 2, 1)), ("avg", lambda x: F.avg_pool2d(x, (3, 2), 2, 1)))
            for way in ("direct", "two passes", "side by side")
        ],
        Case(
            "max 2d, side by side, ceil",
            "pooling",
            some((2, 2, 11, 14)),
            lambda x: F.max_pool2d(x, 5, ceil_mode=True),
            {"kernel": [5, 5], "stride": [5, 5], "padding": [0, 0], "ceil_mode": True},
        ),
        Case(
            "average 2d, no padding",
            "pooling",
            some((1, 2, 8, 9)),
            lambda x: F.avg_pool2d(x, 3),
            {"kind": "avg", "kernel": [3, 3], "stride": [3, 3], "padding": [0, 0]},
        ),
        Case(
            "padded, strided, dilated",
            "depthwise_conv",
            some((2, 3, 12, 11), (3, 1, 3, 2), (3,)),
            lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (2, 1), 3),
            {"stride": [2, 1], "padding": [1, 2], "dilation": [2, 1]},
            scale=8,
        ),
        Case(
            "rows carried on, padded",
            "depthwise_conv",
            some((2, 3, 22, 41), (3, 1, 3, 2), (3,)),
            lambda x, w, b: F.conv2d(x, w, b, (1, 2), (1, 2), (1, 2), 3),
            {"stride": [1, 2], "padding": [1, 2], "dilation": [1, 2]},
            {"block_h": 8, "block_w": 32},
            scale=8,
        ),
        Case("one row", "depthwise_conv", some((2, 3, 9, 11), (3, 1, 1, 5)), lambda x, w: F.conv2d(x, w, groups=3), scale=8),
        Case("at every place", "depthwise_conv", some((2, 3, 9, 11), (3, 1, 3, 3)), lambda x, w: F.conv2d(x, w, groups=3),
             params={"rolling": False}, scale=8),
        Case("turned view", "elementwise", lambda: [randn(5, 9).t()], F.silu, params={"block": 16}),
        Case(
            "truth values",
            "elementwise",
            some((5, 9)),
            lambda x: x > 0,
            {"out_dtype": "bool"},
            chain=("x0", "tl.where(x0 > 0.0, 1.0, 0.0)"),
        ),
    ]
    others = ((2, 5, 11), (11,), (5, 1), (2, 1, 1), (2, 1, 11), ())
    cases += [
        Case(
            f"times {other}", "elementwise", some((2, 5, 11), other), lambda x, y: x * y, params={"block": 64}, chain=("x0, x1", "x0 * x1")
        )
        for other in others
    ]
    return [*cases, Case("times a number", "elementwise", lambda: [randn(2, 5), 2.5], lambda x, y: x * y, chain=("x0, x1", "x0 * x1"))]


def convolutions() -> list[Case]:
    """Convolution, transposed or not, grouped, pooled, reduced over channels; the problems' own plans test the rest."""
    small = {"block_m": 16, "block_n": 16, "block_k": 16, "precision": "bf16x6"}
    two = {"stride": [2, 1], "padding": [1, 2], "dilation": [2, 1]}
    turned = {"stride": [2, 3], "padding": [1, 0], "dilation": [1, 2], "output_padding": [1, 2], "transposed": True}
    over = "x0, x1, x2, x3, inside", "tl.sum(tl.where(inside, x0 * x1, 0.0), 0, keep_dims=True)"
    cases = [
        Case(str(dtype).removeprefix("torch."), "conv", some((2, 5, 7, 9), (6, 5, 3, 2), (6,), dtype=dtype), F.conv2d, {}, small, scale=16)
        for dtype in TOLERANCE
    ]
    for layout in ("as it is", "channels last"):
        cases += [
            Case(f"strided, {layout}", "conv", some((2, 16, 8, 9), (18, 16, 3, 2)),
                 lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (2, 1)), two, small | {"layout": layout}, scale=64),
            Case(f"transposed, {layout}", "conv", some((2, 6, 5, 4), (6, 7, 3, 4), (7,)),
                 lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 1, (1, 2)), turned,
                 small | {"layout": layout}, scale=32),
            Case(f"transposed, whole rows, {layout}", "conv", some((2, 6, 5, 4), (6, 7, 3, 4), (7,)),
                 lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 1, (1, 2)), turned,
                 small | {"layout": layout, "rows": "whole"}, scale=32),
        ]
    return [
        *cases,
        Case("1d, grouped", "conv", some((2, 6, 19), (8, 3, 4)), lambda x, w: F.conv1d(x, w, groups=2),
             {"stride": [1], "padding": [0], "dilation": [1], "groups": 2}, small, scale=16),
        Case("3d, max pooled", "conv", some((1, 3, 7, 6, 8), (5, 3, 3, 2, 3), (5,)), lambda x, w, b: F.max_pool3d(F.conv3d(x, w, b), 2),
             {"stride": [1] * 3, "padding": [0] * 3, "dilation": [1] * 3, "pool": [2, 2, 2], "kind": "max"}, small, scale=32),
        Case("transposed, average pooled", "conv", some((1, 3, 5, 4), (3, 5, 3, 3)),
             lambda x, w: F.avg_pool2d(F.conv_transpose2d(x, w, None, 2, 1), 2),
             {"stride": [2, 2], "padding": [1, 1], "transposed": True, "pool": [2, 2], "kind": "avg"}, small, scale=32),
        *(Case(f"transposed 1d, whole rows, stride {stride}, dilation {dilation}", "conv", some((2, 8, 9), (8, 3, 4)),
               lambda x, w, s=stride, d=dilation: F.conv_transpose1d(x, w, None, s, 2, 0, 2, d),
               {"stride": [stride], "padding": [2], "dilation": [dilation], "output_padding": [0], "transposed": True, "groups": 2},
               small | {"rows": "whole"}, scale=32) for stride, dilation in ((2, 2), (3, 2), (1, 1), (5, 1))),
        Case("weighed over channels", "conv", some((2, 3, 6, 5), (10, 3, 3, 3), (10,), (10, 1, 1)),
             lambda x, w, b, e: (F.conv2d(x, w, b) * e).sum(1, True), {"across": True, "channels": 1}, small, over, scale=64),
    ]


CASES = [*three_types(), *rows_and_norms(), *reductions_and_scans(), *products(), *windows(), *convolutions()]


def check(case: Case, run: Callable[..., Any], device: str) -> None:
    """Assert that `run` gives the float64 truth on `device`, and the same bits twice."""
    torch.manual_seed(1)
    inputs = case.inputs()
    here = [x.to(device) if isinstance(x, Tensor) else x for x in inputs]
    actual = run(*here)
    expected = case.truth(*(x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs))
    assert actual.shape == expected.shape, f"shape {tuple(actual.shape)} is not {tuple(expected.shape)}"
    assert actual.dtype == (expected.dtype if not expected.is_floating_point() else inputs[0].dtype), f"dtype {actual.dtype}"
    tolerance = TOLERANCE.get(actual.dtype, 0.0) * (case.scale if actual.dtype == torch.float32 else min(case.scale, 4.0))
    torch.testing.assert_close(actual.cpu().double(), expected.double(), rtol=tolerance, atol=tolerance)
    for before, after in zip(inputs, here, strict=True):
        if isinstance(before, Tensor):
            torch.testing.assert_close(after.cpu(), before, rtol=0.0, atol=0.0, equal_nan=True, msg="an input was changed")
    if device != "cpu":
        assert torch.equal(run(*here), actual), "not the same twice"
