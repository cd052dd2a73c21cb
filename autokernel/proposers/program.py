"""Row programs: pointwise work and reductions over one set of dimensions of one index space, in the fewest passes.

Softmax, the norms, plain reductions, losses and elementwise chains are all row programs; emitters need to know nothing else of them.
An expression is a number into `Program.nodes`; equal expressions share a number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from autokernel.proposers.graph import numel


@dataclass(frozen=True)
class Node:
    """One expression. "leaf", "stat", "const", "scalar", "iota" and "fold" carry a value (a number), the rest have args."""

    op: str
    args: tuple[int, ...] = ()
    value: Any = None
    dtype: str = "float32"


@dataclass(frozen=True)
class Leaf:
    """An operand as the index space sees it: element strides for each dimension of the space, 0 where it broadcasts."""

    operand: int
    strides: tuple[int, ...]
    offset: int
    dtype: str


@dataclass(frozen=True)
class Stat:
    """A reduction of one expression over the reduced dimensions; `level` passes lie before it."""

    op: str
    expr: int
    level: int


@dataclass
class Program:
    """A row program over `space`, reduced over `reduced` (dimension numbers).

    `results`: expressions in the space (kind "full") or with one value a row (kind "row"). Where `folds` is not empty, each fold sums
    one of the results over all rows and `final` is an expression of folds and constants: the problem's output, without dimensions.
    """

    space: tuple[int, ...]
    reduced: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    stats: list[Stat] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    kind: str = "full"
    final: int | None = None
    out_shape: tuple[int, ...] = ()
    out_dtype: str = "float32"

    @property
    def rows(self) -> int:
        """How many independent rows there are."""
        return numel([s for d, s in enumerate(self.space) if d not in self.reduced])

    @property
    def columns(self) -> int:
        """How many elements one row has."""
        return numel([self.space[d] for d in self.reduced])

    @property
    def folds(self) -> int:
        """How many results are summed over rows (all, where there is a `final`)."""
        return len(self.results) if self.final is not None else 0

    def varies(self, number: int) -> bool:
        """Whether an expression changes along the reduced dimensions (along any, where nothing is reduced)."""
        node = self.nodes[number]
        if node.op == "leaf":
            return any(self.leaves[node.value].strides[d] != 0 for d in (self.reduced or range(len(self.space))))
        if node.op == "iota":
            return bool(not self.reduced or node.value in self.reduced)
        return any(self.varies(a) for a in node.args)
