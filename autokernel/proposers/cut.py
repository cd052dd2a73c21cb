"""Cuts a graph at a value: what lies above it sees a stand-in operand, as if the value had been an input.

Kernels of several stages are planned so: what comes out of one stage is an operand of kind "stage" to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autokernel.proposers.graph import Call, Graph, Operand, Value, contiguous_strides, view_of_leaf


def with_stand_ins(graph: Graph, values: Sequence[Value], names: Sequence[str] = ()) -> tuple[Graph, dict[int, Value]]:
    """The graph with one more operand for each of `values`, and by id of the value the leaf that reads it, contiguous."""
    operands = list(graph.operands)
    leaves: dict[int, Value] = {}
    for place, value in enumerate(values):
        stride = contiguous_strides(value.shape)
        leaves[id(value)] = Value("leaf", (), value.shape, value.dtype, {"operand": len(operands), "stride": stride, "offset": 0})
        operands.append(Operand("stage", -1, names[place] if names else f"cut{place}", value.shape, stride, value.dtype))
    return replace(graph, operands=tuple(operands)), leaves


def substitute(root: Value, leaves: Mapping[int, Value]) -> Value:
    """`root` with some values, by id, replaced by leaves, also in the arguments of the calls that matchers look at."""
    seen: dict[int, Value] = dict(leaves)

    def visit(value: Value) -> Value:
        if id(value) not in seen:
            seen[id(value)] = rebuilt(value)
        return seen[id(value)]

    def mapped(argument: Any) -> Any:
        if isinstance(argument, Value):
            return visit(argument)
        return [mapped(a) for a in argument] if isinstance(argument, list) else argument

    def rebuilt(value: Value) -> Value:
        args = tuple(visit(a) for a in value.args)
        made = value.attrs.get("call")
        called = None if made is None else tuple(mapped(a) for a in made.args)
        same = all(a is b for a, b in zip(args, value.args, strict=True))
        if same and (made is None or all(_same(a, b) for a, b in zip(called or (), made.args, strict=True))):
            return value
        if value.op == "view" and args[0].op == "leaf":
            seen = value.args[0].attrs.get("strides_seen", contiguous_strides(value.args[0].shape))
            return view_of_leaf(args[0], seen, value.shape, value.attrs["stride"], value.attrs["offset"])
        attrs = dict(value.attrs)
        if made is not None:
            attrs["call"] = Call(made.name, called or (), {k: mapped(v) for k, v in made.kwargs.items()}, made.place)
        return Value(value.op, args, value.shape, value.dtype, attrs)

    return visit(root)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return a is b or (not isinstance(a, Value) and bool(a == b))


def above(root: Value) -> Iterator[Value]:
    """Every value that `root` is made from, `root` first, each once, nearer ones before those that lie deeper."""
    seen: set[int] = {id(root)}
    queue = [root]
    while queue:
        value = queue.pop(0)
        yield value
        for arg in inputs_of(value):
            if id(arg) not in seen:
                seen.add(id(arg))
                queue.append(arg)


def inputs_of(value: Value) -> list[Value]:
    """What a value is made from: its arguments, and those of the call behind it (which it may have been simplified away from)."""
    made = value.attrs.get("call")
    return [*value.args, *(_values(made.args) if made is not None else ())]


def _values(arguments: Sequence[Any]) -> Iterator[Value]:
    for argument in arguments:
        if isinstance(argument, Value):
            yield argument
        elif isinstance(argument, list):
            yield from _values(argument)


def nearest(root: Value, names: Sequence[str]) -> list[Value]:
    """The values below `root` that calls of these names (without overload) gave, not looked for below one of them."""
    found: list[Value] = []
    seen: set[int] = set()
    stack = [root]
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        made = value.attrs.get("call")
        if made is not None and value.op.startswith("aten:") and made.place == 0 and made.name.split(".")[0] in names:
            found.append(value)
        else:
            stack += value.args
    return found
