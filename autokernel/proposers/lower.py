"""Lowers a graph to a row program: every value becomes an expression over one index space, every reduction a statistic of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autokernel.proposers.graph import REDUCTIONS, Graph, Unmatchable, Value, broadcast, contiguous_strides, numel
from autokernel.proposers.program import Leaf, Node, Program, Stat

MAX_NODES = 200


def row_program(graph: Graph) -> Program:
    """The row program that computes the graph's one output. Raises Unmatchable naming what does not fit."""
    if len(graph.outputs) != 1 or not graph.single:
        raise Unmatchable("forward must return one tensor")
    root = graph.outputs[0]
    if not root.dtype.startswith(("float", "bfloat", "int64", "bool")):
        raise Unmatchable(f"an output of {root.dtype} is not supported")
    shape = root.shape
    while root.op == "view" and _dense(root) and _dense_base(root.args[0]):
        root = root.args[0]
    program = _regrouped(root) if _one_level(root) else _folded(root)
    program.out_shape, program.out_dtype = shape, graph.outputs[0].dtype
    return program


def _regrouped(root: Value) -> Program:
    """`_plain`, also where the formula around the reductions sees the same elements in another shape than they do."""
    try:
        return _plain(root)
    except Unmatchable:
        below = reductions_below(root)
        space = below[0].args[0].shape if below else root.shape
        moved = regroup(root, root.shape, space) if space != root.shape and numel(space) == numel(root.shape) else None
        if moved is None or moved.shape != space:
            raise
        return _plain(moved)


def _dense(view: Value) -> bool:
    return bool(view.attrs["offset"] == 0 and view.attrs["stride"] == contiguous_strides(view.shape)
                and numel(view.shape) == numel(view.args[0].shape))


def _dense_base(value: Value) -> bool:
    return bool(value.attrs.get("strides_seen", contiguous_strides(value.shape)) == contiguous_strides(value.shape))


def reductions_below(root: Value) -> list[Value]:
    """Every reduction that reaches `root`, each once."""
    found, seen, stack = [], set(), [root]
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if value.op in REDUCTIONS:
            found.append(value)
        stack += value.args
    return found


def _one_level(root: Value) -> bool:
    kinds = {(r.args[0].shape, r.attrs["dims"]) for r in reductions_below(root)}
    return len(kinds) <= 1


def _plain(root: Value) -> Program:
    below = reductions_below(root)
    space = below[0].args[0].shape if below else root.shape
    program = Program(space, tuple(below[0].attrs["dims"]) if below else ())
    lowering = _Lowering(program)
    if not below or (root.shape == space and numel(space) > 1 and program.columns > 1):
        axes: tuple[int | None, ...] = tuple(range(len(root.shape)))
        program.kind = "full"
    else:
        program.kind = "row"
        kept = tuple(d for d in range(len(space)) if d not in program.reduced)
        if len(root.shape) == len(space):
            axes = tuple(range(len(space)))
        elif len(root.shape) == len(kept):
            axes = kept
        else:
            raise Unmatchable("the result must keep all dimensions or lose those that are reduced")
    program.results.append(lowering.lower(root, axes))
    if program.kind == "row" and numel(root.shape) != program.rows:
        raise Unmatchable("the result must be one value a row or one an element")
    return program


