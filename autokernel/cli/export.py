"""`autokernel export`: a Hub kernel from a run's winners or from one candidate, proven before it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autokernel.cli.options import (
    against_option,
    build_store,
    chosen_backend,
    chosen_device,
    device_option,
    id_list,
    json_option,
    read_candidate,
    source_option,
)
from autokernel.errors import MissingOnMachine, UsageError

if TYPE_CHECKING:
    from autokernel.executor.broker import Executor
    from autokernel.exporting.flow import Exported
    from autokernel.exporting.prove import Proof
    from autokernel.exporting.winners import Winner
    from kernelbench_bridge import Problem

KERNEL_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[a-z][a-z0-9-]*[a-z0-9]")


@dataclass(frozen=True)
class Asked:
    """What was asked for, option by option."""

    target: Path
    problem: str | None
    problems: tuple[int, ...] | None
    source: str
    out: Path
    name: str | None
    repo: str | None
    version: int
    license: str
    outside: str
    device: str | None
    against: tuple[str, ...]
    seed: int | None
    memory_gb: float | None
    as_json: bool


def repo_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """ORG/NAME, the name as the Hub wants kernels called. Raises BadParameter."""
    if value is not None and not REPO.fullmatch(value):
        raise click.BadParameter(f"'{value}' is no kernel repository; pass ORG/NAME, NAME of two or more lower-case letters, digits "
                                 "and dashes, a letter first.",
                                 ctx, param)
    return value


def kernel_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A name that the Hub takes. Raises BadParameter."""
    if value is not None and (not KERNEL_NAME.fullmatch(value) or len(value) < 2):
        raise click.BadParameter(f"'{value}' is no kernel's name; use lower-case letters, digits and dashes, a letter first.", ctx, param)
    return value


def license_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A license as the Hub writes it, e.g. "apache-2.0". Raises BadParameter."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", value):
        raise click.BadParameter(f"'{value}' is no license as the Hub writes them; pass one such as mit or apache-2.0.", ctx, param)
    return value


@click.command("export")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--problem", metavar="L1/19|FILE", help="TARGET is one candidate for this problem; it is judged strict first.")
@click.option("--problems", callback=id_list, metavar="IDS", help="Of a run's winners only these, as in 1-10,23.")
@source_option
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Where the kernel is written.")
@click.option("--name", callback=kernel_name, metavar="NAME", help="The kernel's name.  [default: --repo's, else the operation's or run's]")
@click.option("--repo", callback=repo_id, metavar="ORG/NAME", help="Where it will be published; the card then says so.")
@click.option("--version", type=click.IntRange(min=0), default=1, show_default=True, help="The kernel's version on the Hub.")
@click.option("--license", callback=license_name, default="mit", show_default=True, help="The Hub's word for the license that you give it.")
@click.option("--outside", type=click.Choice(["refuse", "fallback"]), default="refuse", show_default=True,
              help="Arguments that were not verified raise an error, or go to the problem's own torch code.")
@device_option
@against_option("eager")
@click.option("--seed", type=click.IntRange(min=0), help="Makes drawn inputs repeatable; without it they are secret.")
@click.option("--memory-gb", type=click.FloatRange(min=0, min_open=True), help="Judge as if the device had this much memory.")
@json_option
def export_kernel(**options: Any) -> int:
    """Write winners as a Hub kernel that `kernels` loads, and prove it: loaded back in a fresh process, judged again, only then written.

    TARGET is a run's folder, whose winners (those faster than eager, or the --problems named) become one kernel, or one candidate file
    with --problem.
    """
    asked = Asked(**options)
    run = asked.target.is_dir()
    if run and asked.problem:
        raise UsageError("--problem goes with one candidate file, and TARGET is a folder. Leave it out, or pass the file.")
    if not run and not asked.problem:
        if not asked.target.exists():
            raise UsageError(f"there is no '{asked.target}'. Pass a run's folder, or a candidate file with --problem.")
        raise UsageError("one candidate needs --problem, the problem that it answers. Pass it, or pass a run's folder.")
    exported = _of_run(asked) if run else _of_candidate(asked)
    if asked.as_json:
        click.echo(json.dumps(_json(exported), indent=2))
    else:
        click.echo("\n".join(_lines(exported)))
    return 0


