"""`autokernel kb show`: a problem's text, and what the search sees in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from autokernel.cli.options import backend_option, chosen_device, device_option, json_option, source_option
from autokernel.errors import MissingOnMachine

if TYPE_CHECKING:
    from autokernel.proposers.analysis import Analysis
    from kernelbench_bridge import Problem

CEILINGS_S = 300.0


@click.command("show")
@click.argument("problem")
@source_option
@device_option
@backend_option
@click.option("--source-only", is_flag=True, help="Leave out the analysis, which traces the problem and measures the device.")
@json_option
def show_problem(problem: str, source: str, device: str | None, backend: str, source_only: bool, as_json: bool) -> int:
    """Print one problem's facts and analysis on stderr and its source on stdout. PROBLEM is L1/19 or a file.

    The analysis: operations, fusion groups of the plan, compulsory bytes, FLOPs, and on the device the roofline and the headroom.
    """
    from kernelbench_bridge import load_problem

    found = load_problem(problem, source)
    facts = problem_facts(found)
    seen: dict[str, Any] = {} if source_only else _analysis(found, backend, chosen_device(device))
    if as_json:
        click.echo(json.dumps({**facts, **({"analysis": seen} if seen else {}), "source": found.source}, indent=2))
        return 0
    for name, value in facts.items():
        click.echo(f"{name}: {', '.join(value) or 'nothing' if isinstance(value, list) else value}", err=True)
    for line in _lines(seen) if seen else ():
        click.echo(line, err=True)
    click.echo(found.source, nl=not found.source.endswith("\n"))
    return 0


def problem_facts(problem: Problem) -> dict[str, Any]:
    """What lists and shows say of a problem."""
    from kernelbench_bridge import requirements

    missing = list(requirements(problem))
    return {"uid": problem.uid, "name": problem.name, "hash": problem.hash, "origin": problem.origin, "missing": missing}


def _analysis(problem: Problem, backend: str, device: str) -> dict[str, Any]:
    from autokernel.proposers.analysis import analyse
    from autokernel.proposers.graph import Unmatchable

    try:
        seen = analyse(problem.source, backend, device)
    except Unmatchable as met:
        return {"device": device, "reason": str(met)}
    ceilings = _ceilings(device)
    bound, apart = seen.bound_ms(ceilings), seen.apart_ms(ceilings)
    return {"device": device, "operations": [vars(op) for op in seen.operations], **seen.facts(), "flops": seen.flops,
            "roofline_ms": bound, "apart_ms": apart, "headroom": apart / bound if bound else None, "closed": _closed(seen, bound, apart),
            "plans": list(seen.plans), "reason": seen.reason}


def _closed(seen: Analysis, bound: float, apart: float) -> bool:
    from autokernel.proposers.analysis import CLOSE

    return bool(bound) and apart <= CLOSE * bound and not seen.flops


def _ceilings(device: str) -> dict[str, Any]:
    """The device's measured rates, from a process of its own. Raises MissingOnMachine where they cannot be measured."""
    command = [sys.executable, "-m", "autokernel.executor.ceilings", device]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CEILINGS_S, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MissingOnMachine(f"the rates of '{device}' could not be measured ({last}).", hint="Pass --source-only, or another --device.")
    return dict(json.loads(done.stdout))


def _lines(seen: dict[str, Any]) -> Iterator[str]:
    if "operations" not in seen:
        yield f"analysis: none; {seen['reason']}"
        return
    yield f"operations: {len(seen['operations'])}"
    for op in seen["operations"]:
        flops = f", {op['flops'] / 1e9:.3g} GFLOP" if op["flops"] else ""
        yield f"  {op['name']:<28} {'x'.join(map(str, op['shape'])) or 'one value':<28} {op['moved_bytes'] / 1e6:10.1f} MB{flops}"
    moved = seen["input_bytes"] + seen["weight_bytes"] + seen["output_bytes"]
    yield f"must move: {moved / 1e6:.1f} MB (inputs {seen['input_bytes'] / 1e6:.1f}, weights {seen['weight_bytes'] / 1e6:.1f}, " \
          f"outputs {seen['output_bytes'] / 1e6:.1f}); {seen['flops'] / 1e9:.3g} GFLOP of products"
    where = "this machine's CPU, which says nothing of a GPU" if seen["device"] == "cpu" else seen["device"]
    yield f"roofline: {seen['roofline_ms']:.4g} ms on {where}"
    yield f"headroom: {seen['headroom'] or 0.0:.2f} (one operation after another needs {seen['apart_ms']:.4g} ms at the same rates)"
    if seen["closed"]:
        yield "closed: the operations are within 5 % of the roofline as they are"
    for place, plan in enumerate(seen["plans"]):
        yield f"plan{' ' + str(place + 1) if len(seen['plans']) > 1 else ''}: {plan}"
    if seen["reason"]:
        yield f"plan: none; {seen['reason']}"
