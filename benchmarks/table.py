"""The page's table of one or more runs of a level, shards put together: a Markdown row a problem, and how many stand at 1.05x and 2x.

    python benchmarks/table.py RUN [RUN ...]
    python benchmarks/table.py --latest RUN [RUN ...]    a level run in parts: each problem by the last run that gave it a champion

Figures are those of the final trial: each champion measured again in fresh processes, inside its own shard.
"""

from __future__ import annotations

from pathlib import Path

import click

from autokernel.cli.scoring import read_runs, score
from autokernel.ledger import LedgerContents
from autokernel.report.rows import Row, rows, spread, summary

HEAD = ("problem", "kernel", "against eager", "against compile", "eager, ms", "champion, ms", "precision", "tries", "ended by")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--latest", is_flag=True, help="Problems may come twice, under other rules; a column names run and rules.")
def main(runs: tuple[Path, ...], latest: bool) -> None:
    """Print the table and what it comes to."""
    read = read_runs(runs)
    if latest:
        found, where = last_of_each(read)
    else:
        score(read)  # refuses shards that must not be put together
        found, where = rows(read), {}
    head = (*HEAD, "run") if latest else HEAD
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in found:
        print("| " + " | ".join((*cells(row), where[row.uid]) if latest else cells(row)) + " |")
    print()
    for name in ("eager", "compile"):
        print(summary(name, [row.speedups[name] for row in found if name in row.speedups]))


def last_of_each(read: dict[str, LedgerContents]) -> tuple[list[Row], dict[str, str]]:
    """Each problem's row of the last run that gave it a champion, else of the last; and by problem that run and its rules."""
    kept: dict[str, Row] = {}
    where: dict[str, str] = {}
    for folder, contents in read.items():
        for row in rows({folder: contents}):
            if row.kernel or row.uid not in kept or not kept[row.uid].kernel:
                kept[row.uid] = row
                where[row.uid] = f"{Path(folder).name}, {contents.header.rules if contents.header else 'no rules'}"
    return sorted(kept.values(), key=lambda row: row.number), where


def cells(row: Row) -> tuple[str, ...]:
    """One problem's cells; where there is no champion, why."""
    if not row.kernel:
        return (row.uid, row.status, row.reason.replace("|", "/"), "", "", "", "", str(row.tries), row.ended_by)
    times = (f"{row.eager.opponent.median_ms:.4g}", f"{row.eager.candidate.median_ms:.4g}") if row.eager else ("", "")
    return (row.uid, row.kernel, spread(row.eager), spread(row.compiled), *times, row.precision, str(row.tries), row.ended_by)


if __name__ == "__main__":
    main()
