"""What a stage may ask for, and how figures of one call become a reason or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Calls(Protocol):
    """Judged calls of one candidate. Each raises WorkerFault where the candidate's process fails."""

    def call(self, kind: str, index: int = 0) -> Mapping[str, Any]:
        """One call on a judged input set; `skipped` where the reference is not finite there."""

    def more_own(self) -> Sequence[Mapping[str, Any]]:
        """Calls on further draws of the problem's own inputs."""

    def repeat(self, repeats: int) -> Mapping[str, Any]:
        """An earlier input set again among fresh ones."""

    def second_process(self, weights: str) -> Mapping[str, Any]:
        """A call in a fresh process with a second weight seed, compared with eager; `neutral`: how many parameters of the reference
        stood at ones or zeros and were moved, in construction (`weights` "moved") or by loading them afterwards ("loaded"); "replaced"
        loads all weights over others."""


def fault_in(answer: Mapping[str, Any], what: str) -> str:
    """Why the answer is wrong, with the numbers, or an empty string."""
    if answer.get("changed_input") is not None:
        return f"{what}: input {answer['changed_input']} changed; forward must leave its inputs as they are"
    for number, figure in enumerate(answer["figures"]):
        if figure["nonfinite"]:
            return (f"{what}: output {number} has {figure['nonfinite']} elements that are NaN or infinite where the reference's are not, "
                    "or the other way round")
        if figure["ratio"] > 1.0:
            return (f"{what}: output {number} is off by {figure['max_error']:.3g} at most, {figure['ratio']:.3g} times the bound "
                    f"(element {figure['where']}: {figure['actual']:.6g}, expected {figure['expected']:.6g})")
        if figure["rms_error"] > figure["rms_limit"]:
            return f"{what}: output {number} has an rms error of {figure['rms_error']:.3g}, above the limit {figure['rms_limit']:.3g}"
    return ""


def worst(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The largest figures over some answers, for the record."""
    figures = [figure for answer in answers for figure in answer["figures"]]
    if not figures:
        return {}
    return {"ratio": max(f["ratio"] for f in figures), "max_error": max(f["max_error"] for f in figures),
            "rms_error": max(f["rms_error"] for f in figures), "blind": max(f["blind"] for f in figures)}


def over_kinds(stage: str, calls: Calls, kinds: Sequence[str], describe: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Call once on each kind of inputs; (reason or empty, figures). Kinds on which the reference is not finite are named, not judged."""
    answers, skipped = [], []
    for kind in kinds:
        answer = calls.call(kind)
        if "skipped" in answer:
            skipped.append(kind)
            continue
        answers.append(answer)
        reason = fault_in(answer, describe.get(kind, kind))
        if reason:
            return reason, {**worst(answers), "kind": kind}
    return "", {**worst(answers), "judged": len(answers), "skipped": " ".join(skipped)}
