"""A row program's index space as the fewest loops: neighbouring dimensions merge where every operand's strides allow it."""

from __future__ import annotations

from dataclasses import dataclass

from autokernel.proposers.graph import contiguous_strides
from autokernel.proposers.program import Program


@dataclass(frozen=True)
class Loop:
    """One loop of `size` steps. Strides in elements, one for each leaf of the program, and the output's."""

    size: int
    reduced: bool
    strides: tuple[int, ...]
    out: int
    counts: bool  # the program reads this loop's index (iota)


def loops(program: Program) -> list[Loop]:
    """The loops of a program, outermost first; at least one."""
    space = program.space
    counted = {node.value for node in program.nodes if node.op == "iota"}
    if program.kind == "full":
        outs = list(contiguous_strides(space))
    else:
        kept = [d for d in range(len(space)) if d not in program.reduced]
        steps = dict(zip(kept, contiguous_strides([space[d] for d in kept]), strict=True))
        outs = [steps.get(d, 0) for d in range(len(space))]
    result: list[Loop] = []
    for d, size in enumerate(space):
        if size == 1:
            continue
        loop = Loop(size, d in program.reduced, tuple(leaf.strides[d] for leaf in program.leaves), outs[d], d in counted)
        last = result[-1] if result else None
        if last is not None and _merge(last, loop):
            result[-1] = Loop(last.size * size, last.reduced, loop.strides, loop.out, False)
        else:
            result.append(loop)
    return result or [Loop(1, bool(program.reduced), (0,) * len(program.leaves), 0, False)]


def _merge(outer: Loop, inner: Loop) -> bool:
    if outer.reduced != inner.reduced or outer.counts or inner.counts:
        return False
    pairs = [*zip(outer.strides, inner.strides, strict=True), (outer.out, inner.out)]
    return all(a == b * inner.size for a, b in pairs)
