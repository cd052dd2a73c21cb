"""`autokernel kb eval-run`: every sample of a KernelBench run directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autokernel.cli.layout import printable
from autokernel.cli.options import (
    build_store,
    chosen_device,
    chosen_devices,
    device_option,
    id_list,
    json_option,
    kernelbench_options,
    source_option,
)
from autokernel.errors import UsageError

if TYPE_CHECKING:
    from autokernel.compat.batch import Progress
    from autokernel.compat.records import RunRecords
    from autokernel.compat.single import CompatOptions
    from kernelbench_bridge import LoadedLevel
    from kernelbench_bridge.run_directory import SampleFile


@click.command("eval-run")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--level", type=int, required=True, help="1 to 4; a run directory's results are of one level.")
@click.option("--problems", callback=id_list, metavar="IDS", help="Only these, as in 1-10,23.")
@source_option
@device_option
@kernelbench_options
@click.option("--backend", default="auto", show_default=True, metavar="auto|cuda|triton|...",
              help="KernelBench's back end; auto reads each file's off its syntax tree.")
@click.option("--verify/--no-verify", "verified", default=True, show_default=True,
              help="Also time right candidates by the judge's clock, and put that ratio beside.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=180.0, show_default=True, metavar="SECONDS",
              help="For one evaluation; compiling has its own.")
@click.option("--build-timeout", type=click.FloatRange(min=0, min_open=True), default=300.0, show_default=True, metavar="SECONDS")
@click.option("--pass-at-k", default="1", show_default=True, metavar="KS", help="Write pass_at_k_results.json for these k, as in 1,5,10.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Stop after this; the same command goes on.")
@click.option("--fresh", is_flag=True, help="Put earlier results aside and begin anew.")
@click.option("--append", is_flag=True, help="Add to an eval_results.json that another program wrote.")
@json_option
def evaluate_run(run_dir: Path, level: int, problems: tuple[int, ...] | None, source: str, device: str | None, backend: str, verified: bool,
                 timeout: float, build_timeout: float, pass_at_k: str, minutes: float | None, fresh: bool, append: bool, as_json: bool,
                 **evaluation: Any) -> int:
    """Evaluate every sample of RUN_DIR under KernelBench's rules, on every visible GPU; the same command goes on where it stopped."""
    from dataclasses import replace

    from autokernel.compat.batch import BatchOptions, locked
    from autokernel.compat.records import RunRecords
    from autokernel.compat.single import CompatOptions, require_backend
    from autokernel.rules import KERNELBENCH
    from kernelbench_bridge import load_level
    from kernelbench_bridge.run_directory import samples

    k_values = _k_values(pass_at_k)
    rules = replace(KERNELBENCH, timeout_s=timeout, build_s=build_timeout)
    options = CompatOptions(rules=rules, backend="cuda" if backend == "auto" else backend, **evaluation)
    devices = chosen_devices(chosen_device(device) if device else None)
    options.method(devices[0])
    if backend != "auto":
        require_backend(backend)
    found, notes = samples(run_dir, level)
    loaded = load_level(level, source, problems)
    chosen, unknown = _known(found, loaded)
    for note in (loaded.why, *loaded.notes, *notes, *unknown):
        click.echo(f"note: {note}", err=True)
    if not chosen:
        raise UsageError(f"'{run_dir}' holds no sample of level {level} for the problems asked for. "
                         f"Samples are called level_{level}_problem_P_sample_S_kernel.py.")
    with locked(run_dir):
        records = RunRecords.open(run_dir, _conditions(loaded, options, devices[0], backend), fresh=fresh, append=append)
        batch = BatchOptions(options, backend == "auto", verified, minutes)
        whole = _evaluate(records, loaded, chosen, batch, devices)
        passed = records.write_pass_at_k(k_values) if max(map(len, records.results.values()), default=0) > 1 else None
    summary = _summary(records, chosen, whole, passed)
    click.echo(json.dumps(summary, indent=2) if as_json else "\n".join(_lines(run_dir, summary)))
    return 0


