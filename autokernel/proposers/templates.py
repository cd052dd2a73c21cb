"""What the search can propose for a problem: templates, each a text with launch parameters to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autokernel import builders
from autokernel.proposers import match, match_linear, match_norms
from autokernel.proposers.choices import first_choices, open_choices
from autokernel.proposers.cpp_expressions import Expressions
from autokernel.proposers.cpp_rows import shares_rows
from autokernel.proposers.cut import above
from autokernel.proposers.emit import Reference, reference
from autokernel.proposers.emit_cpp import emit
from autokernel.proposers.emit_native import cpp_candidate
from autokernel.proposers.fill import fill
from autokernel.proposers.fits import adapt
from autokernel.proposers.graph import Graph, Unmatchable, Value, read
from autokernel.proposers.library import library_template
from autokernel.proposers.lower import row_program
from autokernel.proposers.program import Program
from autokernel.proposers.recorded import MANY_LAUNCHES, reference_template
from autokernel.proposers.seed import seed_template
from autokernel.proposers.staged import staged_templates
from autokernel.proposers.starters import starter, starters
from autokernel.proposers.template import Template
from autokernel.proposers.tracer import TRACER


def family(program: Program) -> str:
    """The starter whose kind of work a row program is: "elementwise", "softmax", "layernorm", "rmsnorm" or "reduce"."""
    if not program.stats:
        return "elementwise"
    if program.kind == "row":
        return "reduce"
    ops = [stat.op for stat in program.stats]
    if ops[0] == "amax":
        return "softmax"
    return "layernorm" if len({stat.level for stat in program.stats}) > 1 else "rmsnorm"


def describe(program: Program) -> str:
    """A row program in a few words."""
    shape = "x".join(str(s) for s in program.space) or "one value"
    if not program.reduced:
        return f"elementwise chain of {len(program.nodes) - len(program.leaves)} operations over {shape}"
    passes = len({stat.level for stat in program.stats})
    what = "/".join(stat.op for stat in program.stats)
    dims = ",".join(str(d) for d in program.reduced)
    return f"{family(program)}: {what} over dim {dims} of {shape} in {passes} reducing pass{'es' if passes > 1 else ''}"


def headline(program: Program) -> str:
    """`describe` as a sentence."""
    words = describe(program)
    return f"{words[0].upper()}{words[1:]}."


def row_templates(source: str, graph: Graph, backend: str = "cpp") -> list[Template]:
    """Templates for row programs on the CPU. Raises Unmatchable where the problem is none."""
    ref = reference(source)
    program = row_program(graph)
    plan = _CppPlan(program, graph, ref)
    words = Expressions(program, graph, True)
    name = "columns" if words.columns else "elementwise" if shares_rows(words) else family(program)
    found = starter("cpp", name)
    params, space = dict(found.params), {k: list(v) for k, v in found.space.items()}
    if words.stored is not None:
        params["keep"], space["keep"] = True, [True, False]
    plan.render(params)  # what cannot be said is found now
    return [Template(f"{backend} {name}", backend, describe(program), (params,), space, plan.render)]


@dataclass(frozen=True)
class _CppPlan:
    program: Program
    graph: Graph
    ref: Reference

    def render(self, params: Mapping[str, Any]) -> str:
        """The candidate's text."""
        kernel = emit(self.program, self.graph, bool(params.get("keep", True)))
        launch = {k: v for k, v in params.items() if k in kernel.params}
        return cpp_candidate(self.program, self.graph, kernel, self.ref, launch, headline(self.program))


Maker = Callable[[str, Graph, str], list[Template]]
MATCHERS = (match_linear.diagonal, match.elementwise, match_norms.softmax, match_norms.layer_norm, match_norms.group_norm,
            match_norms.rms_norm, match_norms.norm_scale, match_norms.cross_entropy, match_norms.triplet_loss, match.reduction,
            match_linear.matrix_vector, match_linear.matmul, match_linear.attention, match_linear.pooling, match_linear.depthwise,
            match_linear.scan)


MAX_VALUES = 240  # of a graph that is planned as one: beyond, functions that call themselves for each value run too deep


