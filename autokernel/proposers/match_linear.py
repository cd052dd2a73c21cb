"""Matches products of matrices, attention, convolutions, pooling and scans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autokernel.proposers.cut import nearest
from autokernel.proposers.graph import Graph, Value, contiguous_strides, numel, point, reduce
from autokernel.proposers.match import Formula, Match, call, program_of, reduction, whole_operand
from autokernel.proposers.match_tail import merged, tail
from autokernel.proposers.program import Leaf


def matmul(graph: Graph, root: Value) -> Match | None:
    """mm, bmm, addmm (through views), then triu or tril, or a pointwise formula of the product and up to three other tensors."""
    triangle = call(root, "triu", "tril")
    inner = root
    if triangle is not None and triangle[0][1:] in ((), (0,)):
        inner = triangle[0][0]
    core = _product_below(inner)
    if core is None:
        return None
    found = call(core, *PRODUCTS)
    assert found is not None
    bias, a, b = found[0] if len(found[0]) == 3 else (None, *found[0])
    if (bias is not None and (len(bias.shape) != 1 or found[1])) or not all(v.op == "leaf" for v in (a, b) + ((bias,) if bias else ())):
        return None
    if b.shape[-1] == 1 or a.shape[-2] == 1 or (triangle is not None and (inner is not core or len(a.shape) != 2)):
        return None  # a vector: no tiles to win from
    name = root.attrs["call"].name.split(".")[0] if triangle is not None else None
    same = name is not None and all(name in graph.operands[v.attrs["operand"]].structure and whole_operand(graph, v) for v in (a, b))
    shape = {"triangular": {"triu": "upper", "tril": "lower"}.get(name or ""), "triangular_inputs": same}
    idea = "product, float32 as bf16 parts on tensor cores" + (", zero tiles skipped" if triangle is not None else "")
    plain: tuple[Any, ...] = (a, b) if bias is None else (a, b, bias)
    if _same_elements(inner, core):
        return Match("matmul", shape, plain, root.shape, idea)
    after = _epilogue(graph, inner, core)
    if after is None:
        return None
    epilogue, extras = after
    if not extras:
        return Match("matmul", shape, plain, root.shape, f"{idea}, chain in the epilogue", {"chain": epilogue})
    space = (numel(core.shape[:-1]), core.shape[-1])
    return Match("matmul", shape, (a, b, bias, *extras), root.shape, f"{idea}, chain in the epilogue", {"chain": epilogue}, space)


PRODUCTS = ("mm", "bmm", "addmm")


def _same_elements(root: Value, core: Value) -> bool:
    """Whether `root` is `core` or a contiguous reshape of it."""
    return dense_base(root) is core


def _product_below(root: Value) -> Value | None:
    """The one product that `root` is made from."""
    found = nearest(root, PRODUCTS)
    return found[0] if len(found) == 1 else None


def _epilogue(graph: Graph, root: Value, core: Value) -> tuple[Formula, list[Any]] | None:
    """`root` as a pointwise formula of `core`, and what else it reads, seen as (rows, columns) of the product."""
    after = tail(graph, root, core)
    if after is None or after.program.stats or (after.extras and len(core.shape) != 2):
        return None
    space, columns = after.program.space, core.shape[-1]
    extras: list[Any] = []
    for _, extra in after.extras:
        if isinstance(extra, Leaf):
            ends = [d for d in range(len(space)) if numel(space[d:]) == columns]
            split = merged(extra, space, [range(ends[-1]), range(ends[-1], len(space))]) if ends else None
            if split is None:
                return None
            extra = split
        extras.append(extra)
    return after.formula(), extras


def matrix_vector(graph: Graph, root: Value) -> Match | None:
    """A product with a vector, or a matrix of one row or column: a sum of products along the other's rows, at memory speed."""
    found = call(root, "mm", "mv")
    if found is None or not all(v.op == "leaf" for v in found[0]):
        return None
    a, b = found[0]
    column = len(b.shape) == 1 or b.shape[1] == 1
    if not column and a.shape[0] != 1:
        return None
    vector, matrix = (b, a) if column else (a, b)
    step, length = (vector.attrs["stride"][0 if column else 1], matrix.shape[1 if column else 0])
    shape, stride = ((1, length), (0, step)) if column else ((length, 1), (step, 0))
    seen = Value("leaf", (), shape, vector.dtype, {**vector.attrs, "stride": stride})
    total = reduce("sum", point("mul", matrix, seen, dtype=matrix.dtype), [1 if column else 0], len(b.shape) == 2)
    made = reduction(graph, total)
    return replace(made, idea="product with a vector as a split reduction", out_shape=root.shape) if made is not None else None


