"""`autokernel kb baseline`: times of a level's references, in KernelBench's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from autokernel.cli.options import (
    build_store,
    chosen_device,
    device_option,
    id_list,
    json_option,
    precision_option,
    source_option,
    timing_option,
)
from autokernel.errors import UsageError


@click.command("baseline")
@click.option("--level", type=int, required=True, help="1 to 4.")
@click.option("--problems", callback=id_list, metavar="IDS", help="Only these, as in 1-10,23.")
@source_option
@device_option
@precision_option
@timing_option
@click.option("--compile", "mode", default="", metavar="MODE",
              help="Time torch.compile instead of eager: default, reduce-overhead, max-autotune, max-autotune-no-cudagraphs or cudagraphs.")
@click.option("--trials", type=click.IntRange(min=1), default=100, show_default=True, help="Timed calls.")
@click.option("--out", type=click.Path(path_type=Path), help="[default: baselines/DEVICE/baseline_time_CONFIG[_PRECISION].json]")
@click.option("--fresh", is_flag=True, help="Measure again what the file has already.")
@json_option
def measure_baseline(level: int, problems: tuple[int, ...] | None, source: str, device: str | None, precision: str, timing_method: str,
                     mode: str, trials: int, out: Path | None, fresh: bool, as_json: bool) -> int:
    """Time the references of a level; the file keeps precision, versions, device and timing method beside KernelBench's figures."""
    from autokernel.compat.baseline import MODES, BaselineOptions, environment, measure_level
    from autokernel.compat.single import check_method
    from autokernel.durable import make_folder, replace_file
    from autokernel.executor.compat_host import CompatHost
    from kernelbench_bridge import load_level
    from kernelbench_bridge.baselines import Baseline, baseline_text, read_baseline

    if mode not in MODES:
        raise UsageError(f"'{mode}' is no mode of torch.compile; choose one of {', '.join(MODES[1:])}.")
    where = chosen_device(device)
    method = check_method(timing_method or ("host_time" if where == "cpu" else "cuda_event"), where)
    options = BaselineOptions(precision, mode, method, trials)
    loaded = load_level(level, source, problems)
    click.echo(loaded.why, err=True)
    with CompatHost(where, build_store()) as host:
        facts = environment(host, options, loaded.origin)
        card = str(facts["device_name"]).replace(" ", "_").replace("/", "_")
        path = out or Path("baselines") / card / f"baseline_time_{options.config}{'' if precision == 'fp32' else f'_{precision}'}.json"
        make_folder(path.parent)
        levels: dict[str, dict[str, Any]] = {}
        if path.exists():
            old = read_baseline(path)
            _check(path, dict(old.environment), facts)
            levels = {key: dict(entries) for key, entries in old.levels.items()}
        entries = levels.setdefault(f"level{level}", {})
        wanted = [problem for problem in loaded.problems if fresh or entries.get(f"{problem.name}.py") is None]
        failed: dict[str, str] = {}
        for problem, measured in measure_level(host, wanted, options):
            entries[f"{problem.name}.py"] = measured.stats
            if measured.stats is None:
                failed[problem.name] = measured.reason
            said = f"{measured.stats['mean']:g} ms" if measured.stats else f"fails: {measured.reason}"
            click.echo(f"{problem.name}: {said}", err=True)
            replace_file(path, baseline_text(Baseline(levels, facts)).encode())
    timed = sum(1 for entry in entries.values() if entry)
    summary = {"file": str(path), "level": level, "timed": timed, "failed": failed, "environment": facts}
    lines = json.dumps(summary, indent=2) if as_json else f"{path}: {timed} references timed, {len(failed)} fail"
    click.echo(lines)
    return 0


def _check(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """UsageError where the file was measured under other conditions; it is left alone."""
    for name in ("precision", "config", "timing_method", "trials", "device_name", "torch", "cuda"):
        if before.get(name) != now[name]:
            raise UsageError(f"'{path}' was measured with {name} {before.get(name)}, and now it is {now[name]}; it is left alone. "
                             "Pass another --out.")
