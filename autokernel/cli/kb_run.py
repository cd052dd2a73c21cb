"""`autokernel kb run`: search a level's problems; the same command goes on where the last one stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autokernel.cli.options import (
    against_option,
    backend_option,
    build_store,
    chosen_device,
    device_option,
    id_list,
    json_option,
    number_or_off,
    precision_option,
    resource_options,
    rules_option,
    source_option,
    with_timeout,
)
from autokernel.errors import UsageError

if TYPE_CHECKING:
    from autokernel.executor.broker import Executor
    from autokernel.loop import LoopOptions
    from autokernel.proposers import Proposer
    from autokernel.records import Figure
    from autokernel.run import LevelOutcome
    from autokernel.run_folder import RunFolder
    from autokernel.trials import RunHeader
    from kernelbench_bridge import LoadedLevel

INTERRUPTED = 130
NAMED_SOURCES = ("auto", "hub", "embedded")  # any other source is a path


@dataclass(frozen=True)
class Request:
    """What was asked for, option by option; None where an option was left out."""

    level: int
    problems: tuple[int, ...] | None
    source: str
    proposer: str
    candidates: Path | None
    watch: Path | None
    backend: str
    device: str | None
    iterations: int
    minutes: float | None
    rules: str
    precision: str
    against: tuple[str, ...]
    max_reverts: float | None
    stop_roofline: float | None
    stop_closed: float | None
    max_hours: float | None
    stop_speedup: float | None
    out: Path | None
    fresh: bool
    seed: int | None
    timeout: float | None
    memory_gb: float | None
    as_json: bool


def proposer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--proposer and what the strategies need."""
    command = click.option("--watch", type=click.Path(path_type=Path),
                           metavar="FILE", help="file: the one to watch, for a single problem.  [default: one in each workspace]")(command)
    command = click.option("--candidates", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
                           help="replay: their folder.")(command)
    return click.option("--proposer", type=click.Choice(["search", "replay", "file"]), default="search", show_default=True,
                        help="Where candidates come from: the built-in search, a folder, or a file that an agent edits.")(command)


