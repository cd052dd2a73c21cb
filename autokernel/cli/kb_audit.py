"""`autokernel kb audit`: which of a level's problems may be scored; written problem by problem, resumed from what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from autokernel.cli.options import build_store, chosen_device, device_option, id_list, json_option, rules_option, source_option


@click.command("audit")
@click.option("--level", type=int, required=True, help="1 to 4.")
@click.option("--problems", callback=id_list, metavar="IDS", help="Only these, as in 1-10,23.")
@source_option
@device_option
@rules_option
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="JSON lines, one a problem; what it holds is not done again.")
@click.option("--memory-gb", type=click.FloatRange(min=0, min_open=True), help="Judge as if the device had this much memory.")
@json_option
def audit_level(level: int, problems: tuple[int, ...] | None, source: str, device: str | None, rules: str, out: Path | None,
                memory_gb: float | None, as_json: bool) -> int:
    """Try answers that compute nothing (zeros, a constant, another input's answer, an input) on each problem of a level.

    A problem on which one passes everything is unscorable; where it passes on the problem's own inputs alone, weak, and scored.
    """
    from autokernel.audit import audit_problem
    from autokernel.durable import storage_errors
    from autokernel.executor.broker import Executor
    from autokernel.rules import preset
    from kernelbench_bridge import load_level

    chosen, loaded = preset(rules), load_level(level, source, problems)
    click.echo(loaded.why, err=True)
    rows = _known(out, chosen.label) if out else {}
    wanted = [problem for problem in loaded.problems if rows.get(problem.uid, {}).get("problem_hash") != problem.hash]
    with Executor(chosen_device(device), build_store(), memory_gb=memory_gb) as executor:
        for problem in wanted:
            row = audit_problem(problem, executor, chosen).to_json()
            rows[problem.uid] = row
            click.echo(_line(row), err=True)
            if out:
                with storage_errors("write", out), out.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(row) + "\n")
    results = [rows[problem.uid] for problem in loaded.problems]
    click.echo(json.dumps(results, indent=2) if as_json else "\n".join(_summary(results)))
    return 0


def _known(out: Path, label: str) -> dict[str, dict[str, Any]]:
    """Rows of an earlier run of the same rules, by uid."""
    from autokernel.errors import UsageError

    if not out.exists():
        return {}
    try:
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        return {row["problem"]: row for row in rows if row["rules"] == label}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{out} does not hold an audit ({error}); pass --out another file.") from error


def _line(row: dict[str, Any]) -> str:
    passing = ", ".join(row["unscorable"] or row["weak"])
    said = row["reason"] or (f"passes: {passing}" if passing else "")
    size = (row["input_bytes"] + row["output_bytes"] + row["weight_bytes"]) / 1e9
    return f"{row['problem']:<7} {row['status']:<15} {size:8.3f} GB  {said}".rstrip()


def _summary(results: list[dict[str, Any]]) -> list[str]:
    lines = []
    for status in dict.fromkeys(row["status"] for row in sorted(results, key=lambda row: str(row["status"]))):
        named = [row["problem"] for row in results if row["status"] == status]
        lines.append(f"{status}: {len(named)} ({', '.join(named)})" if status != "scorable" else f"scorable: {len(named)}")
    return lines
