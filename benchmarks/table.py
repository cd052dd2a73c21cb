"""The page's table of one or more runs of a level, shards put together: a Markdown row a problem, and how many stand at 1.05x and 2x.

    python benchmarks/table.py RUN [RUN ...]

Figures are those of the final trial: each champion measured again in fresh processes, inside its own shard.
"""

from __future__ import annotations

from pathlib import Path

import click

from autokernel.cli.scoring import read_runs, score
from autokernel.report.rows import Row, rows, spread, summary

HEAD = ("problem", "kernel", "against eager", "against compile", "eager, ms", "champion, ms", "precision", "tries", "ended by")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
def main(runs: tuple[Path, ...]) -> None:
    """Print the table and what it comes to."""
    read = read_runs(runs)
    score(read)  # refuses shards that must not be put together
    found = rows(read)
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    for row in found:
        print("| " + " | ".join(cells(row)) + " |")
    print()
    for name in ("eager", "compile"):
        print(summary(name, [row.speedups[name] for row in found if name in row.speedups]))


def cells(row: Row) -> tuple[str, ...]:
    """One problem's cells; where there is no champion, why."""
    if not row.kernel:
        return (row.uid, row.status, row.reason.replace("|", "/"), "", "", "", "", str(row.tries), row.ended_by)
    times = (f"{row.eager.opponent.median_ms:.4g}", f"{row.eager.candidate.median_ms:.4g}") if row.eager else ("", "")
    return (row.uid, row.kernel, spread(row.eager), spread(row.compiled), *times, row.precision, str(row.tries), row.ended_by)


if __name__ == "__main__":
    main()
