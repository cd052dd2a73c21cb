"""`autokernel report`: a run as an HTML page."""

from __future__ import annotations

import json
from pathlib import Path

import click

from autokernel.cli.options import json_option

PAGE = "report.html"


@click.command("report")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help=f"The page.  [default: {PAGE} in the first RUN]")
@json_option
def report_runs(runs: tuple[Path, ...], out: Path | None, as_json: bool) -> int:
    """Write the runs in these folders as one page: score, plots, a row a problem, each search. Shards are put together as by kb score."""
    from autokernel.cli.progress import waiting
    from autokernel.cli.scoring import read_runs, score
    from autokernel.durable import make_folder, replace_file
    from autokernel.report.page import page

    read = read_runs(runs)
    scored = score(read).to_json()
    target = out or runs[0] / PAGE
    with waiting(f"drawing {sum(len(contents.outcomes) for contents in read.values())} problems"):
        text = page(read, scored)
    make_folder(target.parent)
    replace_file(target, text.encode())
    click.echo(json.dumps({"report": str(target)}) if as_json else f"report: {target}")
    return 0
