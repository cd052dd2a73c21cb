"""The group `autokernel kb`, and its two commands that only look: list and show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from autokernel.cli.kb_audit import audit_level
from autokernel.cli.kb_baseline import measure_baseline
from autokernel.cli.kb_eval import evaluate_one
from autokernel.cli.kb_eval_run import evaluate_run
from autokernel.cli.kb_prompt import write_prompt
from autokernel.cli.kb_run import run_level
from autokernel.cli.kb_score import score_runs
from autokernel.cli.options import id_list, json_option, source_option

if TYPE_CHECKING:
    from kernelbench_bridge import Problem


@click.group()
def kb() -> None:
    """KernelBench problems: list, show, audit, prompt, run, eval, eval-run, baseline, score."""


kb.add_command(audit_level)
kb.add_command(run_level)
kb.add_command(evaluate_one)
kb.add_command(evaluate_run)
kb.add_command(measure_baseline)
kb.add_command(write_prompt)
kb.add_command(score_runs)


@kb.command("list")
@click.option("--level", type=int, required=True, help="1 to 4.")
@click.option("--problems", callback=id_list, metavar="IDS", help="Only these, as in 1-10,23.")
@source_option
@json_option
def list_problems(level: int, problems: tuple[int, ...] | None, source: str, as_json: bool) -> int:
    """List a level's problems: uid, hash, name, and what each needs that is missing here."""
    from kernelbench_bridge import load_level

    loaded = load_level(level, source, problems)
    click.echo(loaded.why, err=True)
    for note in loaded.notes:
        click.echo(f"note: {note}", err=True)
    rows = [_facts(problem) for problem in loaded.problems]
    if as_json:
        whole = {"level": level, "origin": loaded.origin, "why": loaded.why, "notes": list(loaded.notes), "problems": rows}
        click.echo(json.dumps(whole, indent=2))
        return 0
    for row in rows:
        missing = f"  missing: {', '.join(row['missing'])}" if row["missing"] else ""
        click.echo(f"{row['uid']:<7}  {row['hash']}  {row['name']}{missing}")
    return 0


@kb.command("show")
@click.argument("problem")
@source_option
@json_option
def show_problem(problem: str, source: str, as_json: bool) -> int:
    """Print one problem's facts on stderr and its source on stdout. PROBLEM is L1/19 or a file."""
    from kernelbench_bridge import load_problem

    found = load_problem(problem, source)
    facts = _facts(found)
    if as_json:
        click.echo(json.dumps({**facts, "source": found.source}, indent=2))
        return 0
    for name, value in facts.items():
        click.echo(f"{name}: {', '.join(value) or 'nothing' if isinstance(value, list) else value}", err=True)
    click.echo(found.source, nl=not found.source.endswith("\n"))
    return 0


def _facts(problem: Problem) -> dict[str, Any]:
    from kernelbench_bridge import requirements

    missing = list(requirements(problem))
    return {"uid": problem.uid, "name": problem.name, "hash": problem.hash, "origin": problem.origin, "missing": missing}
