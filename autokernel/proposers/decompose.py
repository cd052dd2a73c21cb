"""Takes aten operations apart into pointwise operations and reductions; what it does not know stays "aten:NAME".

Pointwise vocabulary: add sub mul div neg abs exp log log1p expm1 sqrt rsqrt sigmoid tanh erf sin cos floor pow maximum minimum where
lt le gt ge eq ne and or not cast iota. `iota` is the index along one dimension (attrs dim), for losses that pick one class.
Formulas follow torch's documentation of each operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autokernel.proposers.graph import Value, const, contiguous_strides, numel, point, reduce

Args = Sequence[Any]
Kwargs = Mapping[str, Any]
Rule = Callable[[Args, Kwargs], "Value | None"]

UNARY = {"neg", "abs", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sigmoid", "tanh", "erf", "sin", "cos", "floor"}
COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne", "logical_and": "and", "logical_or": "or"}
PAIRS = {"mul": "mul", "div": "div", "maximum": "maximum", "minimum": "minimum"}
SAME = {"clone", "detach", "contiguous", "alias", "lift_fresh"}


def take_apart(name: str, args: Args, kwargs: Kwargs, shape: tuple[int, ...], dtype: str, place: int) -> Value:
    """The value of output `place` of one aten call, in the vocabulary above where it can be said in it."""
    base = name.split(".")[0]
    if base.endswith("_") and not base.startswith("_"):
        base = base[:-1]
    value = None
    if dtype in ("float32", "float16", "bfloat16", "float64", "bool", "int64"):
        value = _rule(base, name, args, kwargs, place)
    if value is not None and value.shape == shape and (value.dtype == dtype or value.op in ("const", "scalar")):
        return value
    tensors = tuple(a for a in args if isinstance(a, Value))
    return Value(f"aten:{name}", tensors, shape, dtype, {"call": (args, kwargs), "place": place})


def _rule(base: str, name: str, args: Args, kwargs: Kwargs, place: int) -> Value | None:
    rules: Mapping[str, Rule] = PLACE_RULES[place] if place in PLACE_RULES else {}
    if place == 0 and base in UNARY and len(args) == 1:
        return _float_only(base, args[0])
    if place == 0 and base in COMPARE and len(args) == 2:
        return point(COMPARE[base], args[0], args[1], dtype="bool")
    if place == 0 and base in SAME and args and isinstance(args[0], Value):
        return args[0]
    if place == 0 and base in PAIRS and len(args) == 2 and not kwargs:
        return _float_only(PAIRS[base], *args)
    rule = rules.get(name) or rules.get(base)
    return rule(args, kwargs) if rule is not None else None


def _float_only(op: str, *args: Any) -> Value | None:
    """A pointwise value of float32 (or the operands' own float type); None for arithmetic of integers alone."""
    dtypes = [a.dtype for a in args if isinstance(a, Value) and a.dtype.startswith(("float", "bfloat"))]
    tensors = [a for a in args if isinstance(a, Value) and a.op not in ("const", "scalar")]
    return point(op, *args, dtype=_wider([t.dtype for t in tensors if t.shape] or dtypes)) if dtypes else None


def _wider(dtypes: Sequence[str]) -> str:
    order = ["bool", "int64", "bfloat16", "float16", "float32", "float64"]
    return max(dtypes, key=lambda d: order.index(d) if d in order else 0)


def _get(args: Args, kwargs: Kwargs, place: int, name: str, default: Any) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)


def _linear_sum(sign: str, swap: bool = False) -> Rule:
    def rule(args: Args, kwargs: Kwargs) -> Value | None:
        a, b = args[0], args[1]
        alpha = _get(args, kwargs, 2, "alpha", 1)
        if swap:
            a, b = b, a
        scaled = b if alpha == 1 else _float_only("mul", b, alpha)
        return _float_only(sign, a, scaled) if scaled is not None else None
    return rule


def _pow(args: Args, kwargs: Kwargs) -> Value | None:
    x, power = args[0], args[1]
    if isinstance(power, (int, float)) and isinstance(x, Value):
        if power in (1, 2, 3, 4):
            square = _float_only("mul", x, x)
            if square is None or power == 2:
                return square
            return x if power == 1 else _float_only("mul", square, x if power == 3 else square)
        if power in (0.5, -0.5, -1):
            return {0.5: lambda: _float_only("sqrt", x), -0.5: lambda: _float_only("rsqrt", x), -1: lambda: _float_only("div", 1.0, x)}[power]()
    return _float_only("pow", x, power)