def diagonal(graph: Graph, root: Value) -> Match | None:
    """diag(d) @ B or B @ diag(d), also written as a broadcast product of a vector and a matrix."""
    program = program_of(graph, root)
    if program is None or program.stats or len(program.leaves) != 2 or len(program.space) != 2 or len(program.nodes) != 3:
        return None
    if program.nodes[program.results[0]].op != "mul" or program.out_shape != program.space:
        return None
    for vector, matrix in ((0, 1), (1, 0)):
        d, b = program.leaves[vector], program.leaves[matrix]
        whole = graph.operands[d.operand].shape == (program.space[0],) or graph.operands[d.operand].shape == (program.space[1],)
        if b.strides == contiguous_strides(program.space) and not b.offset and not d.offset and whole and d.strides in ((1, 0), (0, 1)) \
                and graph.operands[b.operand].shape == program.space:
            inputs = [Value("leaf", (), graph.operands[x.operand].shape, x.dtype,
                            {"operand": x.operand, "stride": graph.operands[x.operand].stride, "offset": 0}) for x in (d, b)]
            side = "left" if d.strides == (1, 0) else "right"
            return Match("diag_matmul", {"side": side}, tuple(inputs), root.shape, "a diagonal matrix only scales: no product")
    return None


def attention(graph: Graph, root: Value) -> Match | None:
    """scaled_dot_product_attention without mask or dropout."""
    found = call(root, "_scaled_dot_product_flash_attention_for_cpu", "scaled_dot_product_attention")
    if found is None:
        return None
    args, kwargs = found
    rest = dict(zip(("dropout_p", "is_causal"), args[3:], strict=False)) | dict(kwargs)
    if rest.get("dropout_p") or rest.get("attn_mask") is not None or not all(whole_operand(graph, v) for v in args[:3]):
        return None
    shape = {"causal": bool(rest.get("is_causal")), "scale": rest.get("scale")}
    return Match("attention", shape, args[:3], root.shape, "attention without storing the scores")


def _argument(args: tuple[Any, ...], kwargs: Any, place: int, name: str, default: Any) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)


def dense_base(value: Value) -> Value:
    """What a contiguous reshape of a computed value was made from."""
    while value.op == "view" and value.attrs["stride"] == contiguous_strides(value.shape):
        if numel(value.shape) != numel(value.args[0].shape):
            break
        value = value.args[0]
    return value


POOLS = ("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d")


def windows_of(core: Value) -> tuple[Value, dict[str, Any]] | None:
    """What a pooling call pools, and how: kind, kernel, stride, padding, dilation, ceil_mode, count_include_pad; None for other values."""
    found = call(core, *POOLS)
    if found is None:
        return None
    args, kwargs = found
    kind = "max" if "max" in core.attrs["call"].name else "avg"
    dims = 3 if "3d" in core.attrs["call"].name else 2

    def every(value: Any) -> list[int]:
        sizes = [value] if isinstance(value, int) else list(value)
        return sizes * dims if len(sizes) == 1 else sizes

    kernel = every(args[1])
    stride = every(_argument(args, kwargs, 2, "stride", None) or kernel)
    padding = every(_argument(args, kwargs, 3, "padding", 0))
    dilation = every(_argument(args, kwargs, 4, "dilation", 1)) if kind == "max" else [1] * dims
    ceil = bool(_argument(args, kwargs, 5 if kind == "max" else 4, "ceil_mode", False))
    counted = True if kind == "max" else bool(_argument(args, kwargs, 5, "count_include_pad", True))
    if kind == "avg" and _argument(args, kwargs, 6, "divisor_override", None) is not None:
        return None
    return args[0], {"kind": kind, "kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil,
                     "count_include_pad": counted}


