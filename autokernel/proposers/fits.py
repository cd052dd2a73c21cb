"""Whether a native starter, which takes less than the Triton one of the same operation, serves a match; and the match as it takes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autokernel.proposers.graph import Graph, Unmatchable, Value, numel
from autokernel.proposers.match import Match
from autokernel.proposers.program import Leaf


def adapt(match: Match, graph: Graph, backend: str) -> Match:
    """The match for `backend` ("triton", "cuda", "cpp"). Raises Unmatchable where that backend's starter does not do it."""
    if backend == "triton":
        return match
    dtypes = [_dtype(i) for i in match.inputs]
    if any(d not in (None, "float32") and not (match.op == "scan" and place == 1 and d == "bool") for place, d in enumerate(dtypes)):
        raise Unmatchable(f"the {backend} starter for {match.op} must have float32 inputs")
    if match.op == "scan" and len(dtypes) == 2 and dtypes[1] != "bool":
        raise Unmatchable("a mask must be bool")
    if backend == "cuda" and match.op in ("elementwise", "reduce"):
        return _chain(match)
    if backend == "cuda" and match.op == "matmul":
        a, b = match.inputs[0], match.inputs[1]
        if match.hooks or match.shape["triangular"] or len(match.inputs) != 2 or len(a.shape) != 2 or len(b.shape) != 2:
            raise Unmatchable("the cuda starter for matmul must have two matrices")
        return replace(match, shape={})
    return match


def _dtype(given: Any) -> str | None:
    return given.dtype if isinstance(given, (Value, Leaf)) else None


def _chain(match: Match) -> Match:
    """An elementwise chain or a reduction of one or two tensors of the whole space, and at most a division behind it."""
    whole = all(isinstance(i, Leaf) and numel([n for n, s in zip(match.space, i.strides, strict=True) if s]) == numel(match.space)
                for i in match.inputs)
    if len(match.inputs) > 2 or not whole:
        raise Unmatchable(f"the cuda starter for {match.op} must have one or two tensors of one shape")
    if match.op == "elementwise":
        if match.shape["out_dtype"] is not None:
            raise Unmatchable("the output of the cuda starter for elementwise must be float32")
        return replace(match, shape={})
    if match.shape["kind"] not in ("sum", "max", "min"):
        raise Unmatchable(f"{match.shape['kind']} is not supported by the cuda starter for reduce")
    return replace(match, shape={**match.shape, "divide": _divisor(match)}, hooks={"chain": match.hooks["chain"]})


def _divisor(match: Match) -> float | None:
    finish = match.hooks["finish"]
    nodes = finish.program.nodes
    if finish.result == finish.arguments[0]:
        return None
    node = nodes[finish.result]
    if match.shape["kind"] == "sum" and node.op == "div" and node.args[0] == finish.arguments[0] and nodes[node.args[1]].op == "const":
        return float(nodes[node.args[1]].value)
    raise Unmatchable("after a reduction the cuda starter must have a division alone")
