"""Matches products of matrices, attention, convolutions, pooling and scans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autokernel.proposers.graph import Graph, Unmatchable, Value, contiguous_strides, numel, point, reduce
from autokernel.proposers.lower import row_program
from autokernel.proposers.match import Formula, Match, call, program_of, reduction, whole_operand


def matmul(graph: Graph, root: Value) -> Match | None:
    """mm, bmm, addmm (through views), then triu or tril or a pointwise formula of the product alone."""
    triangle = call(root, "triu", "tril")
    inner = root
    if triangle is not None and triangle[0][1:] in ((), (0,)):
        inner = triangle[0][0]
    core, epilogue = _product_below(graph, inner)
    if core is None:
        return None
    found = call(core, "mm", "bmm", "addmm")
    assert found is not None
    bias, a, b = found[0] if len(found[0]) == 3 else (None, *found[0])
    if (bias is not None and (len(bias.shape) != 1 or found[1])) or not all(v.op == "leaf" for v in (a, b) + ((bias,) if bias else ())):
        return None
    if b.shape[-1] == 1 or a.shape[-2] == 1 or (triangle is not None and (epilogue is not None or len(a.shape) != 2)):
        return None  # a vector: no tiles to win from
    name = root.attrs["call"].name.split(".")[0] if triangle is not None else None
    same = name is not None and all(name in graph.operands[v.attrs["operand"]].structure and whole_operand(graph, v) for v in (a, b))
    shape = {"triangular": {"triu": "upper", "tril": "lower"}.get(name or ""), "triangular_inputs": same}
    idea = "product, float32 as bf16 parts on tensor cores" + (", zero tiles skipped" if triangle is not None else "")
    inputs = (a, b) if bias is None else (a, b, bias)
    return Match("matmul", shape, inputs, root.shape, idea, {"chain": epilogue} if epilogue is not None else {})


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


def _product_below(graph: Graph, root: Value) -> tuple[Value | None, Formula | None]:
    """The product that `root` is a view or a pointwise formula of, and that formula."""
    value = root
    while value.op == "view" and value.attrs["offset"] == 0 and value.attrs["stride"] == contiguous_strides(value.shape) \
            and numel(value.shape) == numel(value.args[0].shape):
        value = value.args[0]
    if call(value, "mm", "bmm", "addmm") is not None:
        return value, None
    products: dict[int, Value] = {}
    replaced = _with_leaf(value, products, len(graph.operands))
    if len(products) != 1 or replaced is None:
        return None, None
    product = next(iter(products.values()))
    stand_in = graph.operands[0].__class__("input", -1, "", product.shape, contiguous_strides(product.shape), product.dtype)
    try:
        program = row_program(Graph((*graph.operands, stand_in), (replaced,), (), (), graph.input_count, True))
    except Unmatchable:
        return None, None
    leaves = [n for n, node in enumerate(program.nodes) if node.op in ("leaf", "scalar")]
    if program.stats or len(leaves) != 1 or program.leaves[0].operand != len(graph.operands):
        return None, None
    return product, Formula(program, program.results[0], (leaves[0],))


def _with_leaf(value: Value, products: dict[int, Value], operand: int, seen: dict[int, Value] | None = None) -> Value | None:
    """`value` with matrix products replaced by leaves; None where something opaque remains."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    if call(value, "mm", "bmm", "addmm") is not None:
        products[id(value)] = value
        leaf = Value("leaf", (), value.shape, value.dtype, {"operand": operand, "stride": contiguous_strides(value.shape), "offset": 0})
        seen[id(value)] = leaf
        return leaf
    if value.op.startswith("aten:"):
        return None
    args = [_with_leaf(a, products, operand, seen) for a in value.args]
    if any(a is None for a in args):
        return None
    made = Value(value.op, tuple(a for a in args if a is not None), value.shape, value.dtype, value.attrs) if value.args else value
    seen[id(value)] = made
    return made


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


def _dense_base(value: Value) -> Value:
    """What a contiguous reshape of a computed value was made from."""
    while value.op == "view" and value.attrs["stride"] == contiguous_strides(value.shape):
        if numel(value.shape) != numel(value.args[0].shape):
            break
        value = value.args[0]
    return value


def pooling(graph: Graph, root: Value) -> Match | None:
    """max_pool and avg_pool in 1 to 3 dimensions; 1D comes as 2D of height 1."""
    core = _dense_base(root)
    found = call(core, "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d")
    if found is None or found[0][0].op != "leaf" or found[0][0].attrs["stride"] != contiguous_strides(found[0][0].shape):
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
    shape = {"kind": kind, "kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil,
             "count_include_pad": counted}
    return Match("pooling", shape, (args[0],), root.shape, f"{kind} pooling, windows overlap in the cache, no indices stored")


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