def starter_templates(source: str, graph: Graph, backend: str) -> list[Template]:
    """Templates that fill a starter of `backend`. Raises Unmatchable where none fits."""
    if len(graph.outputs) != 1 or not graph.single:
        raise Unmatchable("forward must return one tensor")
    size = sum(1 for _ in above(graph.outputs[0]))
    if size > MAX_VALUES:
        raise Unmatchable(f"a forward of {size} operations must be planned in parts, which is not supported")
    found = match.first(MATCHERS, graph, graph.outputs[0])
    if found is None and backend == "triton":
        try:
            return staged_templates(source, graph, MATCHERS)
        except Unmatchable as met:
            opaque = first_opaque(graph.outputs[0])
            raise Unmatchable(opaque if opaque != NOTHING_OPAQUE else str(met)) from None
    if found is None:
        raise Unmatchable(first_opaque(graph.outputs[0]))
    chosen = next((s for s in starters(backend).values() if s.op == found.op), None)
    if chosen is None:
        raise Unmatchable(f"{found.op} is not supported: no {backend} starter")
    fitted, ref = adapt(found, graph, backend), reference(source)
    doc = f"{found.idea[0].upper()}{found.idea[1:]}."

    def render(params: Mapping[str, Any]) -> str:
        return fill(chosen, fitted, graph, ref, params, doc)

    firsts = first_choices(fitted, chosen.params, backend)
    render(firsts[0])  # what cannot be said is found now
    space = open_choices(fitted, chosen.space, firsts)
    return [Template(f"{backend} {chosen.name}", backend, f"{found.op}: {found.idea}", firsts, space, render)]


NOTHING_OPAQUE = "no starter for this combination of operations"


def first_opaque(root: Value) -> str:
    """The operation nearest to the output that no starter knows."""
    seen: set[int] = set()
    queue = [root]
    while queue:
        value = queue.pop(0)
        if value.op.startswith("aten:"):
            return value.op.removeprefix("aten:")
        queue += [a for a in value.args if id(a) not in seen]
        seen |= {id(a) for a in value.args}
    return NOTHING_OPAQUE


def templates(source: str, backend: str, device: str, seeds: bool = True) -> list[Template]:
    """All templates for a problem, the likeliest first. `backend`: "auto", "triton", "cuda" or "cpp".

    On a GPU, with `seeds`, what torch's compiler writes comes first, where there is no plan or one of several stages: from its speed the
    search goes on. Last come the library's convolutions, configured, and the reference recorded as a CUDA graph, where it is many
    launches or nothing fits. Raises Unmatchable, with the reason, where nothing fits.
    """
    reason, found = "", list[Template]()
    traced = TRACER.trace(source)
    try:
        found = _planned(source, traced, backend, device)
    except Unmatchable as met:
        reason = str(met)
    if seeds and device != "cpu" and backend in ("auto", "triton") and (not found or any("+" in t.name for t in found)):
        try:
            found.insert(0, seed_template(source, traced))
        except Unmatchable as met:
            reason += f"; {met}"
    if device != "cpu" and backend == "auto" and (configured := library_template(source, traced)) is not None:
        found.append(configured)
    if device != "cpu" and backend == "auto" and (not found or len(traced.get("ops", ())) >= MANY_LAUNCHES):
        found.append(reference_template(source, "" if found else reason))
    if not found:
        raise Unmatchable(reason)
    return found


def _planned(source: str, traced: Mapping[str, Any], backend: str, device: str) -> list[Template]:
    graph = read(traced)
    if graph.other_inputs:
        raise Unmatchable(f"input {graph.other_inputs[0]} must be a tensor or a float")
    kinds = [backend] if backend != "auto" else ["cpp"] if device == "cpu" else ["triton", "cuda"]
    makers: dict[str, Maker] = {"cpp": row_templates}
    found: list[Template] = []
    reasons: list[str] = []
    for kind in kinds:
        if backend == "auto" and builders.get(kind).unavailable(device) is not None:
            continue
        for make in (makers[kind], starter_templates) if kind in makers else (starter_templates,):
            try:
                found += make(source, graph, kind)
                break
            except Unmatchable as met:
                reasons.append(str(met))
    if not found:
        raise Unmatchable(reasons[0] if reasons else f"no builder for {device} here")
    return found