def move_on_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The move-on rules, each a number or off."""
    for name, default, text in (
        ("--stop-speedup", "2", "Move on at this speedup against eager."),
        ("--max-hours", "2", "Move on after this many hours on a problem."),
        ("--stop-closed", "0.95", "Move on where eager itself is at this share of the roofline."),
        ("--stop-roofline", "0.9", "Move on at this share of the roofline."),
        ("--max-reverts", "5", "Move on after this many reverts in a row."),
    ):
        command = click.option(name, callback=number_or_off, default=default, show_default=True, metavar="N|off", help=text)(command)
    return command


@click.command("run")
@click.option("--level", type=int, required=True, help="1 to 4.")
@click.option("--problems", callback=id_list, metavar="IDS", help="Only these, as in 1-10,23.")
@source_option
@proposer_options
@backend_option
@device_option
@click.option("--iterations", type=click.IntRange(1, 300), default=50, show_default=True, help="At most this many candidates a problem.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Wall time of this command, shared over the problems.")
@rules_option
@precision_option
@against_option("eager,compile")
@move_on_options
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR",
              help="The run's folder.  [default: runs/L1-SOURCE-DEVICE, then -PROPOSER where that is not search]")
@click.option("--fresh", is_flag=True, help="Set an earlier run in that folder aside and begin anew.")
@resource_options
@json_option
def run_level(**options: Any) -> int:
    """Search a level: propose, judge, time, keep or revert; then score it. The same command resumes."""
    from kernelbench_bridge import load_level

    asked = Request(**options)
    if asked.proposer == "replay" and asked.candidates is None:
        raise UsageError("the proposer 'replay' needs a folder of candidates. Pass it with --candidates DIR.")
    loaded = load_level(asked.level, asked.source, asked.problems)
    if asked.watch is not None and len(loaded.problems) > 1:
        raise UsageError(f"one file cannot be watched for {len(loaded.problems)} problems. "
                         "Pass --problems with one id, or leave out --watch.")
    if asked.proposer == "replay" and asked.candidates is not None:
        from autokernel.proposers.replay import require_files

        require_files(asked.candidates, [problem.uid for problem in loaded.problems])
    click.echo(loaded.why, err=True)
    for note in loaded.notes:
        click.echo(f"note: {note}", err=True)
    device = chosen_device(asked.device)
    limits = _limits(asked)
    by = "" if asked.proposer == "search" else f"-{asked.proposer}"  # one proposer's run is not gone on with by another's
    folder = asked.out or Path("runs") / f"L{asked.level}-{loaded.origin}-{device.replace(':', '')}{by}"
    return _run(asked, loaded, device, limits, folder)


def _limits(asked: Request) -> LoopOptions:
    from autokernel.loop import LoopOptions
    from autokernel.moveon import MoveOn
    from autokernel.rules import QUICK, in_precision, preset

    reverts = None if asked.max_reverts is None else max(1, int(asked.max_reverts))
    return LoopOptions(
        iterations=asked.iterations, minutes=asked.minutes, inner=with_timeout(in_precision(QUICK, asked.precision), asked.timeout),
        outer=with_timeout(in_precision(preset(asked.rules), asked.precision), asked.timeout), final_against=asked.against,
        move_on=MoveOn(reverts=reverts, roofline=asked.stop_roofline, hours=asked.max_hours, speedup=asked.stop_speedup,
                       closed=asked.stop_closed),
    )


def _run(asked: Request, loaded: LoadedLevel, device: str, limits: LoopOptions, folder: Path) -> int:
    from autokernel.cli.progress import LevelProgress, waiting
    from autokernel.cli.run_report import level_json, level_lines
    from autokernel.durable import make_folder
    from autokernel.evaluate import Evaluator
    from autokernel.executor.broker import Executor
    from autokernel.run import run_level as search_level
    from autokernel.run_folder import RunFolder
    from kernelbench_bridge import requirements

    began = time.monotonic()
    by_uid = {problem.uid: problem for problem in loaded.problems}
    if not asked.fresh:
        _same_level(folder, loaded)
    make_folder(folder)
    with ExitStack() as open_things:
        with waiting(f"starting the judge and its workers on {device}"):
            executor = open_things.enter_context(Executor(device=device, store=build_store(), memory_gb=asked.memory_gb, seed=asked.seed,
                                                          compiles="compile" in asked.against))
        with RunFolder.open(folder, _header(asked, loaded, device, limits, executor), fresh=asked.fresh) as run:
            click.echo(f"run: {folder} ({limits.outer.label}, {run.header.device}, proposer {asked.proposer})", err=True)
            if run.ledger.repaired:
                click.echo(f"note: {run.ledger.repaired}", err=True)
            with LevelProgress(limits.iterations) as progress:
                result = search_level(loaded.problems, _proposer(asked, device, run), Evaluator(executor), run,
                                      limits, progress, missing=lambda problem: requirements(by_uid[problem.uid]), began=began)
    from autokernel import ledger

    contents = ledger.read(folder)
    if asked.as_json:
        click.echo(json.dumps(level_json(folder, contents, result), indent=2))
    else:
        click.echo("\n".join(level_lines(folder, contents, result, {uid: p.name for uid, p in by_uid.items()})))
    return _exit_code(result, folder)


def _exit_code(result: LevelOutcome, folder: Path) -> int:
    if result.interrupted:
        click.echo(f"Interrupted. What was judged is kept in {folder}; the same command goes on from there.", err=True)
        return INTERRUPTED
    return 0


def _header(asked: Request, loaded: LoadedLevel, device: str, limits: LoopOptions, executor: Executor) -> RunHeader:
    """How this run begins. `options` holds what a score needs to know later: the level, its ids, and the source to look problems up in."""
    from datetime import datetime, timezone

    from autokernel import __version__
    from autokernel.trials import RunHeader
    from kernelbench_bridge import format_ids

    machine = executor.machine()
    source = loaded.origin if asked.source == "auto" and loaded.origin in ("hub", "embedded") else asked.source
    options: dict[str, Figure] = {
        "level": loaded.level, "ids": format_ids(loaded.all_ids), "proposer": asked.proposer, "backend": asked.backend, "seed": asked.seed,
        "source": source if source in NAMED_SOURCES else str(Path(source).expanduser().resolve()),
    }
    return RunHeader(
        rules=limits.outer.label, torch=str(machine.get("torch", "")), device=f"{device} {machine.get('device_name') or ''}".strip(),
        origin=loaded.origin, version=__version__, options=options, machine=machine,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def _same_level(folder: Path, loaded: LoadedLevel) -> None:
    """UsageError where the run in this folder, if there is one, is of another level or of problems from elsewhere."""
    from autokernel import ledger

    header = ledger.header_in(folder)
    began = header and (header.options.get("level"), header.origin)
    if began and began != (loaded.level, loaded.origin):
        raise UsageError(f"the run in '{folder}' is of level {began[0]} ({began[1]}), not {loaded.level} ({loaded.origin}). "
                         "Pass --out to choose another folder, or --fresh to set it aside and begin anew.")


def _proposer(asked: Request, device: str, run: RunFolder) -> Proposer:
    from autokernel import proposers

    setup = proposers.Setup(backend=asked.backend, device=device, seed=asked.seed or 0, folder=asked.candidates, workspace=run.workspaces,
                            path=asked.watch, timeout_s=None if asked.minutes is None else 60.0 * asked.minutes)
    return proposers.create(asked.proposer, setup)