def _of_run(asked: Asked) -> Exported:
    from autokernel.exporting.prepare import check_exportable
    from autokernel.exporting.winners import check_gain, sift, winners_of_run
    from exporters import ExportError

    winners = winners_of_run(asked.target, _problem, asked.problems, None if asked.source == "auto" else asked.source)
    good, left = sift(winners, check_exportable)
    if not asked.problems:
        good, slow = sift(good, check_gain)
        left += slow
    for winner, why in left:
        click.echo(f"left out: {winner.problem.uid}: {why}", err=True)
    if not good or (left and asked.problems):
        raise ExportError(left[0][1] if left else "the run has no winner.", exit_code=1)
    device = chosen_device(asked.device)
    kinds = {str(winner.evaluation.machine.get("device", device)).partition(":")[0] for winner in good}
    if kinds != {device.partition(":")[0]}:
        raise MissingOnMachine(f"the winners were judged on {', '.join(sorted(kinds))} and must be proven there, but the device here is "
                               f"{device}. Export them on such a machine, or pass --device.")
    with _executor(asked, device) as executor:
        return _export(asked, good, executor, strictly=asked.problems is not None)


def _of_candidate(asked: Asked) -> Exported:
    from autokernel.evaluate import evaluate
    from autokernel.exporting.flow import check_out
    from autokernel.exporting.prepare import check_exportable
    from autokernel.exporting.winners import Winner
    from autokernel.records import Candidate
    from autokernel.rules import STRICT
    from exporters import check_python
    from kernelbench_bridge import requirements

    text = read_candidate(asked.target)
    assert asked.problem is not None
    problem = _problem(asked.problem, asked.source)
    missing = requirements(problem)
    if missing:
        raise MissingOnMachine(f"{problem.uid} needs {', '.join(missing)}, missing here. "
                               "Install the packages (pip install NAME) and download the models, or choose another problem.")
    candidate = Candidate(source=text, builder=chosen_backend("auto", text), proposer="export")
    check_out(asked.out)
    try:
        check_python(text, f"'{asked.target.name}'")  # before minutes of judging
    except SyntaxError as error:
        raise UsageError(f"'{asked.target}' is no Python text (line {error.lineno}: {error.msg}). Mend the file.") from error
    device = chosen_device(asked.device)
    with _executor(asked, device) as executor:
        _tell(f"judging {problem.uid} ({STRICT.label}, {device})")
        evaluation = evaluate(problem, candidate, rules=STRICT, executor=executor, against=asked.against)
        winner = Winner(problem, candidate, evaluation)
        check_exportable(winner)
        return _export(asked, [winner], executor, strictly=True)


def _export(asked: Asked, winners: list[Winner], executor: Executor, *, strictly: bool) -> Exported:
    from autokernel.exporting.flow import Request, export
    from exporters import names_for

    default = names_for(winners[0].problem.name, ())[0].replace("_", "-") if len(winners) == 1 else _run_name(asked.target)
    name = asked.name or (asked.repo.partition("/")[2] if asked.repo else default)
    request = Request(out=asked.out, name=name, version=asked.version, license=asked.license, repo_id=asked.repo,
                      fallback=asked.outside == "fallback")
    return export(winners, request, executor, _tell, strictly=strictly)


def _run_name(folder: Path) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    return words if KERNEL_NAME.fullmatch(words) and len(words) > 1 else f"kernels-{words}".strip("-")


def _problem(uid: str, source: str) -> Problem:
    from kernelbench_bridge import load_problem

    return load_problem(uid, source)


def _executor(asked: Asked, device: str) -> Executor:
    from autokernel.executor.broker import Executor

    return Executor(device=device, store=build_store(), memory_gb=asked.memory_gb, seed=asked.seed, compiles="compile" in asked.against)


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _json(exported: Exported) -> dict[str, Any]:
    kernel = exported.kernel
    operations = [{"name": o.name, "problem": o.uid, "form": o.form, "why_form": o.why_form, "api": o.api,
                   "accepted": p.evaluation.accepted, **_against(p)} for o, p in zip(kernel.operations, exported.proofs, strict=True)]
    return {"folder": str(exported.folder), "name": kernel.name, "version": kernel.version, "variant": kernel.variant,
            "operations": operations,
            "left_out": [{"problem": uid, "why": why} for uid, why in exported.left_out]}


def _against(proof: Proof) -> dict[str, Any]:
    compared = proof.against_winner
    return {} if compared is None else {"against_winner": compared.speedup, "interval": [compared.low, compared.high]}


def _lines(exported: Exported) -> Iterator[str]:
    kernel = exported.kernel
    yield f"{exported.folder}: kernel {kernel.name}, version {kernel.version}, build {kernel.variant}"
    for operation, proof in zip(kernel.operations, exported.proofs, strict=True):
        compared = proof.against_winner
        beside = "" if compared is None else f", {compared.speedup:.3f} times the winner's speed [{compared.low:.3f}, {compared.high:.3f}]"
        yield f"  {operation.uid}  {operation.api}: accepted again as loaded back{beside}"
        if operation.why_form:
            yield f"      no function and no layer: {operation.why_form}"
    for uid, why in exported.left_out:
        yield f"  left out: {uid}: {why}"
    yield f"Publish it: autokernel publish {exported.folder} --repo ORG/{kernel.name}"