def _clamp(args: Args, kwargs: Kwargs) -> Value | None:
    value = args[0]
    low, high = _get(args, kwargs, 1, "min", None), _get(args, kwargs, 2, "max", None)
    if low is not None:
        value = _float_only("maximum", value, low)
    if high is not None and value is not None:
        value = _float_only("minimum", value, high)
    return value if isinstance(value, Value) else None


def _where(condition: Value, a: Any, b: Any) -> Value:
    dtypes = [v.dtype for v in (a, b) if isinstance(v, Value)]
    return point("where", condition, a, b, dtype=_wider(dtypes or ["float32"]))


def _elu(args: Args, kwargs: Kwargs) -> Value | None:
    x = args[0]
    alpha, scale, inner = (_get(args, kwargs, n, k, 1.0) for n, k in ((1, "alpha"), (2, "scale"), (3, "input_scale")))
    negative = point("mul", point("expm1", point("mul", x, inner) if inner != 1 else x, dtype=x.dtype), alpha * scale, dtype=x.dtype)
    return _where(point("gt", x, 0.0, dtype="bool"), point("mul", x, scale, dtype=x.dtype) if scale != 1 else x, negative)


def _gelu(args: Args, kwargs: Kwargs) -> Value | None:
    x = args[0]
    if kwargs.get("approximate", "none") == "tanh":
        cube = point("mul", point("mul", x, x, dtype=x.dtype), x, dtype=x.dtype)
        inner = point("mul", point("add", x, point("mul", cube, 0.044715, dtype=x.dtype), dtype=x.dtype), math.sqrt(2 / math.pi), dtype=x.dtype)
        gate = point("tanh", inner, dtype=x.dtype)
    else:
        gate = point("erf", point("mul", x, math.sqrt(0.5), dtype=x.dtype), dtype=x.dtype)
    return point("mul", point("mul", x, 0.5, dtype=x.dtype), point("add", gate, 1.0, dtype=x.dtype), dtype=x.dtype)


def _softplus_of(x: Value) -> Value:
    """log(1 + exp(x)) without overflow: max(x, 0) + log1p(exp(-|x|))."""
    tail = point("log1p", point("exp", point("neg", point("abs", x, dtype=x.dtype), dtype=x.dtype), dtype=x.dtype), dtype=x.dtype)
    return point("add", point("maximum", x, 0.0, dtype=x.dtype), tail, dtype=x.dtype)


def _softplus(args: Args, kwargs: Kwargs) -> Value | None:
    x, beta, threshold = args[0], _get(args, kwargs, 1, "beta", 1), _get(args, kwargs, 2, "threshold", 20)
    scaled = point("mul", x, float(beta), dtype=x.dtype) if beta != 1 else x
    soft = _softplus_of(scaled)
    soft = point("div", soft, float(beta), dtype=x.dtype) if beta != 1 else soft
    return _where(point("gt", scaled, float(threshold), dtype="bool"), x, soft)


def _hard(args: Args, kwargs: Kwargs) -> Value:
    x = args[0]
    shifted = point("minimum", point("maximum", point("add", x, 3.0, dtype=x.dtype), 0.0, dtype=x.dtype), 6.0, dtype=x.dtype)
    return point("div", shifted, 6.0, dtype=x.dtype)


def _times(x: Value, y: Value) -> Value:
    return point("mul", x, y, dtype=x.dtype)


def _unary_rule(build: Callable[[Value], Value]) -> Rule:
    return lambda args, kwargs: build(args[0])


def _dims(args: Args, kwargs: Kwargs, place: int, x: Value) -> list[int]:
    dims = _get(args, kwargs, place, "dim", None)
    dims = [dims] if isinstance(dims, int) else dims
    return list(dims) if dims else list(range(len(x.shape)))


def _mean(x: Value, dims: Sequence[int], keepdim: bool) -> Value:
    rank = len(x.shape)
    count = numel([x.shape[d % rank] for d in dims]) if rank else 1
    return point("div", reduce("sum", x, dims, keepdim), float(count), dtype=x.dtype)


