"""What `kb run` prints when it ends: a row for each problem, then the score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autokernel.cli.layout import ids, short, width, wrapped
from autokernel.cli.progress import speedup_text
from autokernel.cli.render import WIDE
from autokernel.cli.scoring import score, score_lines

if TYPE_CHECKING:
    from autokernel.ledger import LedgerContents
    from autokernel.run import LevelOutcome
    from autokernel.trials import Outcome

LONGEST_REASON = 300  # characters; the ledger has the whole reason
COLUMNS = ("problem", "against eager", "compile", "tries", "ended by", "name")


def level_json(folder: Path, contents: LedgerContents, result: LevelOutcome) -> dict[str, Any]:
    """The outcomes and the run's score as plain JSON values."""
    return {"run": str(folder), "outcomes": [outcome.to_json() for outcome in result.outcomes], "not_reached": list(result.not_reached),
            "interrupted": result.interrupted, "score": score({str(folder): contents}).to_json()}


def level_lines(folder: Path, contents: LedgerContents, result: LevelOutcome, names: Mapping[str, str]) -> Iterator[str]:
    """The table of the problems asked for, what is left to do, and the score; `names` by uid."""
    yield from _table(result.outcomes, names)
    wide = [found.problem for found in result.outcomes if found.low and found.high and found.high > WIDE * found.low]
    if wide:
        yield from wrapped(f"wide intervals: {ids(wide)}; this machine was busy with something else, or a call's time varies by itself",
                           "", "  ")
    if result.not_reached:
        yield from wrapped(f"not reached: {ids(result.not_reached)}; the same command goes on with them", "", "  ")
    yield ""
    yield from score_lines(score({str(folder): contents}))
    yield f"run: {folder} (winners, ledger.jsonl, results.tsv)"
    plots = "" if find_spec("matplotlib") else ", with matplotlib: pip install 'autokernel-gpu[report]'"
    yield f"as a page: autokernel report {folder}{plots}"


def _table(outcomes: Sequence[Outcome], names: Mapping[str, str]) -> Iterator[str]:
    """A line for each outcome, and below it why there is no champion; only names are cut to the width."""
    rows = [COLUMNS, *(_row(outcome, names.get(outcome.problem, "")) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    indent = " " * (widths[0] + 2)
    room = max(12, width() - sum(widths) - 2 * len(widths))
    for row, outcome in zip(rows, (None, *outcomes), strict=True):
        cells = [cell.rjust(wide) if head == "tries" else cell.ljust(wide) for head, cell, wide in zip(COLUMNS, row, widths, strict=False)]
        yield "  ".join((*cells, short(row[-1], room))).rstrip()
        if outcome is not None and outcome.status != "champion":
            yield from wrapped(short(outcome.reason, LONGEST_REASON), indent)


def _row(outcome: Outcome, name: str) -> tuple[str, ...]:
    eager = "not timed" if outcome.speedup is None else speedup_text(outcome.speedup, outcome.low, outcome.high)
    compiled = "-" if outcome.compile_speedup is None else f"{outcome.compile_speedup:.2f}x"
    return (outcome.problem, eager if outcome.status == "champion" else outcome.status, compiled, str(outcome.iterations),
            outcome.stopped_by, name)
