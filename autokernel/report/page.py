"""The page itself: one HTML file that needs nothing beside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from autokernel.ledger import LedgerContents
from autokernel.report import figures
from autokernel.report.rows import Row, rows, spread, summary

TEMPLATE = "page.html.j2"
FEWEST_TRIES = 2  # a search of one try is told by its row


def page(runs: Mapping[str, LedgerContents], score: Mapping[str, Any], names: Mapping[str, str],
         uncovered: Mapping[str, str]) -> str:
    """The report of runs by folder, with their `score` as `Scored.to_json` has it, the problems' `names` by uid where they are known, and
    which problems have no right kernel, by why.

    Raises ModuleNotFoundError without matplotlib.
    """
    import jinja2

    found = rows(runs)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = resources.files("autokernel.report").joinpath(TEMPLATE).read_text("utf-8")
    compared = {name: [row.speedups[name] for row in found if name in row.speedups] for name in ("eager", "compile")}
    return environment.from_string(text).render(
        score=score, rows=found, spread=spread, headers={folder: contents.header for folder, contents in runs.items()},
        summaries=[summary(name, made) for name, made in compared.items() if made],
        speedups=figures.speedups(found) if compared["eager"] else "", fast_p=figures.fast_p(score),
        searches=[(row, figures.progress(row)) for row in found if len(row.searched) >= FEWEST_TRIES],
        refusals=refusals(found), tries=sum(len(row.searched) for row in found),
        spent=_spent(sum(trial.seconds for row in found for trial in row.trials)), names=names, uncovered=uncovered,
    )


def _spent(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"


def refusals(found: Sequence[Row]) -> list[tuple[str, str, int]]:
    """(stage, reason up to its first number or clause, how often), the most frequent first."""
    counted = Counter((str(trial.evaluation.refused_by), _kind(trial.evaluation.reason))
                      for row in found for trial in row.trials if not trial.evaluation.accepted)
    return [(stage, reason, count) for (stage, reason), count in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))]


def _kind(reason: str) -> str:
    """A reason without what differs from case to case."""
    return re.split(r"[:;(\d]", reason, maxsplit=1)[0].strip()[:80]
