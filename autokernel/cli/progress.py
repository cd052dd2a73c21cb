"""Progress on stderr: a spinner or bar where a person watches, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that `what` is under way until the block ends."""
    if not sys.stderr.isatty():
        click.echo(f"{what} ...", err=True)
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