def pooling(graph: Graph, root: Value) -> Match | None:
    """max_pool and avg_pool in 1 to 3 dimensions; 1D comes as 2D of height 1."""
    found = windows_of(dense_base(root))
    if found is None or found[0].op != "leaf" or found[0].attrs["stride"] != contiguous_strides(found[0].shape):
        return None
    x, shape = found
    return Match("pooling", shape, (x,), root.shape, f"{shape['kind']} pooling, windows overlap in the cache, no indices stored")


def depthwise(graph: Graph, root: Value) -> Match | None:
    """A 2D convolution with one filter a channel."""
    found = call(root, "convolution")
    if found is None:
        return None
    x, weight, bias, stride, padding, dilation, transposed, _, groups = found[0]
    single = groups == x.shape[1] and weight.shape[1] == 1 and weight.shape[0] == groups
    if transposed or len(x.shape) != 4 or not single or not whole_operand(graph, x):
        return None
    shape = {"stride": list(stride), "padding": list(padding), "dilation": list(dilation)}
    return Match("depthwise_conv", shape, (x, weight) if bias is None else (x, weight, bias), root.shape, "depthwise convolution, direct")


def scan(graph: Graph, root: Value) -> Match | None:
    """cumsum or cumprod, masked, reversed (between two flips) or exclusive (behind a zero)."""
    reverse = call(root, "flip")
    joined = call(root, "cat")
    core = reverse[0][0] if reverse is not None else joined[0][0][-1] if joined is not None and len(joined[0][0]) == 2 else root
    found = call(core, "cumsum", "cumprod")
    if found is None or found[1].get("dtype") is not None:
        return None
    x, dim = found[0][0], found[0][1]
    rank = len(root.shape)
    dim = dim % rank if rank else 0
    kind = "sum" if core.attrs["call"].name.startswith("cumsum") else "prod"
    if reverse is not None:
        before = call(x, "flip")
        if before is None or [d % rank for d in before[0][1]] != [dim] or [d % rank for d in reverse[0][1]] != [dim]:
            return None
        x = before[0][0]
    if joined is not None:
        x = _exclusive(graph, joined, x, dim, kind, root)
        if x is None:
            return None
    product = call(x, "mul")
    inputs = product[0] if product is not None and len(product[0]) == 2 else (x,)
    if not all(whole_operand(graph, v) and v.shape == root.shape for v in inputs) or inputs[0].dtype != root.dtype:
        return None
    shape = {"kind": kind, "dim": dim, "reverse": reverse is not None, "exclusive": joined is not None}
    return Match("scan", shape, tuple(inputs), root.shape, "running total with mask, direction and shift folded in")


def _exclusive(graph: Graph, joined: Any, x: Value, dim: int, kind: str, root: Value) -> Value | None:
    """The whole operand behind `cat([zeros, cumsum(x without its last entry)])`, or None."""
    axis = _argument(joined[0], joined[1], 1, "dim", 0) % len(root.shape)
    head = joined[0][0][0]
    zero = call(head, "zeros_like", "zeros", "new_zeros") if kind == "sum" else call(head, "ones_like", "ones", "new_ones")
    if axis != dim or zero is None or x.op != "leaf" or x.attrs["offset"] or head.shape[dim] != 1:
        return None
    operand = graph.operands[x.attrs["operand"]]
    if operand.shape != root.shape or x.attrs["stride"] != operand.stride or not operand.contiguous:
        return None
    return Value("leaf", (), operand.shape, operand.dtype, {**x.attrs})