def _reduction(op: str) -> Rule:
    def rule(args: Args, kwargs: Kwargs) -> Value | None:
        x, keepdim = args[0], bool(_get(args, kwargs, 2, "keepdim", False))
        if not x.dtype.startswith(("float", "bfloat")) or kwargs.get("dtype") not in (None, x.dtype):
            return None
        dims = _dims(args, kwargs, 1, x)
        return _mean(x, dims, keepdim) if op == "mean" else reduce(op, x, dims, keepdim)
    return rule


def _index_reduction(op: str) -> Rule:
    def rule(args: Args, kwargs: Kwargs) -> Value | None:
        dim = _get(args, kwargs, 1, "dim", None)
        return None if dim is None else reduce(op, args[0], [dim], bool(_get(args, kwargs, 2, "keepdim", False)))
    return rule


def _norm(args: Args, kwargs: Kwargs) -> Value | None:
    x, order = args[0], _get(args, kwargs, 1, "ord", 2)
    order = 2 if order is None else order
    dims, keepdim = _dims(args, kwargs, 2, x), bool(_get(args, kwargs, 3, "keepdim", False))
    if order == 2:
        return point("sqrt", reduce("sum", _times(x, x), dims, keepdim), dtype=x.dtype)
    size = point("abs", x, dtype=x.dtype)
    return reduce("sum" if order == 1 else "amax", size, dims, keepdim) if order in (1, math.inf) else None


def _variance(x: Value, dims: Sequence[int], correction: float, keepdim: bool) -> Value:
    rank = len(x.shape)
    count = numel([x.shape[d % rank] for d in dims])
    centred = point("sub", x, _mean(x, dims, True), dtype=x.dtype)
    return point("div", reduce("sum", _times(centred, centred), dims, keepdim), float(max(count - correction, 0)), dtype=x.dtype)


def _var(args: Args, kwargs: Kwargs) -> Value | None:
    x, correction = args[0], kwargs.get("correction", 1)
    return _variance(x, _dims(args, kwargs, 1, x), 1 if correction is None else correction, bool(kwargs.get("keepdim", False)))


def _shifted_exp(x: Value, dims: Sequence[int]) -> tuple[Value, Value, Value]:
    top = reduce("amax", x, dims, True)
    shifted = point("sub", x, top, dtype=x.dtype)
    return top, shifted, point("exp", shifted, dtype=x.dtype)


def _softmax(args: Args, kwargs: Kwargs) -> Value | None:
    x, dim = args[0], args[1]
    _, _, powers = _shifted_exp(x, [dim])
    return point("div", powers, reduce("sum", powers, [dim], True), dtype=x.dtype) if x.shape else None


def _log_softmax(args: Args, kwargs: Kwargs) -> Value | None:
    x, dim = args[0], args[1]
    _, shifted, powers = _shifted_exp(x, [dim])
    return point("sub", shifted, point("log", reduce("sum", powers, [dim], True), dtype=x.dtype), dtype=x.dtype) if x.shape else None


def _logsumexp(args: Args, kwargs: Kwargs) -> Value | None:
    x, dims, keepdim = args[0], _dims(args, kwargs, 1, args[0]), bool(_get(args, kwargs, 2, "keepdim", False))
    _, _, powers = _shifted_exp(x, dims)
    top = reduce("amax", x, dims, keepdim)
    return point("add", top, point("log", reduce("sum", powers, dims, keepdim), dtype=x.dtype), dtype=x.dtype)


def _normalised(x: Value, dims: Sequence[int], eps: float) -> Value:
    centred = point("sub", x, _mean(x, dims, True), dtype=x.dtype)
    variance = _mean(_times(centred, centred), dims, True)
    return _times(centred, point("rsqrt", point("add", variance, eps, dtype=x.dtype), dtype=x.dtype))


def _layer_norm(args: Args, kwargs: Kwargs) -> Value | None:
    x, shape, weight, bias, eps = args[0], args[1], args[2], args[3], args[4]
    return _affine(_normalised(x, list(range(-len(shape), 0)), eps), weight, bias)


def _affine(x: Value, weight: Value | None, bias: Value | None) -> Value:
    x = _times(x, weight) if weight is not None else x
    return point("add", x, bias, dtype=x.dtype) if bias is not None else x


