"""Stage 2: more seeds of the problem's own distribution. A KernelBench problem's shapes are fixed, so shapes are not varied."""

from __future__ import annotations

from autokernel.gate.calls import Calls, fault_in, worst
from autokernel.records import Verdict
from autokernel.rules import Rules


def run(calls: Calls, rules: Rules) -> Verdict:
    """One call for each further own set."""
    answers = []
    for index in range(1, rules.own_sets):
        answer = calls.call("own", index)
        answers.append(answer)
        reason = fault_in(answer, f"own inputs, draw {index + 1}")
        if reason:
            return Verdict("shape_sweep", False, reason, worst(answers))
    return Verdict("shape_sweep", True, "", {**worst(answers), "judged": len(answers)})
