"""A traced problem as a graph of values over a small vocabulary: leaves, pointwise operations, reductions, and the rest by name.

Reads the JSON of `trace.py`; needs no torch. Composite operations (softmax, the norms, losses) are taken apart into pointwise
operations and reductions by `decompose.py`, so that a formula and its library call become the same graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autokernel.errors import InternalError

REDUCTIONS = ("sum", "amax", "amin", "prod", "argmax", "argmin")


class Unmatchable(Exception):
    """The graph holds something the matcher has no plan for; the message names it."""


@dataclass(frozen=True)
class Operand:
    """One tensor that a kernel reads: an input of forward (by position), a parameter or buffer, or an earlier stage's result (by name)."""

    kind: str  # "input", "parameter", "buffer" or "stage"
    position: int  # of the input among forward's arguments; -1 for the others
    name: str  # dotted name of the parameter or buffer, or the variable that holds the stage's result; "" for an input
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    structure: tuple[str, ...] = ()  # "triu", "tril"

    @property
    def contiguous(self) -> bool:
        """Whether its strides are those of a fresh tensor of its shape."""
        return self.stride == contiguous_strides(self.shape) or any(size == 0 for size in self.shape)


@dataclass(eq=False)
class Value:
    """One value of the graph. `op`: "leaf", "const", "scalar", "view", a pointwise name, one of REDUCTIONS, or "aten:NAME".

    leaf: attrs operand (number), stride, offset; const: attrs value; scalar: attrs input (position); view: attrs stride, offset (in its
    base's storage); a reduction: attrs dims, keepdim. Whatever an aten call gave has attrs call, also where it was taken apart.
    """

    op: str
    args: tuple[Value, ...]
    shape: tuple[int, ...]
    dtype: str
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Call:
    """The aten call that gave a value: its name without "aten.", arguments with Values for tensors, and which output it was."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    place: int


@dataclass(frozen=True)
class Graph:
    """A problem's forward: operands, output values (dead operations fall away since nothing reaches them)."""

    operands: tuple[Operand, ...]
    outputs: tuple[Value, ...]
    scalars: tuple[int, ...]  # positions of float inputs
    other_inputs: tuple[int, ...]  # positions of inputs that are neither tensors nor floats
    input_count: int
    single: bool  # forward returns one tensor, not a tuple


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements, with torch's convention that a size-0 dimension counts as 1."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def numel(shape: Sequence[int]) -> int:
    """Number of elements of a shape."""
    count = 1
    for size in shape:
        count *= size
    return count


