"""Takes aten operations apart into pointwise operations and reductions; what it does not know stays "aten:NAME".

Pointwise vocabulary: add sub mul div neg abs exp log log1p expm1 sqrt rsqrt sigmoid tanh erf sin cos floor pow maximum minimum where
lt le gt ge eq ne and or not cast iota. `iota` is the index along one dimension (attrs dim), for losses that pick one class.
Formulas follow torch's documentation of each operation.
"""

from __future__ import annotations

from collections.abc import Mapping

from autokernel.proposers import rules_pointwise as pointwise
from autokernel.proposers import rules_reduce as reducing
from autokernel.proposers.graph import Call, Value, point
from autokernel.proposers.rules_pointwise import Args, Kwargs, Rule, clamp, float_only, get, times, unary_rule, where

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
    if value is None or value.shape != shape or (value.dtype != dtype and value.op not in ("const", "scalar")):
        tensors = tuple(v for a in args for v in (a if isinstance(a, list) else [a]) if isinstance(v, Value))
        value = Value(f"aten:{name}", tensors, shape, dtype)
    if not any(value is a for a in args):
        value.attrs.setdefault("call", Call(name, tuple(args), dict(kwargs), place))
    return value


def _rule(base: str, name: str, args: Args, kwargs: Kwargs, place: int) -> Value | None:
    rules: Mapping[str, Rule] = PLACE_RULES[place] if place in PLACE_RULES else {}
    if place == 0 and base in UNARY and len(args) == 1:
        return float_only(base, args[0])
    if place == 0 and base in COMPARE and len(args) == 2:
        return point(COMPARE[base], args[0], args[1], dtype="bool")
    if place == 0 and base in SAME and args and isinstance(args[0], Value):
        return args[0]
    if place == 0 and base in PAIRS and len(args) == 2 and not kwargs:
        return float_only(PAIRS[base], *args)
    rule = rules.get(name) or rules.get(base)
    return rule(args, kwargs) if rule is not None else None


RULES: dict[str, Rule] = {
    "add": pointwise.linear_sum("add"),
    "sub": pointwise.linear_sum("sub"),
    "rsub": pointwise.linear_sum("sub", swap=True),
    "pow": pointwise.pow_rule,
    "div.Tensor_mode": lambda a, k: None,
    "square": lambda a, k: times(a[0], a[0]),
    "reciprocal": lambda a, k: float_only("div", 1.0, a[0]),
    "relu": lambda a, k: float_only("maximum", a[0], 0.0),
    "clamp": clamp,
    "clamp_min": lambda a, k: float_only("maximum", a[0], a[1]),
    "clamp_max": lambda a, k: float_only("minimum", a[0], a[1]),
    "hardtanh": lambda a, k: clamp([a[0], get(a, k, 1, "min_val", -1.0), get(a, k, 2, "max_val", 1.0)], {}),
    "leaky_relu": pointwise.leaky_relu,
    "elu": pointwise.elu,
    "gelu": pointwise.gelu,
    "softplus": pointwise.softplus,
    "hardsigmoid": pointwise.hard,
    "hardswish": lambda a, k: times(a[0], pointwise.hard(a, k)),
    "mish": unary_rule(pointwise.mish),
    "silu": unary_rule(lambda x: times(x, point("sigmoid", x, dtype=x.dtype))),
    "log_sigmoid_forward": unary_rule(pointwise.log_sigmoid),
    "where": lambda a, k: where(*a) if len(a) == 3 else None,
    "logical_not": lambda a, k: point("not", a[0], dtype="bool"),
    "xlogy": pointwise.xlogy,
    "_to_copy": pointwise.cast_rule,
    "sum": reducing.reduction("sum"),
    "mean": reducing.reduction("mean"),
    "amax": reducing.reduction("amax"),
    "amin": reducing.reduction("amin"),
    "max.default": reducing.reduction("amax"),
    "max.dim": reducing.reduction("amax"),
    "min.default": reducing.reduction("amin"),
    "min.dim": reducing.reduction("amin"),
    "prod": reducing.reduction("prod"),
    "argmax": reducing.index_reduction("argmax"),
    "argmin": reducing.index_reduction("argmin"),
    "linalg_vector_norm": reducing.norm,
    "norm": reducing.norm,
    "var": reducing.var,
    "std": reducing.std,
    "logsumexp": reducing.logsumexp,
    "_softmax": reducing.softmax,
    "_log_softmax": reducing.log_softmax,
    "native_layer_norm": reducing.layer_norm,
    "native_batch_norm": reducing.batch_norm,
    "native_group_norm": reducing.group_norm,
    "mse_loss": reducing.loss("mse"),
    "smooth_l1_loss": reducing.loss("smooth_l1"),
    "huber_loss": reducing.loss("huber"),
    "nll_loss_forward": reducing.nll,
    "gather": reducing.gather,
    "mm": pointwise.diagonal_product,
}
PLACE_RULES: dict[int, Mapping[str, Rule]] = {
    0: RULES,
    1: {"max.dim": reducing.index_reduction("argmax"), "min.dim": reducing.index_reduction("argmin")},
}
