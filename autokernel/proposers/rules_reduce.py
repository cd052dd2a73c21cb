"""Reductions, norms and losses of aten in the matcher's vocabulary (see decompose.py). Formulas follow torch's documentation of each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autokernel.proposers.graph import REDUCTIONS, Value, const, contiguous_strides, numel, point, reduce
from autokernel.proposers.rules_pointwise import Args, Kwargs, Rule, get, times, where


def dims_of(args: Args, kwargs: Kwargs, place: int, x: Value) -> list[int]:
    """The dimensions that a call reduces; all where it names none."""
    dims = get(args, kwargs, place, "dim", None)
    dims = [dims] if isinstance(dims, int) else dims
    return list(dims) if dims else list(range(len(x.shape)))


def mean(x: Value, dims: Sequence[int], keepdim: bool) -> Value:
    """A sum divided by its count."""
    rank = len(x.shape)
    count = numel([x.shape[d % rank] for d in dims]) if rank else 1
    return point("div", reduce("sum", x, dims, keepdim), float(count), dtype=x.dtype)


def reduction(op: str) -> Rule:
    """sum, mean, amax, amin, prod and the values of max and min."""
    def rule(args: Args, kwargs: Kwargs) -> Value | None:
        x, keepdim = args[0], bool(get(args, kwargs, 2, "keepdim", False))
        if not x.dtype.startswith(("float", "bfloat")) or kwargs.get("dtype") not in (None, x.dtype):
            return None
        dims = dims_of(args, kwargs, 1, x)
        return mean(x, dims, keepdim) if op == "mean" else reduce(op, x, dims, keepdim)
    return rule


def index_reduction(op: str) -> Rule:
    """argmax and argmin over one dimension, also as the indices of max and min."""
    def rule(args: Args, kwargs: Kwargs) -> Value | None:
        dim = get(args, kwargs, 1, "dim", None)
        return None if dim is None else reduce(op, args[0], [dim], bool(get(args, kwargs, 2, "keepdim", False)))
    return rule


def norm(args: Args, kwargs: Kwargs) -> Value | None:
    """Vector norms of order 1, 2 and infinity."""
    x, order = args[0], get(args, kwargs, 1, "ord", 2)
    order = 2 if order is None else order
    dims, keepdim = dims_of(args, kwargs, 2, x), bool(get(args, kwargs, 3, "keepdim", False))
    if order == 2:
        return point("sqrt", reduce("sum", times(x, x), dims, keepdim), dtype=x.dtype)
    size = point("abs", x, dtype=x.dtype)
    return reduce("sum" if order == 1 else "amax", size, dims, keepdim) if order in (1, math.inf) else None


def variance(x: Value, dims: Sequence[int], correction: float, keepdim: bool) -> Value:
    """Variance in two passes: the mean first, then squared distances from it."""
    rank = len(x.shape)
    count = numel([x.shape[d % rank] for d in dims])
    centred = point("sub", x, mean(x, dims, True), dtype=x.dtype)
    return point("div", reduce("sum", times(centred, centred), dims, keepdim), float(max(count - correction, 0)), dtype=x.dtype)


def var(args: Args, kwargs: Kwargs) -> Value | None:
    """var with its correction."""
    x, correction = args[0], kwargs.get("correction", 1)
    return variance(x, dims_of(args, kwargs, 1, x), 1 if correction is None else correction, bool(kwargs.get("keepdim", False)))


def std(args: Args, kwargs: Kwargs) -> Value | None:
    """The root of var."""
    squared = var(args, kwargs)
    return point("sqrt", squared, dtype=squared.dtype) if squared is not None else None


def shifted_exp(x: Value, dims: Sequence[int]) -> tuple[Value, Value, Value]:
    """(maximum, x - maximum, exp of that) over `dims`."""
    top = reduce("amax", x, dims, True)
    shifted = point("sub", x, top, dtype=x.dtype)
    return top, shifted, point("exp", shifted, dtype=x.dtype)


def softmax(args: Args, kwargs: Kwargs) -> Value | None:
    """softmax over one dimension."""
    x, dim = args[0], args[1]
    _, _, powers = shifted_exp(x, [dim])
    return point("div", powers, reduce("sum", powers, [dim], True), dtype=x.dtype) if x.shape else None


def log_softmax(args: Args, kwargs: Kwargs) -> Value | None:
    """log_softmax over one dimension."""
    x, dim = args[0], args[1]
    _, shifted, powers = shifted_exp(x, [dim])
    return point("sub", shifted, point("log", reduce("sum", powers, [dim], True), dtype=x.dtype), dtype=x.dtype) if x.shape else None


def logsumexp(args: Args, kwargs: Kwargs) -> Value | None:
    """logsumexp, shifted by the maximum."""
    x, dims, keepdim = args[0], dims_of(args, kwargs, 1, args[0]), bool(get(args, kwargs, 2, "keepdim", False))
    _, _, powers = shifted_exp(x, dims)
    top = reduce("amax", x, dims, keepdim)
    return point("add", top, point("log", reduce("sum", powers, dims, keepdim), dtype=x.dtype), dtype=x.dtype)


def normalised(x: Value, dims: Sequence[int], eps: float) -> Value:
    """(x - mean) / sqrt(variance + eps) over `dims`."""
    centred = point("sub", x, mean(x, dims, True), dtype=x.dtype)
    variance = mean(times(centred, centred), dims, True)
    return times(centred, point("rsqrt", point("add", variance, eps, dtype=x.dtype), dtype=x.dtype))


def layer_norm(args: Args, kwargs: Kwargs) -> Value | None:
    """layer_norm with its affine part."""
    x, shape, weight, bias, eps = args[0], args[1], args[2], args[3], args[4]
    return affine(normalised(x, list(range(-len(shape), 0)), eps), weight, bias)


def affine(x: Value, weight: Value | None, bias: Value | None) -> Value:
    """x * weight + bias, either missing."""
    x = times(x, weight) if weight is not None else x
    return point("add", x, bias, dtype=x.dtype) if bias is not None else x


def channel_leaf(leaf: Value | None, shape: Sequence[int]) -> Value | None:
    """A vector leaf of one value a channel, seen in `shape` (all its dimensions but the channels' are 1)."""
    if leaf is None or leaf.op != "leaf" or len(leaf.shape) != 1:
        return None
    step = leaf.attrs["stride"][0]
    return Value("leaf", (), tuple(shape), leaf.dtype, {**leaf.attrs, "stride": tuple(step * s for s in contiguous_strides(shape))})


def batch_norm(args: Args, kwargs: Kwargs) -> Value | None:
    """batch_norm: the batch's statistics in training, else the running ones."""
    x, weight, bias, mean, variance, training, _, eps = args
    shape = [1, x.shape[1]] + [1] * (len(x.shape) - 2)
    over = [d for d in range(len(x.shape)) if d != 1]
    if training:
        normal = normalised(x, over, eps)
    else:
        centre, spread = channel_leaf(mean, shape), channel_leaf(variance, shape)
        if centre is None or spread is None:
            return None
        centred = point("sub", x, centre, dtype=x.dtype)
        normal = times(centred, point("rsqrt", point("add", spread, eps, dtype=x.dtype), dtype=x.dtype))
    if (weight is not None and channel_leaf(weight, shape) is None) or (bias is not None and channel_leaf(bias, shape) is None):
        return None
    return affine(normal, channel_leaf(weight, shape), channel_leaf(bias, shape))


def group_norm(args: Args, kwargs: Kwargs) -> Value | None:
    """group_norm, the groups as a dimension of their own."""
    x, weight, bias, _, channels, _, groups, eps = args
    inner = (x.shape[0], groups, channels // groups, *x.shape[2:])
    grouped = Value("view", (x,), inner, x.dtype, {"stride": contiguous_strides(inner), "offset": 0})
    affine_shape = [1, groups, channels // groups] + [1] * (len(x.shape) - 2)
    for parameter in (weight, bias):
        if parameter is not None and channel_leaf(parameter, affine_shape) is None:
            return None
    normal = normalised(grouped, list(range(2, len(inner))), eps)
    normal = affine(normal, channel_leaf(weight, affine_shape), channel_leaf(bias, affine_shape))
    return Value("view", (normal,), x.shape, x.dtype, {"stride": contiguous_strides(x.shape), "offset": 0})


def loss(kind: str) -> Rule:
    """mse_loss and smooth_l1_loss / huber_loss, with torch's reduction codes 0 none, 1 mean, 2 sum."""
    def rule(args: Args, kwargs: Kwargs) -> Value | None:
        a, b, how = args[0], args[1], get(args, kwargs, 2, "reduction", 1)
        apart = point("sub", a, b, dtype=a.dtype)
        if kind == "mse":
            each = times(apart, apart)
        else:
            beta = float(get(args, kwargs, 3, "beta" if kind == "smooth_l1" else "delta", 1.0))
            size = point("abs", apart, dtype=a.dtype)
            square = point("mul", times(apart, apart), 0.5 / beta if kind == "smooth_l1" else 0.5, dtype=a.dtype)
            line = point("sub", size, 0.5 * beta, dtype=a.dtype)
            line = line if kind == "smooth_l1" else point("mul", line, beta, dtype=a.dtype)
            each = where(point("lt", size, beta, dtype="bool"), square, line)
        every = list(range(len(each.shape)))
        return each if how == 0 else mean(each, every, False) if how == 1 else reduce("sum", each, every, False)
    return rule


def nll(args: Args, kwargs: Kwargs) -> Value | None:
    """nll_loss_forward over (rows, classes) without class weights, reduced to one number."""
    logs, target, weight, how, ignore = args[0], args[1], args[2], args[3], args[4]
    if weight is not None or len(logs.shape) != 2 or how not in (1, 2) or target.op != "leaf":
        return None
    rows = logs.shape[0]
    column = Value("leaf", (), (rows, 1), target.dtype, {**target.attrs, "stride": (target.attrs["stride"][0], 0)})
    picked = Value("view", (pick(logs, 1, column),), (rows,), logs.dtype, {"stride": (1,), "offset": 0})
    counted = point("ne", target, float(ignore), dtype="bool")
    total = reduce("sum", where(counted, point("neg", picked, dtype=logs.dtype), 0.0), [0], False)
    if how == 2:
        return total
    return point("div", total, reduce("sum", where(counted, const(1.0), 0.0), [0], False), dtype=logs.dtype)


def pick(value: Value, dim: int, index: Value) -> Value:
    """One entry of every line along `dim`, as a sum over `iota == index`.

    A pointwise formula is picked from operand by operand: what is picked then does not wait for reductions of the same line.
    """
    if not value.args or value.op in REDUCTIONS or value.op in ("view", "iota") or value.op.startswith("aten:"):
        place = Value("iota", (), tuple(size if d == dim else 1 for d, size in enumerate(value.shape)), "int64", {"dim": dim})
        return reduce("sum", where(point("eq", place, index, dtype="bool"), value, 0.0), [dim], True)
    back = len(value.shape) - dim
    args = [pick(a, len(a.shape) - back, index) if len(a.shape) >= back and a.shape[-back] > 1 else a for a in value.args]
    return point(value.op, *args, dtype=value.dtype)


def gather(args: Args, kwargs: Kwargs) -> Value | None:
    """gather along `dim` of one entry a line."""
    x, dim, index = args[0], args[1] % max(len(args[0].shape), 1), args[2]
    lines = tuple(1 if d == dim else size for d, size in enumerate(x.shape))
    return pick(x, dim, index) if index.shape == lines and x.dtype.startswith("float") else None