def const(value: float | int | bool) -> Value:
    """A constant of no dimensions."""
    return Value("const", (), (), "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32", {"value": value})


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that shapes broadcast to, right-aligned; raises Unmatchable where they do not."""
    width = max((len(s) for s in shapes), default=0)
    result = [1] * width
    for shape in shapes:
        for back, size in enumerate(reversed(shape), 1):
            if size != 1 and result[-back] not in (1, size):
                raise Unmatchable(f"shapes {shapes} must broadcast and do not")
            if size != 1:
                result[-back] = size
    return tuple(result)


def point(op: str, *args: Value | float | int, dtype: str = "float32") -> Value:
    """A pointwise value; Python numbers become constants."""
    values = tuple(a if isinstance(a, Value) else const(a) for a in args)
    return Value(op, values, broadcast(*(v.shape for v in values)), dtype)


def reduce(op: str, arg: Value, dims: Sequence[int], keepdim: bool) -> Value:
    """A reduction over `dims` (negative ones count from the end)."""
    rank = len(arg.shape)
    wanted = tuple(sorted({d % rank for d in dims})) if rank else ()
    shape = tuple(1 if d in wanted else s for d, s in enumerate(arg.shape) if keepdim or d not in wanted)
    return Value(op, (arg,), shape, "int64" if op.startswith("arg") else arg.dtype, {"dims": wanted, "keepdim": keepdim})


def read(trace: Mapping[str, Any]) -> Graph:
    """The graph of a trace. Raises Unmatchable where the trace failed or holds an operation with no value semantics."""
    from autokernel.proposers.decompose import take_apart

    if "error" in trace:
        raise Unmatchable(f"only what can be traced is supported ({trace['error']})")
    if trace.get("format") != "trace/1":
        raise InternalError(f"trace of format {trace.get('format')!r}; use the trace.py of this version.")
    nodes = trace["nodes"]
    values: dict[int, Value] = {}
    operands: list[Operand] = []
    for number, entry in enumerate(trace["inputs"]):
        if "node" in entry:
            _add_operand(operands, values, nodes, entry["node"], Operand("input", number, "", (), (), "", tuple(entry["structure"])))
    for number, node in enumerate(nodes):
        if "value" in node and number not in values:
            values[number] = const(_decode(node["value"], values))
    for entry in trace["parameters"]:
        values.pop(entry["node"], None)
        kind = "buffer" if entry["buffer"] else "parameter"
        _add_operand(operands, values, nodes, entry["node"], Operand(kind, -1, entry["name"], (), (), ""))
    for op in trace["ops"]:
        name = op["op"].removeprefix("aten.")
        args, kwargs = _decode(op["args"], values), {k: _decode(v, values) for k, v in op["kwargs"].items()}
        for place, out in enumerate(op["outs"]):
            node = nodes[out]
            shape, stride = tuple(node["shape"]), tuple(node["stride"])
            base = values.get(node["base"]) if node["base"] != out else None
            if base is not None and not name.split(".")[0].endswith("_"):
                owner = nodes[node["base"]]
                values[out] = _view(base, tuple(owner["stride"]), shape, stride, node["offset"])
            else:
                values[out] = take_apart(name, args, kwargs, shape, node["dtype"], place)
                values[out].attrs.setdefault("strides_seen", stride)
    inputs = trace["inputs"]
    return Graph(
        tuple(operands), tuple(values.get(n) or _missing(n) for n in trace["outputs"]),
        scalars=tuple(n for n, i in enumerate(inputs) if isinstance(i.get("value"), float)),
        other_inputs=tuple(n for n, i in enumerate(inputs) if "node" not in i and not isinstance(i["value"], float)),
        input_count=len(inputs), single=trace["single"],
    )


def _add_operand(operands: list[Operand], values: dict[int, Value], nodes: Sequence[Any], node: int, kind: Operand) -> None:
    if node in values:  # a parameter under two names
        return
    facts = nodes[node]
    shape, stride = tuple(facts["shape"]), tuple(facts["stride"])
    values[node] = Value("leaf", (), shape, facts["dtype"], {"operand": len(operands), "stride": stride, "offset": 0})
    operands.append(Operand(kind.kind, kind.position, kind.name, shape, stride, facts["dtype"], kind.structure))


def _missing(number: int) -> Value:
    raise Unmatchable(f"output node {number} must have a value and has none")


def _decode(value: Any, values: Mapping[int, Value]) -> Any:
    """Arguments as Python values; tensors as Values, floats that JSON lacks as floats, {"scalar": n} as a scalar Value."""
    if isinstance(value, list):
        return [_decode(v, values) for v in value]
    if isinstance(value, dict):
        if "node" in value:
            return values.get(value["node"]) or Value("aten:constant", (), (), "float32")
        if "scalar" in value:
            return Value("scalar", (), (), "float32", {"input": value["scalar"]})
        if "float" in value:
            return float(value["float"])
        return value.get("dtype") or value.get("const")
    return value


def _view(base: Value, seen: tuple[int, ...], shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Value:
    if base.op == "leaf":
        return view_of_leaf(base, seen, shape, stride, offset)
    if shape == base.shape and offset == 0 and stride == base.attrs.get("strides_seen", contiguous_strides(shape)):
        return base
    return Value("view", (base,), shape, base.dtype, {"stride": stride, "offset": offset})


def view_of_leaf(leaf: Value, seen: tuple[int, ...], shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Value:
    """A view of a leaf's storage: of its operand's, or, where the leaf stands for a copy that lies otherwise (`seen`), of that copy's.

    A copy's view stays one, to be said over the leaf's dimensions.
    """
    own = all(a == b for a, b, size in zip(leaf.attrs["stride"], seen, leaf.shape, strict=True) if size > 1)
    if own and not leaf.attrs["offset"]:
        return Value("leaf", (), shape, leaf.dtype, {"operand": leaf.attrs["operand"], "stride": stride, "offset": offset})
    copy = Value("leaf", (), leaf.shape, leaf.dtype, {**leaf.attrs, "strides_seen": seen})
    same = shape == leaf.shape and offset == 0 and stride == seen
    return copy if same else Value("view", (copy,), shape, leaf.dtype, {"stride": stride, "offset": offset})
