"""What follows a product or a convolution inside its own kernel: a formula of its tile and of other tensors, seen as the tile sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from autokernel.proposers.cut import substitute, with_stand_ins
from autokernel.proposers.graph import Graph, Value, contiguous_strides, numel
from autokernel.proposers.match import Formula, program_of
from autokernel.proposers.program import Leaf, Program

EXTRAS = 3  # tensors beside the tile itself that a starter's hook takes


@dataclass(frozen=True)
class Tail:
    """A formula over a core's output: `core` is the node of the output, `extras` are leaves or scalars with their nodes."""

    program: Program
    core: int
    extras: tuple[tuple[int, Any], ...]  # (node, Leaf or ("scalar", position))

    def formula(self, across: int | None = None) -> Formula:
        """The hook: x0 is the tile, x1, x2, x3 the extras."""
        numbers: list[int | None] = [self.core, *(number for number, _ in self.extras)]
        return Formula(self.program, self.program.results[0], (*numbers, *[None] * (1 + EXTRAS - len(numbers))), across)


def tail(graph: Graph, root: Value, core: Value) -> Tail | None:
    """`root` as a formula of `core` (and of at most three other operands) in one index space, or None."""
    sub, leaves = with_stand_ins(graph, [core])
    program = program_of(sub, substitute(root, leaves))
    if program is None or program.final is not None:
        return None
    number = len(graph.operands)
    own = [n for n, node in enumerate(program.nodes) if node.op == "leaf" and program.leaves[node.value].operand == number]
    if len(own) != 1:
        return None
    leaf = program.leaves[program.nodes[own[0]].value]
    steps = contiguous_strides(program.space)
    if leaf.offset or numel(core.shape) != numel(program.space) \
            or any(a != b for a, b, size in zip(leaf.strides, steps, program.space, strict=True) if size > 1):
        return None
    extras: list[tuple[int, Any]] = []
    for n, node in enumerate(program.nodes):
        if node.op == "leaf" and n != own[0]:
            extras.append((n, program.leaves[node.value]))
        elif node.op == "scalar":
            extras.append((n, ("scalar", node.value)))
    if len(extras) > EXTRAS or any(isinstance(e, Leaf) and e.dtype not in ("float32", "float16", "bfloat16", "bool") for _, e in extras):
        return None
    return Tail(program, own[0], tuple(extras))


def merged(leaf: Leaf, space: Sequence[int], groups: Sequence[Sequence[int]]) -> Leaf | None:
    """A leaf with the dimensions of each group seen as one, or None where its strides do not allow that."""
    strides = []
    for group in groups:
        sized = [d for d in group if space[d] > 1]
        if any(leaf.strides[a] != leaf.strides[b] * space[b] for a, b in pairwise(sized)):
            return None
        strides.append(leaf.strides[sized[-1]] if sized else 0)
    return Leaf(leaf.operand, tuple(strides), leaf.offset, leaf.dtype)
