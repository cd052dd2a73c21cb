"""What `kb run` prints when it ends: a row for each problem, then the score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autokernel.cli.progress import speedup_text
from autokernel.cli.scoring import score, score_lines

if TYPE_CHECKING:
    from autokernel.ledger import LedgerContents
    from autokernel.run import LevelOutcome
    from autokernel.trials import Outcome

LONGEST_STATUS = 120  # characters; the ledger has the whole reason
COLUMNS = ("problem", "name", "champion", "against eager", "compile", "iterations", "status")


def level_json(folder: Path, contents: LedgerContents, result: LevelOutcome) -> dict[str, Any]:
    """The outcomes and the run's score as plain JSON values."""
    return {"run": str(folder), "outcomes": [outcome.to_json() for outcome in result.outcomes], "not_reached": list(result.not_reached),
            "interrupted": result.interrupted, "score": score({str(folder): contents}).to_json()}


def level_lines(folder: Path, contents: LedgerContents, result: LevelOutcome, names: Mapping[str, str]) -> Iterator[str]:
    """The table of the problems asked for, what is left to do, and the score; `names` by uid."""
    rows = [COLUMNS, *(_row(outcome, names.get(outcome.problem, "")) for outcome in result.outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
    if result.not_reached:
        yield f"not reached in the time given: {', '.join(result.not_reached)}; the same command goes on with them"
    yield ""
    yield from score_lines(score({str(folder): contents}))
    yield f"run: {folder} (winners, ledger.jsonl, results.tsv)"


def _row(outcome: Outcome, name: str) -> tuple[str, ...]:
    eager = "" if outcome.speedup is None else speedup_text(outcome.speedup, outcome.low, outcome.high)
    compiled = "" if outcome.compile_speedup is None else f"{outcome.compile_speedup:.2f}x"
    status = f"stopped by {outcome.stopped_by}" if outcome.status == "champion" else f"{outcome.status}: {' '.join(outcome.reason.split())}"
    shown = status if len(status) <= LONGEST_STATUS else f"{status[:LONGEST_STATUS - 3]}..."
    return (outcome.problem, name, (outcome.champion or "-")[:12], eager or "-", compiled or "-", str(outcome.iterations), shown)
