"""The group `autokernel kb`, and the command that lists problems."""

from __future__ import annotations

import json

import click

from autokernel.cli.kb_audit import audit_level
from autokernel.cli.kb_baseline import measure_baseline
from autokernel.cli.kb_eval import evaluate_one
from autokernel.cli.kb_eval_run import evaluate_run
from autokernel.cli.kb_prompt import write_prompt
from autokernel.cli.kb_run import run_level
from autokernel.cli.kb_score import score_runs
from autokernel.cli.kb_show import problem_facts, show_problem
from autokernel.cli.options import id_list, json_option, source_option


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
kb.add_command(show_problem)


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
    rows = [problem_facts(problem) for problem in loaded.problems]
    if as_json:
        whole = {"level": level, "origin": loaded.origin, "why": loaded.why, "notes": list(loaded.notes), "problems": rows}
        click.echo(json.dumps(whole, indent=2))
        return 0
    for row in rows:
        missing = f"  missing: {', '.join(row['missing'])}" if row["missing"] else ""
        click.echo(f"{row['uid']:<7}  {row['hash']}  {row['name']}{missing}")
    return 0
