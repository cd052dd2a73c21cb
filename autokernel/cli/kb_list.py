"""`autokernel kb list`: a level's problems, and what each needs."""

from __future__ import annotations

import json

import click

from autokernel.cli.kb_show import problem_facts
from autokernel.cli.options import id_list, json_option, source_option


@click.command("list")
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
