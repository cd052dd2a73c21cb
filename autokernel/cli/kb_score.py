"""`autokernel kb score`."""

from __future__ import annotations

import click


@click.command("score")
def score_runs() -> int:
    """Score runs."""
    return 4
