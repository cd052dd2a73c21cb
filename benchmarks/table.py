"""The page's table of one or more runs of a level, shards put together: a Markdown row a problem, and how many stand at 1.05x and 2x.

    python benchmarks/table.py RUN [RUN ...]

Figures are those of the final trial: each champion measured again in fresh processes, inside its own shard.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import click

from autokernel.cli.scoring import read_runs, score
from autokernel.ledger import LedgerContents
from autokernel.records import Comparison, Evaluation
from autokernel.trials import Outcome

HEAD = ("problem", "kernel", "against eager", "against compile", "eager, ms", "champion, ms", "precision", "tries", "ended by")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
def main(runs: tuple[Path, ...]) -> None:
    """Print the table and what it comes to."""
    read = read_runs(runs)
    score(read)  # refuses shards that must not be put together
    rows = sorted(((int(uid.split("/")[1]), outcome, contents) for contents in read.values() for uid, outcome in contents.outcomes.items()),
                  key=lambda row: row[0])
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    champions = []
    for _, outcome, contents in rows:
        final = contents.champions().get(outcome.problem)
        print("| " + " | ".join(cells(outcome, contents, final.evaluation if final else None)) + " |")
        if final is not None and outcome.status == "champion":
            champions.append(final.evaluation)
    print()
    for name in ("eager", "compile"):
        print(summary(name, [pair for made in champions if (pair := made.against(name)) is not None]))


def cells(outcome: Outcome, contents: LedgerContents, final: Evaluation | None) -> tuple[str, ...]:
    """One problem's cells; where there is no champion, why."""
    if final is None:
        reason = outcome.reason.replace("|", "/")
        return (outcome.problem, outcome.status, reason, "", "", "", "", str(outcome.iterations), outcome.stopped_by)
    eager, compiled = final.against("eager"), final.against("compile")
    why = next((trial.note for trial in contents.of(outcome.problem) if trial.evaluation.candidate == outcome.champion), "")
    return (outcome.problem, f"{final.builder}: {why.split(':')[0].split(';')[0]}", spread(eager), spread(compiled),
            f"{eager.opponent.median_ms:.4g}" if eager else "", f"{eager.candidate.median_ms:.4g}" if eager else "",
            final.precision_class or "", str(outcome.iterations), outcome.stopped_by)


def spread(pair: Comparison | None) -> str:
    """A speedup with its interval."""
    return f"{pair.speedup:.2f} ({pair.low:.2f} to {pair.high:.2f})" if pair else "not timed"


def summary(name: str, pairs: Sequence[Comparison]) -> str:
    """How many are faster, by the interval's lower end and by the median, and the geometric mean."""
    sure, fast, twice = (sum(test(pair) for pair in pairs) for test in (lambda p: p.low > 1.05, lambda p: p.speedup > 1.05,
                                                                           lambda p: p.speedup > 2))
    mean = statistics.geometric_mean([pair.speedup for pair in pairs]) if pairs else 0.0
    return (f"Against {name}: {len(pairs)} timed, {sure} above 1.05x with the whole interval, {fast} by the median, {twice} above 2x; "
            f"geometric mean {mean:.2f}x.")


if __name__ == "__main__":
    main()
