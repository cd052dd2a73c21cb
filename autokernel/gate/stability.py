"""Stage 3: inputs beyond the problem's own range, made from its draws alone, wherever float64 stays finite."""

from __future__ import annotations

from autokernel.gate.calls import Calls, over_kinds
from autokernel.records import Verdict
from autokernel.rules import Rules

DESCRIBE = {
    "negated": "inputs negated", "scaled": "inputs scaled by 2.5", "difference": "differences of two draws",
    "sparse": "a few entries of the inputs replaced",
}


def run(calls: Calls, rules: Rules) -> Verdict:
    """Right only inside the problem's range is `range-specialised`, which `strict` refuses."""
    reason, figures = over_kinds("stability", calls, rules.extended_kinds, DESCRIBE)
    return Verdict("stability", not reason, f"range-specialised: {reason}" if reason else "", figures)
