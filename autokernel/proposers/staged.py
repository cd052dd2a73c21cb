"""Templates of plans with several stages, and of row programs that no starter is written for, in Triton."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autokernel.proposers import match_conv
from autokernel.proposers.choices import first_choices, open_choices
from autokernel.proposers.compose import compose, stage_names
from autokernel.proposers.cut import above
from autokernel.proposers.emit import reference
from autokernel.proposers.graph import Graph, Unmatchable, Value
from autokernel.proposers.match import Match, Matcher, elementwise, program_of, reduction
from autokernel.proposers.plan import Plan, Planner
from autokernel.proposers.rewrites import rewritten
from autokernel.proposers.starters import Starter, starters
from autokernel.proposers.template import Template
from autokernel.proposers.triton_rows import SPACE, first_rows, rows_match

BACKEND = "triton"
UNTOUCHED = "running statistics are not updated"


def row_program_match(graph: Graph, root: Value) -> Match | None:
    """Any row program that has words in Triton: what is matched where no starter is."""
    program = program_of(graph, root)
    if program is None or not program.leaves:
        return None
    try:
        return rows_match(graph, program)
    except Unmatchable:
        return None


def staged_templates(source: str, graph: Graph, matchers: Sequence[Matcher]) -> list[Template]:
    """Templates of the graph's plans: with convolutions of our own, and with the library's and everything around them fused.

    Raises Unmatchable where there is no plan.
    """
    plans: list[tuple[Plan, str]] = []
    reason: Unmatchable | None = None
    rewrite = rewritten(graph)
    late = [m for m in matchers if m in (elementwise, reduction)]  # a row program says the same in a few lines
    matchers = [m for m in matchers if m not in late]
    ways = [(graph, core, "") for core in match_conv.CORES]
    ways = ways if rewrite is None else [(rewrite[0], match_conv.CORES[0], rewrite[1]), *ways]
    for seen, core, label in ways:
        try:
            plan = Planner(seen, [*matchers, *core, match_conv.library_dropout, row_program_match, *late]).plan()
        except Unmatchable as met:
            reason = reason or met
            continue
        ops = [stage.match.op for stage in plan.stages]
        if ops not in [[stage.match.op for stage in p.stages] for p, _ in plans] and set(ops) != {"library"}:
            plans.append((plan, "; ".join(filter(None, (label, _left_out(graph, plan))))))
    if not plans:
        raise reason or Unmatchable("no chain of starters gives this combination of operations")
    return [plan_template(source, plan, label) for plan, label in plans]


def _left_out(graph: Graph, plan: Plan) -> str:
    """What a plan does not do although the problem's forward does: a row program only gives its result."""
    updates = [v for v in above(graph.outputs[0]) if (made := v.attrs.get("call")) is not None
               and made.name.startswith("native_batch_norm") and made.args[5] and made.args[3] is not None]
    kept = sum(stage.match.shape.get("kind") == "batch" for stage in plan.stages)
    return UNTOUCHED if len({id(v) for v in updates}) > kept else ""


def plan_template(source: str, plan: Plan, label: str = "") -> Template:
    """A plan as a template: parameters are "stage.parameter". `label`: the rewrite that led to the plan."""
    names, ref = stage_names(plan), reference(source)
    available = {start.op: start for start in starters(BACKEND).values()}
    starts: list[Starter | None] = [available.get(stage.match.op) for stage in plan.stages]
    tried: list[list[Mapping[str, Any]]] = []
    space: dict[str, list[Any]] = {}
    for name, stage, start in zip(names, plan.stages, starts, strict=True):
        if stage.match.op == "library":
            settings = stage.match.shape.get("before", {})
            tried.append([dict.fromkeys(settings, True)])
            space |= {f"{name}.{key}": [True, False] for key in settings}
            continue
        if start is None and stage.match.op != "rows":
            raise Unmatchable(f"{stage.match.op} is not supported: no {BACKEND} starter")
        own = first_rows(plan.graph, stage.match.shape["program"]) if start is None else \
            list(first_choices(stage.match, start.params, BACKEND))
        tried.append(own)
        for key, choices in open_choices(stage.match, SPACE if start is None else start.space, own).items():
            space[f"{name}.{key}"] = choices
    rounds = max(len(firsts) for firsts in tried)
    firsts: tuple[Mapping[str, Any], ...] = tuple(
        {f"{name}.{k}": v for name, each in zip(names, tried, strict=True) for k, v in each[min(i, len(each) - 1)].items()}
        for i in range(rounds))
    idea = "; ".join([*([label] if label else []), *(stage.match.idea for stage in plan.stages)])
    doc = f"{idea[0].upper()}{idea[1:]}."

    def render(params: Mapping[str, Any]) -> str:
        return compose(plan, starts, ref, params, doc)

    render(firsts[0])  # what cannot be said is found now
    return Template(f"{BACKEND} {'+'.join(names)}", BACKEND, f"{'+'.join(names)}: {idea}", firsts, space, render)
