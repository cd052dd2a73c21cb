"""From a winner to the exporters' `Operation`: names, form, compiled part, fallback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autokernel.builders import CandidateFault
from autokernel.builders.syntax import parse
from autokernel.exporting.binary import native_part
from autokernel.exporting.describe import problem_facts
from autokernel.exporting.reference import reference_text
from autokernel.exporting.winners import Winner, check_verified
from exporters import CLASS_ONLY, Operation, check_python, form_of, keeps_state, names_for, refused


def check_exportable(winner: Winner) -> None:
    """Raise ExportError, naming the rule, for a winner that may not leave: not verified, or holding what the Hub forbids."""
    check_verified(winner.evaluation)
    if winner.evaluation.candidate != winner.candidate.sha256:
        raise refused(f"the evaluation on {winner.problem.uid} is of another candidate. "
                      "Judge this one: autokernel kb eval.", rule="verified")
    try:
        parse(winner.candidate.source)
    except CandidateFault as fault:
        raise refused(f"the candidate is no Python text: {fault}", rule="accepted") from fault
    check_python(winner.candidate.source, f"the winner of {winner.problem.uid}")


def operation_of(winner: Winner, taken: Sequence[str], *, fallback: bool, store: Path, arch: str | None) -> Operation:
    """The operation of a winner; `taken` names are in use. `fallback` ships the problem's own torch code for other arguments.

    Raises ExportError naming the rule, UsageError where the problem's code does not run, BuilderUnavailable without a compiler.
    """
    problem, candidate = winner.problem, winner.candidate
    facts = problem_facts(problem.uid, problem.source)
    form, why = form_of(facts, keeps_state(candidate.source))
    name, title = names_for(problem.name, taken)
    text = ""
    if fallback and form != CLASS_ONLY:
        text = reference_text(problem.source)
        check_python(text, f"the reference of {problem.uid}")
    return Operation(name=name, title=title, uid=problem.uid, problem_name=problem.name, builder=candidate.builder, source=candidate.source,
                     sha256=candidate.sha256, facts=facts, form=form, why_form=why, reference=text, fallback=bool(text),
                     native=native_part(candidate.source, candidate.builder, store / "builds", arch))


def as_class(operation: Operation, why: str) -> Operation:
    """The same winner as a class alone."""
    return replace(operation, form=CLASS_ONLY, why_form=why, reference="", fallback=False)