def _channels(leaf: Value | None, shape: Sequence[int]) -> Value | None:
    """A vector leaf of one value a channel, seen in `shape` (all its dimensions but the channels' are 1)."""
    if leaf is None or leaf.op != "leaf" or len(leaf.shape) != 1:
        return None
    step = leaf.attrs["stride"][0]
    return Value("leaf", (), tuple(shape), leaf.dtype, {**leaf.attrs, "stride": tuple(step * s for s in contiguous_strides(shape))})


def _batch_norm(args: Args, kwargs: Kwargs) -> Value | None:
    x, weight, bias, mean, variance, training, _, eps = args
    shape = [1, x.shape[1]] + [1] * (len(x.shape) - 2)
    over = [d for d in range(len(x.shape)) if d != 1]
    if training:
        normal = _normalised(x, over, eps)
    else:
        centre, spread = _channels(mean, shape), _channels(variance, shape)
        if centre is None or spread is None:
            return None
        centred = point("sub", x, centre, dtype=x.dtype)
        normal = _times(centred, point("rsqrt", point("add", spread, eps, dtype=x.dtype), dtype=x.dtype))
    if (weight is not None and _channels(weight, shape) is None) or (bias is not None and _channels(bias, shape) is None):
        return None
    return _affine(normal, _channels(weight, shape), _channels(bias, shape))


