"""`autokernel kb eval`: one verdict on one candidate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autokernel.cli.options import (
    against_option,
    backend_option,
    build_store,
    chosen_backend,
    chosen_device,
    device_option,
    json_option,
    read_candidate,
    resource_options,
    rules_option,
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
@rules_option
@against_option("eager")
@backend_option
@resource_options
@click.option("--min-speedup", type=float, metavar="X", help="Exit 1 unless the interval's lower end against the first opponent reaches X.")
@json_option
def evaluate_one(problem: str, candidate: Path, source: str, device: str | None, rules: str, against: tuple[str, ...], backend: str,
                 seed: int | None, timeout: float | None, memory_gb: float | None, min_speedup: float | None, as_json: bool) -> int:
    """Judge one CANDIDATE file on PROBLEM, which is L1/19 or a problem file. Exit 0 if it is right, 1 if refused."""
    from autokernel.rules import preset
    from kernelbench_bridge import load_problem

    text = read_candidate(candidate)
    task = load_problem(problem, source)
    evaluation = _judged(task, text, chosen_backend(backend, text), chosen_device(device), with_timeout(preset(rules), timeout), against,
                         seed, memory_gb)
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
    with waiting(f"judging on {task.uid} ({rules.label}, {device})"), Executor(
            device=device, store=build_store(), memory_gb=memory_gb, seed=seed, compiles="compile" in against) as executor:
        return evaluate(task, Candidate(source=text, builder=builder, proposer="eval"), rules=rules, executor=executor, against=against)
