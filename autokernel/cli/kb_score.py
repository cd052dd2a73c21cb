"""`autokernel kb score`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from autokernel.cli.options import json_option


@click.command("score")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--baseline", type=click.Path(path_type=Path), metavar="FILE",
              help="Score a KernelBench run directory or eval_results.json against this file.")
@click.option("--level", type=int, help="Which level such results are of, where they do not say it.")
@click.option("--source", metavar="hub|PATH", help="Take the level's problems from here, not from the baseline's names.")
@click.option("--force", is_flag=True, help="Compare with a baseline of another card or precision all the same.")
@json_option
def score_runs(runs: tuple[Path, ...], baseline: Path | None, level: int | None, source: str | None, force: bool, as_json: bool) -> int:
    """Score the runs in these folders as one level; shards of one device model are merged, and named.

    With --baseline, RUN is a KernelBench run directory or its eval_results.json: KernelBench's score and the honest one beside it.
    """
    if baseline is not None or any(_is_kernelbench(run) for run in runs):
        return _score_kernelbench(runs, baseline, level, source, force=force, as_json=as_json)
    from autokernel.cli.scoring import read_runs, score, score_lines

    scored = score(read_runs(runs))
    if as_json:
        click.echo(json.dumps(scored.to_json(), indent=2))
    else:
        click.echo("\n".join(score_lines(scored)))
    return 0


def _is_kernelbench(run: Path) -> bool:
    return run.is_file() or ((run / "eval_results.json").exists() and not (run / "ledger.jsonl").exists())


def _score_kernelbench(runs: tuple[Path, ...], baseline: Path | None, level: int | None, source: str | None, *, force: bool,
                       as_json: bool) -> int:
    from autokernel.compat.scores import run_score_lines, score_run
    from autokernel.errors import UsageError

    if baseline is None:
        raise UsageError("KernelBench's results are scored against a baseline. Pass --baseline FILE; autokernel kb baseline makes one.")
    if len(runs) != 1:
        raise UsageError("KernelBench's results are scored one run at a time. Pass one RUN with --baseline.")
    if not runs[0].exists():
        raise UsageError(f"there is no run '{runs[0]}'. Pass a run directory or an eval_results.json.")
    scored = score_run(runs[0], baseline, level=level, names=_names(level, source), force=force)
    click.echo(json.dumps(scored.to_json(), indent=2) if as_json else "\n".join(run_score_lines(scored)))
    return 0


def _names(level: int | None, source: str | None) -> dict[int, str] | None:
    """The level's problems by id from `source`, names as in a local KernelBench; None where no source is named."""
    from autokernel.errors import UsageError

    if source is None:
        return None
    if level is None:
        raise UsageError("--source names the problems of a level. Pass --level too.")
    from kernelbench_bridge import load_level

    return {problem.problem_id: f"{problem.name}.py" for problem in load_level(level, source).problems}
