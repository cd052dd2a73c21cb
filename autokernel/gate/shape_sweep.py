"""Stage 2: more seeds of the problem's own distribution. A KernelBench problem's shapes are fixed, so shapes are not varied."""

from __future__ import annotations

from autokernel.gate.calls import Calls, fault_in, worst
from autokernel.records import Verdict
from autokernel.rules import Rules


def run(calls: Calls, rules: Rules) -> Verdict:
    """One call for each further own set of the rules."""
    answers = calls.more_own()
    reason = next((reason for answer in answers if (reason := fault_in(answer, "own inputs, another draw"))), "")
    return Verdict("shape_sweep", not reason, reason, {**worst(answers), "judged": rules.own_sets - 1})
