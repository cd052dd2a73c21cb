"""`autokernel kb eval --rules kernelbench`: KernelBench's verdict, and the judge's ratio of windows beside its times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autokernel.cli.layout import printable
from autokernel.cli.options import build_store, read_candidate, require_packages
from autokernel.errors import AutoKernelError, MissingOnMachine

if TYPE_CHECKING:
    from autokernel.compat.result import Judged
    from autokernel.compat.single import CompatOptions, Verified


def evaluate_one_compat(problem: str, candidate: Path, source: str, device: str, options: CompatOptions, backend: str, *, verified: bool,
                        as_json: bool) -> int:
    """Judge one candidate as KernelBench does, print it, and give the exit code: 0 right, 1 not, 3 a package is missing."""
    from dataclasses import replace

    from autokernel.cli.progress import waiting
    from autokernel.compat.single import evaluate_compat, kernelbench_backend, require_backend
    from autokernel.executor.compat_host import CompatHost
    from autokernel.records import Candidate
    from kernelbench_bridge import load_problem, requirements

    text = read_candidate(candidate)
    require_packages(text)
    task = load_problem(problem, source)
    missing = requirements(task)
    if missing:
        raise MissingOnMachine(f"{task.uid} needs {', '.join(missing)}, missing here. "
                               "Install the packages (pip install NAME) and download the models, or choose another problem.")
    chosen = replace(options, backend=kernelbench_backend(text) if backend == "auto" else backend)
    chosen.method(device)
    require_backend(chosen.backend)
    what = f"judging on {task.uid}, {task.name} ({task.origin}; {options.rules.label}, {device})"
    with waiting(what), CompatHost(device, build_store()) as host:
        found = evaluate_compat(host, task.source, Candidate(text, "python"), chosen)
    if found.missing_package:
        raise MissingOnMachine(f"the candidate imports a package that is missing here: {found.missing_package}. Install it, and try again.")
    beside = _verified(task, text, device, chosen.precision) if verified and found.result.correctness and chosen.measure else None
    if as_json:
        click.echo(json.dumps(_json(task.uid, task.hash, chosen, found, beside, text), indent=2))
    else:
        click.echo("\n".join(_lines(task.uid, chosen, found, beside)))
    return 0 if found.result.correctness else 1


def _verified(task: Any, text: str, device: str, precision: str) -> Verified:
    from autokernel.cli.progress import waiting
    from autokernel.compat.single import Verified, verify
    from autokernel.executor.broker import Executor
    from autokernel.records import Candidate

    with waiting("timing it by the judge's clock"), Executor(device, build_store()) as executor:
        try:
            return verify(executor, task, Candidate(text, "python"), precision)
        except AutoKernelError as error:
            return Verified(verdict=f"not judged: {error.message}")


def _json(uid: str, code_hash: str, options: CompatOptions, found: Judged, beside: Verified | None, text: str) -> dict[str, Any]:
    from kernelbench_bridge.run_directory import serializable
    from kernelbench_bridge.static_labels import static_labels
    from kernelbench_bridge.static_rules import validate_kernel_static

    valid, errors, warnings = validate_kernel_static(text, backend=options.backend, precision=options.precision)
    result = serializable(found.result.model_dump())
    return {
        "problem": uid, "problem_hash": code_hash, "rules": options.rules.label, "accepted": found.result.correctness,
        **result, "times": "unverified" if found.times_ms else "none", "verified": beside.to_json() if beside else None,
        "note": found.note, "outcome": found.outcome, "precision": options.precision, "backend": options.backend,
        "draws": found.draws, "seconds": dict(found.seconds), "problem_fails": found.problem_fails,
        "samples_ms": list(found.times_ms), "reference_samples_ms": list(found.reference_ms),
        "static": {"valid": valid, "errors": errors, "warnings": warnings},
        "labels": [{"line": label.line, "name": label.name, "text": label.text} for label in static_labels(text)],
        "log": found.log,
    }


def _lines(uid: str, options: CompatOptions, found: Judged, beside: Verified | None) -> Iterator[str]:
    result = found.result
    verdict = "correct" if result.correctness else "wrong" if result.compiled else "not compiled"
    yield f"{uid}  {click.style(verdict, fg='green' if result.correctness else 'red')}  ({options.rules.label}, {options.precision})"
    if result.runtime > 0:
        ratio = f", {result.ref_runtime / result.runtime:.3f}x" if result.ref_runtime > 0 else ""
        yield f"  {result.runtime:g} ms, reference {result.ref_runtime:g} ms{ratio}, unverified: its own process took the time"
    if beside is not None:
        if beside.speedup is not None:
            yield f"  {beside.speedup:.3f}x [{beside.low:.3f}, {beside.high:.3f}] verified by the judge's clock ({beside.rules})"
        else:
            yield f"  no verified ratio: {printable(beside.verdict)}"
    for name, value in result.metadata.items():
        shown = str(value).strip().splitlines()[-1][:300] if str(value).strip() else ""
        yield f"  {name}: {printable(shown)}"
    if found.note:
        yield f"  note: {printable(found.note)}"
    yield f"  inputs {found.draws or 'not drawn'}; " + ", ".join(f"{name} {value:.2f} s" for name, value in found.seconds.items())