def _group_norm(args: Args, kwargs: Kwargs) -> Value | None:
    x, weight, bias, _, channels, _, groups, eps = args
    inner = (x.shape[0], groups, channels // groups, *x.shape[2:])
    grouped = Value("view", (x,), inner, x.dtype, {"stride": contiguous_strides(inner), "offset": 0})
    affine_shape = [1, groups, channels // groups] + [1] * (len(x.shape) - 2)
    for parameter in (weight, bias):
        if parameter is not None and _channels(parameter, affine_shape) is None:
            return None
    normal = _affine(_normalised(grouped, list(range(2, len(inner))), eps), _channels(weight, affine_shape), _channels(bias, affine_shape))
    return Value("view", (normal,), x.shape, x.dtype, {"stride": contiguous_strides(x.shape), "offset": 0})


def _loss(kind: str) -> Rule:
    """mse_loss and smooth_l1_loss / huber_loss, with torch's reduction codes 0 none, 1 mean, 2 sum."""
    def rule(args: Args, kwargs: Kwargs) -> Value | None:
        a, b, how = args[0], args[1], _get(args, kwargs, 2, "reduction", 1)
        apart = point("sub", a, b, dtype=a.dtype)
        if kind == "mse":
            each = _times(apart, apart)
        else:
            beta = float(_get(args, kwargs, 3, "beta" if kind == "smooth_l1" else "delta", 1.0))
            size = point("abs", apart, dtype=a.dtype)
            square = point("mul", _times(apart, apart), 0.5 / beta if kind == "smooth_l1" else 0.5, dtype=a.dtype)
            line = point("sub", size, 0.5 * beta, dtype=a.dtype)
            each = _where(point("lt", size, beta, dtype="bool"), square, line if kind == "smooth_l1" else point("mul", line, beta, dtype=a.dtype))
        every = list(range(len(each.shape)))
        return each if how == 0 else _mean(each, every, False) if how == 1 else reduce("sum", each, every, False)
    return rule


def _nll(args: Args, kwargs: Kwargs) -> Value | None:
    """nll_loss_forward over (rows, classes) without class weights: the picked entry is a sum over `iota == target`."""
    logs, target, weight, how, ignore = args[0], args[1], args[2], args[3], args[4]
    if weight is not None or len(logs.shape) != 2 or how not in (1, 2):
        return None
    rows, _ = logs.shape
    if target.op != "leaf":
        return None
    column = Value("leaf", (), (rows, 1), target.dtype, {**target.attrs, "stride": (target.attrs["stride"][0], 0)})
    index = Value("iota", (), (1, logs.shape[1]), "int64", {"dim": 1})
    picked = reduce("sum", _where(point("eq", index, column, dtype="bool"), logs, 0.0), [1], False)
    counted = point("ne", target, float(ignore), dtype="bool")
    total = reduce("sum", _where(counted, point("neg", picked, dtype=logs.dtype), 0.0), [0], False)
    if how == 2:
        return total
    return point("div", total, reduce("sum", _where(counted, const(1.0), 0.0), [0], False), dtype=logs.dtype)


def _gather(args: Args, kwargs: Kwargs) -> Value | None:
    """gather along `dim` of one entry a line, as a sum over `iota == index`."""
    x, dim, index = args[0], args[1] % max(len(args[0].shape), 1), args[2]
    lines = tuple(1 if d == dim else size for d, size in enumerate(x.shape))
    if index.shape != lines or not x.dtype.startswith("float"):
        return None
    place = Value("iota", (), tuple(size if d == dim else 1 for d, size in enumerate(x.shape)), "int64", {"dim": dim})
    return reduce("sum", _where(point("eq", place, index, dtype="bool"), x, 0.0), [dim], True)


def _cast(args: Args, kwargs: Kwargs) -> Value | None:
    wanted = kwargs.get("dtype")
    if wanted in (None, args[0].dtype):
        return args[0] if isinstance(args[0], Value) else None
    return point("cast", args[0], dtype=wanted) if wanted in ("float32", "float16", "bfloat16") else None


def _xlogy(args: Args, kwargs: Kwargs) -> Value | None:
    x, y = args
    if not (isinstance(x, Value) and isinstance(y, Value)):
        return None
    return _where(point("eq", x, 0.0, dtype="bool"), 0.0, _times(x, point("log", y, dtype=y.dtype)))


def _mish(x: Value) -> Value:
    return _times(x, point("tanh", _softplus_of(x), dtype=x.dtype))


RULES: dict[str, Rule] = {
    "add": _linear_sum("add"), "sub": _linear_sum("sub"), "rsub": _linear_sum("sub", swap=True), "pow": _pow,
    "div.Tensor_mode": lambda a, k: None,
    "square": lambda a, k: _times(a[0], a[0]), "reciprocal": lambda a, k: _float_only("div", 1.0, a[0]),
    "relu": lambda a, k: _float_only("maximum", a[0], 0.0), "clamp": _clamp,
    "clamp_min": lambda a, k: _float_only("maximum", a[0], a[1]), "clamp_max": lambda a, k: _float_only("minimum", a[0], a[1]),
    "hardtanh": lambda a, k: _clamp([a[0], _get(a, k, 1, "min_val", -1.0), _get(a, k, 2, "max_val", 1.0)], {}),
    "leaky_relu": lambda a, k: _where(point("gt", a[0], 0.0, dtype="bool"), a[0],
                                      point("mul", a[0], _get(a, k, 1, "negative_slope", 0.01), dtype=a[0].dtype)),
    "elu": _elu, "gelu": _gelu, "softplus": _softplus, "hardsigmoid": _hard, "mish": _unary_rule(_mish),
    "hardswish": lambda a, k: _times(a[0], _hard(a, k)),
    "silu": _unary_rule(lambda x: _times(x, point("sigmoid", x, dtype=x.dtype))),
    "log_sigmoid_forward": _unary_rule(lambda x: point("neg", _softplus_of(point("neg", x, dtype=x.dtype)), dtype=x.dtype)),
    "where": lambda a, k: _where(*a) if len(a) == 3 else None, "logical_not": lambda a, k: point("not", a[0], dtype="bool"),
    "xlogy": _xlogy, "_to_copy": _cast, "sum": _reduction("sum"), "mean": _reduction("mean"), "amax": _reduction("amax"),
    "amin": _reduction("amin"), "max.default": _reduction("amax"), "max.dim": _reduction("amax"), "min.default": _reduction("amin"),
    "min.dim": _reduction("amin"), "prod": _reduction("prod"), "argmax": _index_reduction("argmax"), "argmin": _index_reduction("argmin"),
    "linalg_vector_norm": _norm, "norm": _norm, "var": _var, "logsumexp": _logsumexp,
    "std": lambda a, k: point("sqrt", _var(a, k) or a[0], dtype=a[0].dtype),
    "_softmax": _softmax, "_log_softmax": _log_softmax, "native_layer_norm": _layer_norm, "native_batch_norm": _batch_norm,
    "native_group_norm": _group_norm, "mse_loss": _loss("mse"), "smooth_l1_loss": _loss("smooth_l1"), "huber_loss": _loss("huber"),
    "nll_loss_forward": _nll, "gather": _gather,
}
PLACE_RULES: dict[int, Mapping[str, Rule]] = {
    0: RULES,
    1: {"max.dim": _index_reduction("argmax"), "min.dim": _index_reduction("argmin")},
}