def _folded(root: Value) -> Program:
    """Rows first, then sums over all rows: root is a formula of full sums of per-row formulas."""
    if root.shape not in ((), (1,)):
        raise Unmatchable("all reductions must be over the same dimensions")
    program: Program | None = None
    folds: dict[int, int] = {}

    def outer(value: Value) -> None:
        nonlocal program
        if value.op in REDUCTIONS:
            if value.op != "sum" or numel(value.shape) != 1:
                raise Unmatchable("the outer reduction must be a sum over everything")
            inner = reductions_below(value.args[0])
            if inner and program is None:
                program = Program(inner[0].args[0].shape, tuple(inner[0].attrs["dims"]), kind="row")
            folds.setdefault(id(value), len(folds))
            sums.append(value)
            return
        for arg in value.args:
            outer(arg)

    sums: list[Value] = []
    outer(root)
    if program is None:
        raise Unmatchable("all reductions must be over the same dimensions")
    lowering = _Lowering(program)
    kept = tuple(d for d in range(len(program.space)) if d not in program.reduced)
    for value in {id(v): v for v in sums}.values():
        arg = value.args[0]
        if numel(arg.shape) != program.rows or len(arg.shape) not in (len(kept), len(program.space)):
            raise Unmatchable("the outer sum must be over the rows")
        program.results.append(lowering.lower(arg, kept if len(arg.shape) == len(kept) else tuple(range(len(program.space)))))
    lowering.folds = folds
    program.final = lowering.lower(root, ())
    return program


