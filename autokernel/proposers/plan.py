"""Plans a graph as stages: each a starter's operation or a row program, each reading operands and what earlier stages gave.

A cut costs writing and reading a tensor. The plan taken is the one that moves the fewest bytes; of equal ones, the one whose later
stages do least, so that formulas end up in the kernel before them, where they cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autokernel.proposers.cut import above, nearest, substitute, with_stand_ins
from autokernel.proposers.graph import Graph, Operand, Unmatchable, Value, contiguous_strides, numel
from autokernel.proposers.match import Match, Matcher, first
from autokernel.proposers.rewrites import MADE

LAUNCH_BYTES = 4 << 20  # what a launch costs, in bytes that could have moved meanwhile: about a microsecond
MAX_VALUES = 120  # calls above the output that are looked at
CORES = ("mm", "bmm", "addmm", "convolution", "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d", "cumsum",
         "cumprod", "_scaled_dot_product_flash_attention_for_cpu")
SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "bool": 1, "int64": 8, "float64": 8}


@dataclass(frozen=True)
class Stage:
    """One kernel or group of kernels: its match, and the variable that holds its result."""

    match: Match
    result: str


@dataclass(frozen=True)
class Plan:
    """Stages in order; the last one gives the output. `graph` has an operand of kind "stage" for each result that is read again."""

    stages: tuple[Stage, ...]
    graph: Graph
    moved_bytes: int


@dataclass(frozen=True)
class _Way:
    bytes_moved: int
    steps: tuple[tuple[Value, Match], ...]


class Planner:
    """Finds the plan of a graph with one output for a set of matchers, the last of which takes any row program."""

    def __init__(self, graph: Graph, matchers: Sequence[Matcher]) -> None:
        self.matchers = tuple(matchers)
        root = graph.outputs[0]
        self.candidates = [v for v in list(above(root))[:MAX_VALUES * 20] if self._may_cut(v, root)][:MAX_VALUES]
        self.graph, self.leaves = with_stand_ins(graph, self.candidates)
        self.root = root
        self._ways: dict[int, _Way | None] = {}

    @staticmethod
    def _may_cut(value: Value, root: Value) -> bool:
        if value is root or value.op in ("leaf", "const", "scalar") or value.attrs.get("call") is None or numel(value.shape) == 0:
            return False
        seen = value.attrs.get("strides_seen", contiguous_strides(value.shape))
        same = all(a == b for a, b, size in zip(seen, contiguous_strides(value.shape), value.shape, strict=True) if size > 1)
        return value.dtype in ("float32", "float16", "bfloat16") and same

    def plan(self) -> Plan:
        """The plan. Raises Unmatchable where there is none."""
        way = self._way(self.root)
        if way is None:
            raise Unmatchable("no chain of starters gives this combination of operations")
        names: dict[int, str] = {}
        for value, _ in way.steps:
            names[id(value)] = f"h{len(names) + 1}"
        operands: list[Operand] = list(self.graph.operands)
        for value in self.candidates:
            leaf = self.leaves[id(value)]
            if id(value) in names:
                number = leaf.attrs["operand"]
                operands[number] = replace(operands[number], name=names[id(value)])
        graph = replace(self.graph, operands=tuple(operands))
        return Plan(tuple(Stage(match, names[id(value)]) for value, match in way.steps), graph, way.bytes_moved)

    def _way(self, value: Value) -> _Way | None:
        if id(value) not in self._ways:
            self._ways[id(value)] = None  # a value cannot need itself
            self._ways[id(value)] = self._best(value)
        return self._ways[id(value)]

    def _best(self, value: Value) -> _Way | None:
        below = [c for c in above(value) if id(c) in self.leaves and c is not value]
        ways = []
        for cuts in self._cut_sets(value, below):
            found = first(self.matchers, self.graph, substitute(value, {id(c): self.leaves[id(c)] for c in cuts}))
            if found is None:
                continue
            parts = [self._way(c) for c in cuts if self._reads(found, c)]
            if all(p is not None for p in parts):
                steps = {id(v): (v, m) for p in parts if p is not None for v, m in p.steps}
                moved = _bytes(found, self.graph, value) + sum({id(v): _bytes(m, self.graph, v) for v, m in steps.values()}.values())
                ways.append(_Way(moved, (*steps.values(), (value, found))))
        return min(ways, key=lambda way: way.bytes_moved) if ways else None  # of equals the first: cut nearest to the output

    def _cut_sets(self, value: Value, below: Sequence[Value]) -> list[list[Value]]:
        single = [[c] for c in below]
        many = [v for v in nearest(value, CORES) if v is not value and id(v) in self.leaves]
        made = [v for v in below if v.attrs["call"].name == MADE]
        made = [v for v in made if not any(v is not other and any(v is w for w in above(other)) for other in made)]
        return [[], *single, *(several for several in (many, made) if len(several) > 1)]

    def _reads(self, match: Match, cut: Value) -> bool:
        return self.leaves[id(cut)].attrs["operand"] in operands_of(match)


def operands_of(match: Match) -> set[int]:
    """The numbers of the operands that a match's function is given."""
    numbers = set()
    for given in match.inputs:
        if isinstance(given, Value):
            numbers.add(given.attrs["operand"])
        elif isinstance(given, tuple):
            numbers |= {given[1]} if given[0] == "operand" else set()
        elif given is not None:
            numbers.add(given.operand)
    return numbers


def _bytes(match: Match, graph: Graph, result: Value) -> int:
    operands = [graph.operands[n] for n in operands_of(match)]
    read = sum(numel(o.shape) * SIZES.get(o.dtype, 4) for o in operands)
    return read * passes(match) + numel(result.shape) * SIZES.get(result.dtype, 4) + LAUNCH_BYTES + int(_work(match))


def _work(match: Match) -> float:
    """What the multiplications of a product or convolution take, in bytes that could have moved meanwhile on an H200."""
    if match.op == "matmul":
        a, b = match.inputs[0].shape, match.inputs[1].shape
        return 2.0 * numel(a) * int(b[-1]) * 0.03  # as bfloat16 parts: about 120 TFLOP/s beside 4 TB/s
    if match.op == "conv":
        x, weight = match.inputs[0].shape, match.inputs[1].shape
        met = numel(x) * numel(weight[1:]) if match.shape["transposed"] else numel(match.space) * numel(weight[1:])
        return 2.0 * met * 0.013  # TF32: about 300
    return 0.0


def passes(match: Match) -> int:
    """How often a match reads its operands, roughly."""
    program = match.shape.get("program")
    if program is not None and program.stats and program.columns > 32768:
        return 1 + max(int(stat.level) for stat in program.stats) + int(program.kind == "full")
    return 2 if match.op == "groupnorm" else 1
