"""The group `autokernel kb`."""

from __future__ import annotations

import click


@click.group()
def kb() -> None:
    """KernelBench problems: list, show, run, eval, score."""