class _Lowering:
    """Turns values into a program's nodes; raises Unmatchable where a value does not live in the program's space."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.folds: dict[int, int] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        self._seen: dict[tuple[int, tuple[int | None, ...]], int] = {}

    def add(self, op: str, args: Sequence[int] = (), value: Any = None, dtype: str = "float32") -> int:
        """The number of this node, shared with an equal one."""
        key = (op, tuple(args), repr(value), dtype)
        if key not in self._known:
            self._known[key] = len(self.program.nodes)
            self.program.nodes.append(Node(op, tuple(args), value, dtype))
            if len(self.program.nodes) > MAX_NODES:
                raise Unmatchable(f"formulas of more than {MAX_NODES} operations are not supported")
        return self._known[key]

    def lower(self, value: Value, axes: tuple[int | None, ...]) -> int:
        """The node for `value` whose dimension j runs along dimension axes[j] of the space (None: of size 1)."""
        key = id(value), axes
        if key not in self._seen:
            self._seen[key] = self._lower(value, axes)
        return self._seen[key]

    def _lower(self, value: Value, axes: tuple[int | None, ...]) -> int:
        if id(value) in self.folds:
            return self.add("fold", value=self.folds[id(value)])
        if value.op in ("const", "scalar"):
            return self.add(value.op, value=value.attrs["value" if value.op == "const" else "input"], dtype=value.dtype)
        if value.op == "leaf":
            return self._leaf(value, axes)
        if value.op == "iota":
            return self.add("iota", value=axes[value.attrs["dim"]], dtype="int64")
        if value.op in REDUCTIONS:
            return self._stat(value, axes)
        if value.op == "view":
            return self._view(value, axes)
        if value.op.startswith("aten:"):
            raise Unmatchable(f"{value.op.removeprefix('aten:')} is not supported")
        args = [self.lower(a, axes[len(axes) - len(a.shape):]) for a in value.args]
        return self.add(value.op, args, dtype=value.dtype)

    def _leaf(self, value: Value, axes: tuple[int | None, ...]) -> int:
        strides = [0] * len(self.program.space)
        for size, stride, axis in zip(value.shape, value.attrs["stride"], axes, strict=True):
            if size == 1:
                continue
            if axis is None or self.program.space[axis] != size:
                raise Unmatchable("operands must have the dimensions of what is reduced")
            strides[axis] += stride
        leaf = Leaf(value.attrs["operand"], tuple(strides), value.attrs["offset"], value.dtype)
        if leaf not in self.program.leaves:
            self.program.leaves.append(leaf)
        return self.add("leaf", value=self.program.leaves.index(leaf), dtype=value.dtype)

    def _stat(self, value: Value, axes: tuple[int | None, ...]) -> int:
        program, arg = self.program, value.args[0]
        if arg.shape != program.space or value.attrs["dims"] != program.reduced:
            raise Unmatchable("all reductions must be over the same dimensions")
        every = range(len(arg.shape))
        kept = list(every) if value.attrs["keepdim"] else [d for d in every if d not in program.reduced]
        for dim, axis in zip(kept, axes, strict=True):
            if arg.shape[dim] > 1 and dim not in program.reduced and axis != dim:
                raise Unmatchable("a reduction must be used along the dimensions that it keeps")
        expr = self.lower(arg, tuple(every))
        stat = Stat(value.op, expr, self._level(expr))
        if stat not in program.stats:
            program.stats.append(stat)
        return self.add("stat", value=program.stats.index(stat), dtype=value.dtype)

    def _level(self, number: int) -> int:
        node = self.program.nodes[number]
        if node.op == "stat":
            return int(self.program.stats[node.value].level) + 1
        return max((self._level(a) for a in node.args), default=0)

    def _view(self, value: Value, axes: tuple[int | None, ...]) -> int:
        base = value.args[0]
        if base.op == "leaf" or _dense(value):
            split = regroup(base, base.shape, value.shape) if _dense(value) else None
            if split is not None:
                return self.lower(split, axes)
        wanted: list[int | None] = [None] * len(base.shape)
        steps = base.attrs.get("strides_seen", contiguous_strides(base.shape))
        for size, stride, axis in zip(value.shape, value.attrs["stride"], axes, strict=True):
            places = [d for d, s in enumerate(base.shape) if s == size and steps[d] == stride and wanted[d] is None]
            if size == 1 or stride == 0:
                continue
            if not places or value.attrs["offset"]:
                raise Unmatchable("regrouping the dimensions of a computed value is not supported")
            wanted[places[0]] = axis
        if any(s > 1 and w is None for s, w in zip(base.shape, wanted, strict=True)):
            raise Unmatchable("taking a part of a computed value is not supported")
        return self.lower(base, tuple(wanted))


def regroup(value: Value, old: tuple[int, ...], new: tuple[int, ...]) -> Value | None:
    """`value`, which broadcasts to the shape `old`, seen in the shape `new` (same elements in the same order).

    Pushed down to the leaves; None where that cannot be said.
    """
    if value.op in ("const", "scalar") or (numel(value.shape) == 1 and value.op != "leaf"):
        return value
    if value.op == "leaf":
        kept = (0,) * (len(old) - len(value.shape)) + tuple(
            0 if size == 1 else stride for size, stride in zip(value.shape, value.attrs["stride"], strict=True))
        strides = restride(old, kept, new)
        return None if strides is None else Value("leaf", (), new, value.dtype, {**value.attrs, "stride": strides})
    if value.op == "view" and value.shape == old and _dense(value) and _dense_base(value.args[0]):
        base = value.args[0]
        return base if base.shape == new else regroup(base, base.shape, new)
    if value.op in REDUCTIONS or value.op in ("view", "iota") or value.op.startswith("aten:"):
        return value if value.shape == old == new else None
    args = []
    for arg in value.args:
        moved = regroup(arg, old, new)
        if moved is None:
            return None
        args.append(moved)
    return Value(value.op, tuple(args), broadcast(*(a.shape for a in args)), value.dtype)


def restride(old: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
    """The strides of a tensor of shape `old` seen in shape `new`, without a copy; None where there are none."""
    before = [(size, stride) for size, stride in zip(old, strides, strict=True) if size != 1]
    made: list[int] = []
    places = list(new)
    while places:
        if places[0] == 1:
            made.append(0)
            places.pop(0)
            continue
        if not before:
            return None
        (total, step), wanted, run = before.pop(0), places.pop(0), 1
        sizes = [wanted]
        while total != wanted:
            if total < wanted:
                if not before:
                    return None
                size, inner = before.pop(0)
                if step != inner * size:
                    return None
                total, step = total * size, inner
            else:
                while places and places[0] == 1:
                    sizes.append(places.pop(0))
                if not places:
                    return None
                sizes.append(places.pop(0))
                wanted *= sizes[-1]
        group = []
        for size in reversed(sizes):
            group.append(step * run if size != 1 else 0)
            run *= size
        made += reversed(group)
    return tuple(made)
