"""A row program's expressions as statements of a Triton kernel over a tile of rows (down) and columns (across)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from autokernel.proposers.graph import Graph, Unmatchable
from autokernel.proposers.hooks_triton import IDENTITY, PLAIN, literal
from autokernel.proposers.loops import Loop, loops
from autokernel.proposers.program import Program

FLOATS = ("float32", "float16", "bfloat16")


class Words:
    """Names, loads and statements. Lanes are rows, [L, 1]; columns are [1, N]; what depends on both is [L, N]."""

    def __init__(self, program: Program, graph: Graph) -> None:
        self.program, self.graph = program, graph
        self.loops: list[Loop] = loops(program)
        self.kept = [i for i, loop in enumerate(self.loops) if not loop.reduced]
        self.over = [i for i, loop in enumerate(self.loops) if loop.reduced]
        if not program.stats:  # a loop along which a tensor lies, but not the result, goes across: both then move in whole pieces
            self.over = [i for i in self.kept if self.loops[i].out != 1 and self._turned(i)]
            self.kept = [i for i in self.kept if i not in self.over]
        self.rows = math.prod(self.loops[i].size for i in self.kept)
        self.columns = math.prod(self.loops[i].size for i in self.over)
        self.operands = sorted({leaf.operand for leaf in program.leaves})
        self.scalars = sorted({node.value for node in program.nodes if node.op == "scalar"})
        self.pairs = self._pairs()
        self.levels = self._levels()
        self._check()

    def _turned(self, place: int) -> bool:
        """Whether a tensor lies along this loop, and changes along the one that the result lies along."""
        along = [loop for loop in self.loops if loop.out == 1]
        return any(step == 1 and all(loop.strides[n] for loop in along) for n, step in enumerate(self.loops[place].strides))

    def _check(self) -> None:
        for node in self.program.nodes:
            if node.op not in PLAIN and node.op not in ("leaf", "stat", "const", "scalar"):
                raise Unmatchable(f"{node.op} is not supported in a Triton chain")
        for leaf in self.program.leaves:
            if leaf.dtype not in (*FLOATS, "bool"):
                raise Unmatchable(f"an input of {leaf.dtype} is not supported in a Triton chain")
        if any(stat.op not in IDENTITY for stat in self.program.stats) or self.program.final is not None:
            raise Unmatchable("only sums, products, largest and smallest values of rows are supported in a Triton chain")
        if self.program.out_dtype not in FLOATS:
            raise Unmatchable(f"a result of {self.program.out_dtype} is not supported in a Triton chain")

    @property
    def wide(self) -> bool:
        """Whether offsets need 64 bits."""
        reach = [sum((loop.size - 1) * abs(loop.strides[n]) for loop in self.loops) for n in range(len(self.program.leaves))]
        return max([*reach, sum((loop.size - 1) * loop.out for loop in self.loops)], default=0) > 2**31 - 2**24

    @property
    def wide_across(self) -> bool:
        """Whether a column's own offset needs 64 bits: columns that lie far apart in memory."""
        over = [self.loops[i] for i in self.over]
        reach = [sum((loop.size - 1) * abs(loop.strides[n]) for loop in over) for n in range(len(self.program.leaves))]
        return max([*reach, sum((loop.size - 1) * loop.out for loop in over)], default=0) > 2**31 - 2**24

    @property
    def along_rows(self) -> bool:
        """Whether neighbours in memory are neighbouring rows, not columns."""
        return bool(self.kept) and (not self.over or max(self.kept) > max(self.over))

    def _pairs(self) -> dict[int, int]:
        """Statistic of squares about a mean -> the statistic that gives that mean: both can be had in one pass (Welford)."""
        program, found = self.program, dict[int, int]()
        for number, stat in enumerate(program.stats):
            node = program.nodes[stat.expr]
            if stat.op != "sum" or node.op != "mul" or node.args[0] != node.args[1] or program.nodes[node.args[0]].op != "sub":
                continue
            value, mean = program.nodes[node.args[0]].args
            made = program.nodes[mean]
            if made.op != "div" or program.nodes[made.args[1]].op != "const" or program.nodes[made.args[0]].op != "stat":
                continue
            first = program.nodes[made.args[0]].value
            if program.stats[first].op == "sum" and program.stats[first].expr == value and first not in found.values() \
                    and float(program.nodes[made.args[1]].value) == float(program.columns):
                found[number] = first
        return found

    def _levels(self) -> list[list[int]]:
        """The statistics of each pass over the rows, a pair in one pass."""
        depth: dict[int, int] = {}

        def of_stat(number: int) -> int:
            if number not in depth:
                depth[number] = of_stat(self.pairs[number]) if number in self.pairs else of_node(self.program.stats[number].expr)
            return depth[number]

        def of_node(number: int) -> int:
            node = self.program.nodes[number]
            return of_stat(node.value) + 1 if node.op == "stat" else max((of_node(a) for a in node.args), default=0)

        for number in range(len(self.program.stats)):
            of_stat(number)
        return [[s for s in depth if depth[s] == level] for level in range(max(depth.values(), default=-1) + 1)]

    def name(self, number: int) -> str:
        """What an expression is called."""
        node = self.program.nodes[number]
        return literal(node.value) if node.op == "const" else f"a{node.value}" if node.op == "scalar" else f"r{node.value}" \
            if node.op == "stat" else f"t{number}"

    def order(self, roots: Iterable[int]) -> list[int]:
        """The expressions that `roots` need, what they are made from first."""
        done: list[int] = []

        def visit(number: int) -> None:
            if number not in done:
                for arg in self.program.nodes[number].args:
                    visit(arg)
                done.append(number)

        for root in roots:
            visit(root)
        return done

    def statements(self, roots: Iterable[int], known: list[int], extra: str = "") -> list[str]:
        """Loads and arithmetic for `roots`, less what is `known`, which grows by what is said."""
        lines = []
        for number in self.order(roots):
            node = self.program.nodes[number]
            if number in known or node.op in ("const", "scalar", "stat"):
                continue
            known.append(number)
            text = self.load(node.value, extra) if node.op == "leaf" else PLAIN[node.op].format(*(self.name(a) for a in node.args))
            lines.append(f"t{number} = {text}")
        return lines

    def load(self, number: int, extra: str = "") -> str:
        """One operand's tile, in float32 (bool as it is)."""
        leaf = self.program.leaves[number]
        down = [at(self.loops[i].strides[number], f"i{i}") for i in self.kept if self.loops[i].strides[number]]
        across = [at(self.loops[i].strides[number], f"i{i}") for i in self.over if self.loops[i].strides[number]]
        place = " + ".join([f"x{self.operands.index(leaf.operand)}", *([str(leaf.offset)] if leaf.offset else []), *down, *across])
        mask = "mask" if down and across else "lanes" if down else "columns" if across else ""
        masked = f", mask={mask}, other={'0' if leaf.dtype == 'bool' else '0.0'}{extra if mask == 'mask' else ''}" if mask else ""
        return f"tl.load({place}{masked})" + (" != 0" if leaf.dtype == "bool" else ".to(tl.float32)")

    def decode(self, flat: str, places: Sequence[int]) -> list[str]:
        """The index of each loop of `places` from one flat number, the innermost first."""
        lines, rest = [], flat
        for place in reversed(places):
            last = place == places[0]
            lines.append(f"i{place} = {rest}" + ("" if last else f" % {self.loops[place].size}"))
            rest = f"{rest} // {self.loops[place].size}"
        return lines

    def target(self) -> str:
        """Where the result's tile lies."""
        steps = [at(self.loops[i].out, f"i{i}") for i in sorted([*self.kept, *self.over]) if self.loops[i].out]
        return " + ".join(["y", *(steps or ["lane"])])  # one result: lane 0


def at(step: int, index: str) -> str:
    """index * step, in the plainest words."""
    return index if step == 1 else f"{index} * {step}"