def _evaluate(records: RunRecords, loaded: LoadedLevel, chosen: Sequence[SampleFile], batch: Any, devices: Sequence[str]) -> bool:
    from autokernel.compat.batch import Batch, pending

    done = len(chosen) - len(pending(chosen, records))
    if done:
        click.echo(f"note: {done} of {len(chosen)} samples are evaluated already", err=True)
    problems = {problem.problem_id: problem for problem in loaded.problems}
    work = Batch(records, problems, batch, devices, build_store(), _watch)
    whole = work.run(chosen)
    for device, error in work.lost.items():
        click.echo(f"note: {device} was lost, and the others took its samples: {error.message}", err=True)
    if not whole:
        click.echo("The minutes are over; the same command goes on.", err=True)
    return whole


def _watch(progress: Progress) -> None:
    from autokernel.compat.batch import facts_of

    sample, beside = progress.sample, progress.verified
    if progress.record is not None:
        text = facts_of(progress.record.model_dump())
    elif beside is not None and beside.speedup is not None:
        text = f"{beside.speedup:.3f}x [{beside.low:.3f}, {beside.high:.3f}] verified"
    else:
        text = f"not verified: {beside.verdict if beside else 'not judged'}"
    place = f"[{progress.done}/{progress.total}] problem {sample.problem_id} sample {sample.sample_id}"
    click.echo(f"{place}: {printable(text)}", err=True)


def _known(found: Sequence[SampleFile], loaded: LoadedLevel) -> tuple[list[SampleFile], list[str]]:
    """The samples of the problems chosen, and a note on those of no problem of the level."""
    ids = {problem.problem_id for problem in loaded.problems}
    strangers = sorted({sample.problem_id for sample in found} - set(loaded.all_ids))
    notes = [f"samples of problems that the level does not have are left alone: {', '.join(map(str, strangers))}"] if strangers else []
    return [sample for sample in found if sample.problem_id in ids], notes


def _conditions(loaded: LoadedLevel, options: CompatOptions, device: str, backend: str) -> dict[str, Any]:
    """What a resumed run must agree in."""
    from autokernel.compat.hardware import device_model
    from autokernel.machine import package_version
    from kernelbench_bridge import format_ids

    return {"level": loaded.level, "level_ids": format_ids(loaded.all_ids), "problems": loaded.origin, "rules": options.rules.label,
            "precision": options.precision, "backend": backend,
            "timing_method": options.method(device) if options.measure else "none", "correct_trials": options.correct_trials,
            "perf_trials": options.perf_trials, "seed": options.seed, "torch": package_version("torch"),
            "device": device_model(device)}


def _k_values(text: str) -> tuple[int, ...]:
    try:
        values = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        values = ()
    if not values or min(values) < 1:
        raise UsageError(f"'{text}' is no list of k; pass whole numbers from 1 up, as in 1,5,10.")
    return values


def _summary(records: RunRecords, chosen: Sequence[SampleFile], whole: bool, passed: Any) -> dict[str, Any]:
    rows = [entry for entries in records.results.values() for entry in entries]
    return {"complete": whole, "samples": len(chosen), "evaluated": len(rows), "compiled": sum(1 for row in rows if row["compiled"]),
            "correct": sum(1 for row in rows if row["correctness"]), "times": "unverified",
            "verified": sum(1 for row in records.ours.values() if (row.get("verified") or {}).get("speedup")),
            "missing_packages": sorted({row["missing_package"] for row in records.ours.values() if row.get("missing_package")}),
            "conditions": records.conditions, "averages": passed["averages"] if passed else {}}


def _lines(run_dir: Path, summary: dict[str, Any]) -> list[str]:
    lines = [f"{run_dir}: {summary['evaluated']} samples evaluated, {summary['compiled']} compiled, {summary['correct']} correct",
             f"  times are unverified; {summary['verified']} have a ratio by the judge's clock beside them"]
    lines += [f"  missing here: {name}" for name in summary["missing_packages"]]
    lines += [f"  {name} {value:.4g}" for name, value in summary["averages"].items()]
    return [*lines, "  score it: autokernel kb score RUN_DIR --baseline FILE"]
