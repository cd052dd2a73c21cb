"""Stage 1: one call on the problem's own inputs, the output contract, inputs untouched."""

from __future__ import annotations

from autokernel.gate.calls import Calls, fault_in, worst
from autokernel.records import Verdict
from autokernel.rules import Rules


def run(calls: Calls, rules: Rules) -> Verdict:
    """One call; everything in it is judged as in every later one."""
    answer = calls.call("own", 0)
    return _verdict(fault_in(answer, "own inputs"), worst([answer]))


def _verdict(reason: str, figures: dict[str, float]) -> Verdict:
    return Verdict("smoke", not reason, reason, figures)
