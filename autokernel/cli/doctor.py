"""`autokernel doctor`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from autokernel.cli.options import build_store, chosen_device, device_option, json_option, rules_option

if TYPE_CHECKING:
    from autokernel.self_test import Case


@click.command()
@click.option("--self-test", "tests_itself", is_flag=True,
              help="Judge candidates whose verdicts are known, attacks among them; exit 1 if one is wrong: do not trust this machine then.")
@device_option
@rules_option
@json_option
def doctor(tests_itself: bool, device: str | None, rules: str, as_json: bool) -> int:
    """Say what works on this machine, and why not where it does not."""
    from autokernel.doctor import examine

    place = chosen_device(device)
    report = examine(place)
    cases = _self_test(place, rules) if tests_itself else []
    if as_json:
        tested = [{"name": case.name, "passed": case.passed, "accepted": case.evaluation.accepted, "refused_by": case.evaluation.refused_by,
                   "reason": case.evaluation.reason} for case in cases]
        certified = all(case.passed for case in cases) if tests_itself else None
        click.echo(json.dumps({**report.to_json(), "self_test": tested if tests_itself else None, "certified": certified}, indent=2))
    else:
        click.echo("\n".join([*report.lines(), *_tested(cases)]))
    return 0 if all(case.passed for case in cases) else 1


def _tested(cases: list[Case]) -> list[str]:
    """Lines of the self-test, none where there was none."""
    if not cases:
        return []
    wrong = sum(not case.passed for case in cases)
    end = f"not certified: {wrong} of {len(cases)} verdicts are wrong; do not trust what is judged on this machine" if wrong else \
        f"certified: all {len(cases)} verdicts are as they should be"
    return ["self-test", *(f"  {case.line}" for case in cases), f"  {end}"]


def _self_test(device: str, rules: str) -> list[Case]:
    from autokernel.cli.progress import waiting
    from autokernel.executor.broker import Executor
    from autokernel.rules import preset
    from autokernel.self_test import self_test

    cases = []
    with waiting(f"self-test ({rules}, {device}), about a minute"), Executor(device=device, store=build_store()) as executor:
        for case in self_test(executor, preset(rules)):
            cases.append(case)
            click.echo(f"  {len(cases)} judged: {case.name}", err=True)
    return cases
