"""`autokernel kb score`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from autokernel.cli.options import json_option


@click.command("score")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def score_runs(runs: tuple[Path, ...], as_json: bool) -> int:
    """Score the runs in these folders as one level; shards of one device model are merged, and named."""
    from autokernel.cli.scoring import read_runs, score, score_lines

    scored = score(read_runs(runs))
    if as_json:
        click.echo(json.dumps(scored.to_json(), indent=2))
    else:
        click.echo("\n".join(score_lines(scored)))
    return 0
