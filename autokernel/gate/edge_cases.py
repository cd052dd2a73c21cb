"""Stage 5: zeros, constants, large values and subnormals, wherever float64 stays finite."""

from __future__ import annotations

from autokernel.gate.calls import Calls, over_kinds
from autokernel.records import Verdict
from autokernel.rules import Rules

DESCRIBE = {"zeros": "all inputs zero", "constant": "every input constant", "large": "inputs times 1000", "denormal": "subnormal inputs"}


def run(calls: Calls, rules: Rules) -> Verdict:
    """One call on each edge kind of the rules."""
    reason, figures = over_kinds("edge_cases", calls, rules.edge_kinds, DESCRIBE)
    return Verdict("edge_cases", not reason, reason, figures)
