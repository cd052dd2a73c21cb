"""Pointwise aten operations in the matcher's vocabulary (see decompose.py). Formulas follow torch's documentation of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autokernel.proposers.graph import Value, point

Args = Sequence[Any]
Kwargs = Mapping[str, Any]
Rule = Callable[[Args, Kwargs], "Value | None"]


def float_only(op: str, *args: Any) -> Value | None:
    """A pointwise value of float32 (or the operands' own float type); None for arithmetic of integers alone."""
    dtypes = [a.dtype for a in args if isinstance(a, Value) and a.dtype.startswith(("float", "bfloat"))]
    tensors = [a for a in args if isinstance(a, Value) and a.op not in ("const", "scalar")]
    return point(op, *args, dtype=wider([t.dtype for t in tensors if t.shape] or dtypes)) if dtypes else None


def wider(dtypes: Sequence[str]) -> str:
    """The widest of some dtypes, as torch promotes them."""
    order = ["bool", "int64", "bfloat16", "float16", "float32", "float64"]
    return max(dtypes, key=lambda d: order.index(d) if d in order else 0)


def get(args: Args, kwargs: Kwargs, place: int, name: str, default: Any) -> Any:
    """An argument by place or name, or its default."""
    return args[place] if len(args) > place else kwargs.get(name, default)


def linear_sum(sign: str, swap: bool = False) -> Rule:
    """add, sub and rsub with their alpha."""
    def rule(args: Args, kwargs: Kwargs) -> Value | None:
        a, b = args[0], args[1]
        alpha = get(args, kwargs, 2, "alpha", 1)
        if swap:
            a, b = b, a
        scaled = b if alpha == 1 else float_only("mul", b, alpha)
        return float_only(sign, a, scaled) if scaled is not None else None
    return rule


def pow_rule(args: Args, kwargs: Kwargs) -> Value | None:
    """Powers; small whole ones and roots without pow."""
    x, power = args[0], args[1]
    if isinstance(power, (int, float)) and isinstance(x, Value):
        if power in (1, 2, 3, 4):
            square = float_only("mul", x, x)
            if square is None or power == 2:
                return square
            return x if power == 1 else float_only("mul", square, x if power == 3 else square)
        if power in (0.5, -0.5, -1):
            return float_only("div", 1.0, x) if power == -1 else float_only("sqrt" if power > 0 else "rsqrt", x)
    return float_only("pow", x, power)


def clamp(args: Args, kwargs: Kwargs) -> Value | None:
    """clamp with either bound missing."""
    value = args[0]
    low, high = get(args, kwargs, 1, "min", None), get(args, kwargs, 2, "max", None)
    if low is not None:
        value = float_only("maximum", value, low)
    if high is not None and value is not None:
        value = float_only("minimum", value, high)
    return value if isinstance(value, Value) else None


def where(condition: Value, a: Any, b: Any) -> Value:
    """A choice between two values, of the wider dtype."""
    dtypes = [v.dtype for v in (a, b) if isinstance(v, Value)]
    return point("where", condition, a, b, dtype=wider(dtypes or ["float32"]))


def elu(args: Args, kwargs: Kwargs) -> Value | None:
    """elu and selu."""
    x = args[0]
    alpha, scale, inner = (get(args, kwargs, n, k, 1.0) for n, k in ((1, "alpha"), (2, "scale"), (3, "input_scale")))
    negative = point("mul", point("expm1", point("mul", x, inner) if inner != 1 else x, dtype=x.dtype), alpha * scale, dtype=x.dtype)
    return where(point("gt", x, 0.0, dtype="bool"), point("mul", x, scale, dtype=x.dtype) if scale != 1 else x, negative)


def leaky_relu(args: Args, kwargs: Kwargs) -> Value | None:
    """leaky_relu with its slope."""
    x = args[0]
    return where(point("gt", x, 0.0, dtype="bool"), x, point("mul", x, get(args, kwargs, 1, "negative_slope", 0.01), dtype=x.dtype))


def gelu(args: Args, kwargs: Kwargs) -> Value | None:
    """gelu, exact or by tanh."""
    x = args[0]
    if kwargs.get("approximate", "none") == "tanh":
        cube = point("mul", point("mul", x, x, dtype=x.dtype), x, dtype=x.dtype)
        bent = point("add", x, point("mul", cube, 0.044715, dtype=x.dtype), dtype=x.dtype)
        inner = point("mul", bent, math.sqrt(2 / math.pi), dtype=x.dtype)
        gate = point("tanh", inner, dtype=x.dtype)
    else:
        gate = point("erf", point("mul", x, math.sqrt(0.5), dtype=x.dtype), dtype=x.dtype)
    return point("mul", point("mul", x, 0.5, dtype=x.dtype), point("add", gate, 1.0, dtype=x.dtype), dtype=x.dtype)


def softplus_of(x: Value) -> Value:
    """log(1 + exp(x)) without overflow: max(x, 0) + log1p(exp(-|x|))."""
    tail = point("log1p", point("exp", point("neg", point("abs", x, dtype=x.dtype), dtype=x.dtype), dtype=x.dtype), dtype=x.dtype)
    return point("add", point("maximum", x, 0.0, dtype=x.dtype), tail, dtype=x.dtype)


def softplus(args: Args, kwargs: Kwargs) -> Value | None:
    """softplus with beta and threshold."""
    x, beta, threshold = args[0], get(args, kwargs, 1, "beta", 1), get(args, kwargs, 2, "threshold", 20)
    scaled = point("mul", x, float(beta), dtype=x.dtype) if beta != 1 else x
    soft = softplus_of(scaled)
    soft = point("div", soft, float(beta), dtype=x.dtype) if beta != 1 else soft
    return where(point("gt", scaled, float(threshold), dtype="bool"), x, soft)


def hard(args: Args, kwargs: Kwargs) -> Value:
    """hardsigmoid: clamp(x + 3, 0, 6) / 6."""
    x = args[0]
    shifted = point("minimum", point("maximum", point("add", x, 3.0, dtype=x.dtype), 0.0, dtype=x.dtype), 6.0, dtype=x.dtype)
    return point("div", shifted, 6.0, dtype=x.dtype)


def times(x: Value, y: Value) -> Value:
    """A product in the first factor's dtype."""
    return point("mul", x, y, dtype=x.dtype)


def unary_rule(build: Callable[[Value], Value]) -> Rule:
    """A rule from a function of the first argument."""
    return lambda args, kwargs: build(args[0])


def cast_rule(args: Args, kwargs: Kwargs) -> Value | None:
    """A change of floating dtype."""
    wanted = kwargs.get("dtype")
    if wanted in (None, args[0].dtype):
        return args[0] if isinstance(args[0], Value) else None
    return point("cast", args[0], dtype=wanted) if wanted in ("float32", "float16", "bfloat16") else None


def xlogy(args: Args, kwargs: Kwargs) -> Value | None:
    """x log y, 0 where x is 0."""
    x, y = args
    if not (isinstance(x, Value) and isinstance(y, Value)):
        return None
    return where(point("eq", x, 0.0, dtype="bool"), 0.0, times(x, point("log", y, dtype=y.dtype)))


def mish(x: Value) -> Value:
    """x tanh(softplus(x))."""
    return times(x, point("tanh", softplus_of(x), dtype=x.dtype))


def log_sigmoid(x: Value) -> Value:
    """-softplus(-x)."""
    return point("neg", softplus_of(point("neg", x, dtype=x.dtype)), dtype=x.dtype)


def diagonal_product(args: Args, kwargs: Kwargs) -> Value | None:
    """diag(d) @ b and b @ diag(d) as a scaling of rows or columns; other products stay what they are."""
    for diagonal, place in ((args[0], 0), (args[1], 1)):
        made = diagonal.attrs.get("call")
        vector = made.args[0] if made is not None and made.name == "diag_embed.default" and len(made.args) == 1 else None
        if vector is not None and vector.op == "leaf" and len(vector.shape) == 1:
            size, step = vector.shape[0], vector.attrs["stride"][0]
            shape, stride = ((size, 1), (step, 0)) if place == 0 else ((1, size), (0, step))
            scale = Value("leaf", (), shape, vector.dtype, {**vector.attrs, "stride": stride})
            other = args[1 - place]
            return times(scale, other) if place == 0 else times(other, scale)
    return None
