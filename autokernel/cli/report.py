"""`autokernel report`: a run as an HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autokernel.cli.options import json_option

if TYPE_CHECKING:
    from autokernel.ledger import LedgerContents

PAGE = "report.html"


def _require_matplotlib() -> None:
    """Raises MissingOnMachine."""
    from importlib.util import find_spec

    from autokernel.errors import MissingOnMachine

    if find_spec("matplotlib") is None:
        raise MissingOnMachine("the report's plots need matplotlib, which is not installed.",
                               hint='pip install matplotlib, which the extra "autokernel-gpu[report]" brings too.')


def _names(runs: Mapping[str, LedgerContents]) -> dict[str, str]:
    """The problems' names by uid, from where the runs had them; none where that is not to be had now."""
    from kernelbench_bridge import BridgeError, load_level

    header = next(contents.header for contents in runs.values() if contents.header is not None)
    source = str(header.options.get("source") or "")
    if not source or source in ("auto", "hub"):  # the Hub may not answer, and a report should not wait for it
        return {}
    try:
        return {problem.uid: problem.name for problem in load_level(int(str(header.options["level"])), source).problems}
    except (BridgeError, KeyError, ValueError):
        return {}


@click.command("report")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help=f"The page.  [default: {PAGE} in the first RUN]")
@json_option
def report_runs(runs: tuple[Path, ...], out: Path | None, as_json: bool) -> int:
    """Write the runs in these folders as one page: score, plots, a row a problem, each search. Shards are put together as by kb score."""
    from autokernel.cli.layout import ids
    from autokernel.cli.progress import waiting
    from autokernel.cli.scoring import groups, read_runs, score
    from autokernel.durable import make_folder, replace_file
    from autokernel.report.page import page

    _require_matplotlib()
    read = read_runs(runs)
    scored = score(read)
    uncovered = {why: ids(uids) for why, uids in groups(scored).items() if why != "correct"}
    target = out or runs[0] / PAGE
    with waiting(f"drawing {sum(len(contents.outcomes) for contents in read.values())} problems"):
        text = page(read, scored.to_json(), _names(read), uncovered)
    make_folder(target.parent)
    replace_file(target, text.encode())
    click.echo(json.dumps({"report": str(target)}) if as_json else f"report: {target}")
    return 0
