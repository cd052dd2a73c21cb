"""What a problem does, from its trace: operations with bytes and FLOPs, what must move at least, and the plan the search has for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autokernel.measure import roofline_ms
from autokernel.proposers.graph import Unmatchable, numel
from autokernel.proposers.plan import SIZES
from autokernel.proposers.templates import templates
from autokernel.proposers.tracer import TRACER

CLOSE = 1.05  # within so much of the bound a problem has no room worth a search


@dataclass(frozen=True)
class Operation:
    """One traced call that computes: its name, the shape of its first output, bytes read and written, FLOPs of products, and the
    arithmetic that eager does them in ("ieee" or "tf32")."""

    name: str
    shape: tuple[int, ...]
    moved_bytes: int
    flops: int
    arithmetic: str


@dataclass(frozen=True)
class Analysis:
    """A problem's trace in figures. `plans`: the templates' ideas, the likeliest first; `reason`: why there are none."""

    operations: tuple[Operation, ...]
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    plans: tuple[str, ...]
    reason: str

    def bound_ms(self, ceilings: Mapping[str, Any]) -> float:
        """The roofline: compulsory bytes and FLOPs at the device's measured rates, ms."""
        return roofline_ms(self.facts(), ceilings)

    def apart_ms(self, ceilings: Mapping[str, Any]) -> float:
        """What the operations need one after another, each reading and writing memory, at the device's measured rates, ms."""
        strict = {**ceilings, "products": {**ceilings["products"], "ieee": ceilings["ieee_alone"]}}
        return sum(roofline_ms({"input_bytes": op.moved_bytes, "weight_bytes": 0, "output_bytes": 0, "products": {op.arithmetic: op.flops}},
                               strict) for op in self.operations)

    @property
    def flops(self) -> int:
        """FLOPs of all products."""
        return sum(op.flops for op in self.operations)

    def facts(self) -> dict[str, Any]:
        """Bytes and FLOPs under the names that measurements use."""
        products = {kind: sum(op.flops for op in self.operations if op.arithmetic == kind) for kind in ("ieee", "tf32")}
        return {"input_bytes": self.input_bytes, "weight_bytes": self.weight_bytes, "output_bytes": self.output_bytes, "products": products}


def analyse(source: str, backend: str, device: str) -> Analysis:
    """The analysis of a problem's text for a backend ("auto": what `device` has). Raises Unmatchable where it cannot be traced."""
    traced = TRACER.trace(source)
    if "error" in traced:
        raise Unmatchable(f"only what can be traced is supported ({traced['error']})")
    nodes = traced["nodes"]
    try:
        plans, reason = tuple(t.idea for t in templates(source, backend, device)), ""
    except Unmatchable as met:
        plans, reason = (), str(met)
    operations = tuple(op for call in traced["ops"] if (op := _operation(call, nodes, device)) is not None)
    read = {n for call in traced["ops"] for n in _nodes([*call["args"], *call["kwargs"].values()])}
    return Analysis(operations, _size(nodes, {i["node"] for i in traced["inputs"] if "node" in i} & read),
                    _size(nodes, {p["node"] for p in traced["parameters"]} & read), _size(nodes, set(traced["outputs"])),
                    plans, reason)


def _operation(call: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], device: str) -> Operation | None:
    """The call as an operation; None for one that only looks at memory another way."""
    name = call["op"].removeprefix("aten.").split(".")[0]
    given, outs = _nodes([*call["args"], *call["kwargs"].values()]), call["outs"]
    bases = {nodes[n]["base"] for n in given}
    looks = not name.endswith("_") and all(nodes[n]["base"] in bases for n in outs)
    if not outs or looks or name in ("lift_fresh", "empty", "empty_like", "detach"):
        return None
    moved = _size(nodes, set(given)) + _size(nodes, set(outs))
    arithmetic = "tf32" if name == "convolution" and device != "cpu" else "ieee"  # cuDNN's default
    return Operation(name, tuple(nodes[outs[0]]["shape"]), moved, _flops(name, call["args"], nodes, outs), arithmetic)


def _flops(name: str, args: Sequence[Any], nodes: Sequence[Mapping[str, Any]], outs: Sequence[int]) -> int:
    """Two for each multiplication of a product, a convolution or attention; 0 for everything else."""
    def shape(place: int) -> list[int]:
        return list(nodes[args[place]["node"]]["shape"])

    if name in ("mm", "bmm"):
        return 2 * numel(shape(0)) * shape(1)[-1]
    if name in ("addmm", "baddbmm"):
        return 2 * numel(shape(1)) * shape(2)[-1]
    if name in ("mv", "dot"):
        return 2 * numel(shape(0))
    if name == "convolution":
        return 2 * numel(shape(0) if args[6] else nodes[outs[0]]["shape"]) * numel(shape(1)[1:])
    if "attention" in name:
        return 2 * numel(shape(0)) * shape(1)[-2] + 2 * numel(shape(0)[:-1]) * numel(shape(2)[-2:])
    return 0


def _nodes(value: Any) -> list[int]:
    if isinstance(value, list):
        return [n for v in value for n in _nodes(v)]
    return [value["node"]] if isinstance(value, dict) and "node" in value else []


def _size(nodes: Sequence[Mapping[str, Any]], numbers: set[int]) -> int:
    return sum(numel(nodes[n]["shape"]) * SIZES.get(nodes[n]["dtype"], 4) for n in numbers)
