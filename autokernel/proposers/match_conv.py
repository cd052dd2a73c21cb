"""Matches convolutions with what follows them: a formula, a reduction over channels, a pooling, a formula of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autokernel.proposers.cut import nearest
from autokernel.proposers.graph import Graph, Value, numel
from autokernel.proposers.match import Formula, Match, Matcher, call, whole_operand
from autokernel.proposers.match_linear import POOLS, dense_base, windows_of
from autokernel.proposers.match_tail import EXTRAS, Tail, tail
from autokernel.proposers.program import Leaf

MOST_CHANNELS = 256  # that one tile holds, for what is reduced over them
MEASURED = "torch.backends.cudnn.benchmark = True  # the library measures its algorithms on the first call of each shape"
MOST_PLACES = 64  # of a pooling window: each is a convolution of its own inside the kernel


@dataclass
class _Slots:
    """The tensors and numbers that a kernel's formulas read beside its tile, each once."""

    given: list[Any] = field(default_factory=list)

    def formula(self, after: Tail, across: bool) -> Formula | None:
        """The tail as a hook whose arguments are the slots; None where they are too many."""
        numbers: dict[int, int] = {}
        for node, extra in after.extras:
            if extra not in self.given:
                self.given.append(extra)
            numbers[self.given.index(extra)] = node
        if len(self.given) > EXTRAS:
            return None
        arguments = (after.core, *(numbers.get(place) for place in range(EXTRAS)))
        return Formula(after.program, after.program.results[0], arguments, 0)


def conv(graph: Graph, root: Value) -> Match | None:
    """A convolution of operands, transposed or not, in 1 to 3 dimensions, as implicit GEMM with what follows it in the same kernel."""
    cores = nearest(root, ("convolution",))
    facts = _facts(graph, cores[0]) if len(cores) == 1 else None
    if facts is None:
        return None
    core, base, slots = cores[0], dense_base(root), _Slots()
    x, weight, bias, shape = facts
    hooks: dict[str, Formula] = {}
    pools = nearest(base, POOLS)
    chained = base
    if pools:
        window = _window(pools[0], shape) if len(pools) == 1 else None
        if window is None:
            return None
        chained, shape["pool"], shape["kind"] = window
        if base is not pools[0] and not _hook(graph, base, pools[0], "finish", slots, hooks, shape):
            return None
    if chained is not core and not _hook(graph, chained, core, "chain", slots, hooks, shape):
        return None
    if pools and (any(_moves(extra) for extra in slots.given) or numel(chained.shape) != numel(core.shape)):
        return None
    words = ["implicit GEMM", "transposed" if shape["transposed"] else "convolution"]
    words += ["reduced over channels" if shape["across"] else "chain in the epilogue"] if "chain" in hooks else []
    words += [f"{shape['kind']} pooled before it is written"] if pools else []
    inputs = (x, weight, bias, *slots.given)
    return Match("conv", shape, inputs if bias is not None or slots.given else inputs[:2], root.shape, ", ".join(words), hooks, core.shape)


def _facts(graph: Graph, core: Value) -> tuple[Value, Value, Value | None, dict[str, Any]] | None:
    found = call(core, "convolution")
    if found is None or len(found[0]) != 9:
        return None
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = found[0]
    dims = len(core.shape) - 2
    if x.op != "leaf" or not whole_operand(graph, weight) or dims not in (1, 2, 3) or (bias is not None and not whole_operand(graph, bias)):
        return None
    if x.dtype not in ("float32", "float16", "bfloat16") or x.dtype != weight.dtype:
        return None
    lists = [list(v) * (dims if len(v) == 1 else 1) for v in (stride, padding, dilation, output_padding)]
    shape = {"stride": lists[0], "padding": lists[1], "dilation": lists[2], "output_padding": lists[3], "transposed": bool(transposed),
             "groups": int(groups), "pool": None, "kind": None, "across": False, "channels": None}
    return x, weight, bias, shape


def _window(pool: Value, shape: dict[str, Any]) -> tuple[Value, list[int], str] | None:
    """(what is pooled, the window, "max" or "avg") of windows that do not overlap, those of poolings right below it included."""
    window: list[int] = []
    kind, value = "", pool
    while (found := windows_of(value)) is not None:
        inner, how = found
        if how["kernel"] != how["stride"] or any(how["padding"]) or how["ceil_mode"] or set(how["dilation"]) != {1}:
            break
        if kind not in ("", how["kind"]) or len(how["kernel"]) != len(shape["stride"]):
            break
        window = [a * b for a, b in zip(window, how["kernel"], strict=True)] if window else list(how["kernel"])
        kind, value = how["kind"], inner
    steps = shape["stride"] if shape["transposed"] else [1] * len(window)
    if not window or nearest(value, POOLS) or numel(window) > MOST_PLACES or any(w % s for w, s in zip(window, steps, strict=True)):
        return None  # a tile's places of one window must meet the same weights
    return value, window, kind


def _hook(graph: Graph, root: Value, core: Value, name: str, slots: _Slots, hooks: dict[str, Formula], shape: dict[str, Any]) -> bool:
    """Adds `root` as a formula of `core` to the hooks; False where it is none that a tile can compute."""
    after = tail(graph, root, core)
    if after is None or tuple(after.program.space) != tuple(core.shape):
        return False
    program = after.program
    if program.stats:
        if program.reduced != (1,) or shape["groups"] != 1 or core.shape[1] > MOST_CHANNELS:
            return False
        shape["across"] = True
        if program.kind == "row":
            shape["channels"] = 1
    made = slots.formula(after, True)
    if made is None:
        return False
    hooks[name] = made
    return True


def _moves(extra: Any) -> bool:
    """Whether an extra changes from place to place of one channel."""
    return isinstance(extra, Leaf) and any(extra.strides[2:])


def library_conv(graph: Graph, root: Value) -> Match | None:
    """The convolution alone, left to the library; what follows it is another stage's."""
    found = call(root, "convolution")
    facts = _facts(graph, root) if found is not None and root.op.startswith("aten:") else None
    if facts is None:
        return None
    x, weight, bias, shape = facts
    rest = ", ".join(repr(shape[k]) for k in ("stride", "padding", "dilation", "transposed", "output_padding", "groups"))
    text = f"torch.convolution({{}}, {{}}, {{}}, {rest})"
    shape = {"call": text, "before": {"measured": MEASURED}}
    return Match("library", shape, (x, weight, bias), root.shape, "the library's convolution")


def library_dropout(graph: Graph, root: Value) -> Match | None:
    """Dropout in training, left to the library: only the same call draws the same numbers."""
    if root.op != "mul" or root.args[1].op != "div" or root.args[0].op != "leaf":
        return None
    x, mask = root.args
    drawn, keep = mask.args[0].attrs.get("call"), mask.args[1]
    if drawn is None or drawn.name != "bernoulli_.float" or keep.op != "const" or drawn.args[1] != keep.attrs["value"]:
        return None
    like = drawn.args[0].attrs.get("call")
    if like is None or like.name != "empty_like.default" or like.args[0] is not x:
        return None
    text = f"nn.functional.dropout({{}}, {1.0 - float(keep.attrs['value'])!r}, True)"
    return Match("library", {"call": text}, (x,), root.shape, "the library's dropout")


CORES: Sequence[Sequence[Matcher]] = ((conv,), (library_conv,))
