"""Rewrites that are exact in real arithmetic and save work that no kernel could: each says what it does, and is labelled where it is used.

None folds what depends on weights alone into constants: everything is computed from the parameters at every call.
"""

from __future__ import annotations

from dataclasses import replace

from autokernel.proposers.cut import above, nearest, substitute
from autokernel.proposers.graph import Call, Graph, Value, contiguous_strides, point, reduce
from autokernel.proposers.match import call

MADE = "rewrite.sum"  # the call behind a value that a rewrite made and that may be a stage of its own
SUM_FIRST = "rewrite: the sum over a product's columns is taken before the product, which becomes one with a vector"


def rewritten(graph: Graph) -> tuple[Graph, str] | None:
    """The graph with a rewrite applied, and what that is; None where none applies."""
    root = graph.outputs[0]
    replacements: dict[int, Value] = {}
    for value in above(root):
        if value.op == "sum" and len(value.args[0].shape) == 2 and value.attrs["dims"] == (1,):
            products = nearest(value.args[0], ("mm", "addmm"))
            summed = _row_sum(value.args[0], bool(value.attrs["keepdim"])) if len(products) == 1 else None
            if summed is not None and summed.shape == value.shape:
                replacements[id(value)] = _stage(summed)
    if not replacements:
        return None
    return replace(graph, outputs=(substitute(root, replacements),)), SUM_FIRST


def _row_sum(value: Value, keepdim: bool) -> Value | None:
    """The sum of a (rows, columns) formula over its columns, without the product in it; None where the formula is not affine in that."""
    rows, columns = value.shape
    if call(value, "mm", "addmm") is not None and value.op.startswith("aten:"):
        return _of_product(value, keepdim)
    if value.op in ("add", "sub"):
        parts = [_part(a, rows, columns, keepdim) for a in value.args]
        if any(p is None for p in parts):
            return None
        return point(value.op, *(p for p in parts if p is not None), dtype=value.dtype)
    if value.op == "neg":
        part = _part(value.args[0], rows, columns, keepdim)
        return None if part is None else point("neg", part, dtype=value.dtype)
    if value.op in ("mul", "div"):
        a, b = value.args
        if value.op == "mul" and a.shape == () and b.shape == value.shape:
            a, b = b, a
        if b.shape != () or a.shape != value.shape:
            return None
        part = _row_sum(a, keepdim)
        return None if part is None else point(value.op, part, b, dtype=value.dtype)
    return None


def _part(value: Value, rows: int, columns: int, keepdim: bool) -> Value | None:
    """The sum over the columns of a term that broadcasts to (rows, columns)."""
    if value.shape == (rows, columns):
        if nearest(value, ("mm", "addmm")):
            return _row_sum(value, keepdim)
        return _stage(reduce("sum", value, [1], keepdim))
    if value.shape == ():
        return point("mul", value, float(columns), dtype=value.dtype)
    if value.shape in ((columns,), (1, columns)) and value.op == "leaf":
        flat = Value("leaf", (), (columns,), value.dtype, {**value.attrs, "stride": value.attrs["stride"][-1:]})
        return _stage(reduce("sum", flat, [0], False))
    return None


def _of_product(value: Value, keepdim: bool) -> Value | None:
    found = call(value, "mm", "addmm")
    assert found is not None
    bias, a, b = found[0] if len(found[0]) == 3 else (None, *found[0])
    if found[1] or b.op != "leaf" or len(b.shape) != 2:
        return None
    inner, columns = b.shape
    if b.attrs["stride"] == (1, inner):  # a weight seen transposed: summed as it lies
        turned = Value("leaf", (), (columns, inner), b.dtype, {**b.attrs, "stride": (inner, 1)})
        weights = _stage(reduce("sum", turned, [0], False))
    else:
        weights = _stage(reduce("sum", b, [1], False))
    total = reduce("sum", point("mul", a, weights, dtype=a.dtype), [1], keepdim)
    if bias is None:
        return total
    part = _part(bias, value.shape[0], columns, keepdim) if isinstance(bias, Value) else None
    return None if part is None else point("add", total, part, dtype=value.dtype)


def _stage(value: Value) -> Value:
    """Marks a value as one that a stage may give."""
    value.attrs["call"] = Call(MADE, value.args, {}, 0)
    value.attrs["strides_seen"] = contiguous_strides(value.shape)
    return value
