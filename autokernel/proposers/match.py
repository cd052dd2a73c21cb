"""Matches a problem's graph to the operation of a starter: by operations, shapes and types, never by name, number or hash.

A match names the starter, its SHAPE, the tensors to call it with and, for starters with a chain, the formula. Starters are functions
`run(...)` of one operation, see the head of each file in triton_kernels/ and cuda/.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autokernel.proposers.graph import Graph, Unmatchable, Value, contiguous_strides, numel
from autokernel.proposers.lower import row_program
from autokernel.proposers.program import Leaf, Program


@dataclass(frozen=True)
class Formula:
    """An expression of a program as the body of a starter's hook; `arguments` are nodes that come in as x0, x1, ..., None: not read.

    `across`: the axis of the hook's tile along which the program's statistics are gathered, None where it has none.
    """

    program: Program
    result: int
    arguments: tuple[int | None, ...]
    across: int | None = None


@dataclass(frozen=True)
class Match:
    """A starter's operation found in a graph. `inputs`: values or leaves that run takes, None for None, scalars by position."""

    op: str
    shape: Mapping[str, Any]
    inputs: tuple[Any, ...]  # Value, Leaf (seen in `space`), ("scalar", position) or None
    out_shape: tuple[int, ...]
    idea: str
    hooks: Mapping[str, Formula] = field(default_factory=dict)
    space: tuple[int, ...] = ()


Matcher = Callable[[Graph, Value], "Match | None"]


def call(value: Value, *names: str) -> tuple[tuple[Any, ...], Mapping[str, Any]] | None:
    """(args, kwargs) of the aten call that gave `value` if its name (less its overload) is one of `names`."""
    made = value.attrs.get("call")
    if made is None or made.place != 0 or made.name.split(".")[0] not in names:
        return None
    return made.args, made.kwargs


def whole_operand(graph: Graph, value: Any) -> bool:
    """Whether a value is an operand as it was given, in its own shape, contiguous."""
    if not isinstance(value, Value) or value.op != "leaf":
        return False
    operand = graph.operands[value.attrs["operand"]]
    return bool(operand.contiguous and value.shape == operand.shape and value.attrs["stride"] == contiguous_strides(value.shape)
                and value.attrs["offset"] == 0)


def program_of(graph: Graph, value: Value) -> Program | None:
    """The row program of a value, or None where there is none."""
    try:
        return row_program(Graph(graph.operands, (value,), graph.scalars, graph.other_inputs, graph.input_count, True))
    except Unmatchable:
        return None


def full_leaf(graph: Graph, program: Program, leaf: Leaf) -> bool:
    """Whether a leaf walks its operand, contiguous, through the whole space."""
    operand = graph.operands[leaf.operand]
    return operand.contiguous and leaf.offset == 0 and numel(operand.shape) == numel(program.space) \
        and all(a == b for a, b, s in zip(leaf.strides, contiguous_strides(program.space), program.space, strict=True) if s > 1)


def elementwise(graph: Graph, root: Value) -> Match | None:
    """A pointwise formula of one to four inputs."""
    program = program_of(graph, root)
    if program is None or program.stats or not program.leaves:
        return None
    inputs, nodes = formula_inputs(program)
    if len(inputs) > 4 or not covers(program):
        return None
    floats = {leaf.dtype for leaf in program.leaves if leaf.dtype.startswith(("float", "bfloat"))}
    out = None if floats == {program.out_dtype} else program.out_dtype
    hooks = {"chain": Formula(program, program.results[0], nodes)}
    return Match("elementwise", {"out_dtype": out}, inputs, program.out_shape, "elementwise chain in one pass", hooks, program.space)


def formula_inputs(program: Program) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """What a hook of this program takes, leaves first, then scalars: as inputs of a Match, and as node numbers."""
    numbers = [n for kind in ("leaf", "scalar") for n, node in enumerate(program.nodes) if node.op == kind]
    inputs = [program.leaves[node.value] if node.op == "leaf" else ("scalar", node.value) for node in (program.nodes[n] for n in numbers)]
    return tuple(inputs), tuple(numbers)


def covers(program: Program) -> bool:
    """Whether the leaves' shapes broadcast to the whole space."""
    return all(size == 1 or any(leaf.strides[d] for leaf in program.leaves) for d, size in enumerate(program.space))


KINDS = {"sum": "sum", "amax": "max", "amin": "min", "prod": "prod", "argmax": "argmax", "argmin": "argmin"}


def reduction(graph: Graph, root: Value) -> Match | None:
    """One reduction of a pointwise formula, and a formula of the result."""
    program = program_of(graph, root)
    if program is None or len(program.stats) != 1 or program.kind != "row" or program.final is not None or not covers(program):
        return None
    inputs, nodes = formula_inputs(program)
    dims, rank = program.reduced, len(program.space)
    stat_node = next(n for n, node in enumerate(program.nodes) if node.op == "stat")
    outside = _below(program, program.results[0], stat_node)
    if len(inputs) > 4 or list(dims) != list(range(dims[0], dims[-1] + 1)) or outside & {"leaf", "scalar", "iota"}:
        return None
    stat = program.stats[0]
    if stat.op.startswith("arg") and program.results[0] != stat_node:
        return None
    keepdim = len(program.out_shape) == rank
    shape = {"kind": KINDS[stat.op], "dim": None if len(dims) == rank else dims[0] if len(dims) == 1 else list(dims), "keepdim": keepdim,
             "divide": None}
    hooks = {"chain": Formula(program, stat.expr, nodes), "finish": Formula(program, program.results[0], (stat_node,))}
    return Match("reduce", shape, inputs, program.out_shape, f"{stat.op} of a chain, split over the device", hooks, program.space)


def _below(program: Program, number: int, stop: int) -> set[str]:
    if number == stop:
        return set()
    node = program.nodes[number]
    return {node.op} | {op for a in node.args for op in _below(program, a, stop)} - {"const"}


def first(matchers: tuple[Matcher, ...], graph: Graph, root: Value) -> Match | None:
    """The first match of the matchers, in their order."""
    return next((found for matcher in matchers if (found := matcher(graph, root)) is not None), None)
