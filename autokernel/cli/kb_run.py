"""`autokernel kb run`."""

from __future__ import annotations

import click


@click.command("run")
def run_level() -> int:
    """Search a level."""
    return 4
