"""`autokernel kb eval`: one verdict on one candidate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autokernel.cli.options import (
    against_option,
    all_rules_option,
    backend_option,
    build_store,
    chosen_backend,
    chosen_device,
    device_option,
    json_option,
    kernelbench_options,
    read_candidate,
    require_packages,
    resource_options,
    source_option,
    with_timeout,
)
from autokernel.errors import MissingOnMachine

if TYPE_CHECKING:
    from autokernel.records import Evaluation
    from autokernel.rules import Rules
    from kernelbench_bridge import Problem


@click.command("eval")
@click.argument("problem")
@click.argument("candidate", type=click.Path(path_type=Path))
@source_option
@device_option
@all_rules_option
@kernelbench_options
@against_option("eager")
@backend_option
@resource_options
@click.option("--verify/--no-verify", "verified", default=True, show_default=True,
              help="With --rules kernelbench: also time a right candidate by the judge's clock.")
@click.option("--min-speedup", type=float, metavar="X", help="Exit 1 unless the interval's lower end against the first opponent reaches X.")
@json_option
def evaluate_one(problem: str, candidate: Path, source: str, device: str | None, rules: str, against: tuple[str, ...], backend: str,
                 seed: int | None, timeout: float | None, memory_gb: float | None, min_speedup: float | None, verified: bool,
                 precision: str, as_json: bool, **compat: Any) -> int:
    """Judge one CANDIDATE file on PROBLEM, which is L1/19 or a problem file. Exit 0 if it is right, 1 if refused.

    --timing, --correct-trials, --perf-trials, --times and --verify are for --rules kernelbench.
    """
    if rules == "kernelbench":
        return _as_kernelbench(problem, candidate, source, device, backend, precision, seed, timeout, verified=verified, as_json=as_json,
                               **compat)
    from autokernel.rules import in_precision, preset
    from kernelbench_bridge import load_problem

    text = read_candidate(candidate)
    require_packages(text)
    task = load_problem(problem, source)
    chosen = with_timeout(in_precision(preset(rules), precision), timeout)
    evaluation = _judged(task, text, chosen_backend(backend, text), chosen_device(device), chosen, against, seed, memory_gb)
    from autokernel.cli.render import evaluation_json, evaluation_lines

    if as_json:
        click.echo(json.dumps(evaluation_json(evaluation), indent=2))
    else:
        click.echo("\n".join(evaluation_lines(evaluation)))
    if not evaluation.accepted:
        return 1
    if min_speedup is not None and not any(c.against == against[0] and c.low >= min_speedup for c in evaluation.comparisons):
        click.echo(f"Slower than --min-speedup {min_speedup:g} against {against[0]}.", err=True)
        return 1
    return 0


def _as_kernelbench(problem: str, candidate: Path, source: str, device: str | None, backend: str, precision: str, seed: int | None,
                    timeout: float | None, *, verified: bool, as_json: bool, **compat: Any) -> int:
    from dataclasses import replace

    from autokernel.cli.kb_compat import evaluate_one_compat
    from autokernel.compat.single import CompatOptions
    from autokernel.rules import KERNELBENCH

    rules = replace(KERNELBENCH, timeout_s=timeout or KERNELBENCH.timeout_s)
    options = CompatOptions(rules=rules, precision=precision, seed=KERNELBENCH.seed if seed is None else seed, **compat)
    return evaluate_one_compat(problem, candidate, source, chosen_device(device), options, backend, verified=verified, as_json=as_json)


def _judged(task: Problem, text: str, builder: str, device: str, rules: Rules, against: tuple[str, ...], seed: int | None,
            memory_gb: float | None) -> Evaluation:
    from autokernel.cli.progress import waiting
    from autokernel.evaluate import evaluate
    from autokernel.executor.broker import Executor
    from autokernel.records import Candidate
    from kernelbench_bridge import requirements

    missing = requirements(task)
    if missing:
        raise MissingOnMachine(f"{task.uid} needs {', '.join(missing)}, missing here. "
                               "Install the packages (pip install NAME) and download the models, or choose another problem.")
    with waiting(f"judging on {task.uid}, {task.name} ({task.origin}; {rules.label}, {device})"), Executor(
            device=device, store=build_store(), memory_gb=memory_gb, seed=seed, compiles="compile" in against) as executor:
        return evaluate(task, Candidate(source=text, builder=builder, proposer="eval"), rules=rules, executor=executor, against=against)
