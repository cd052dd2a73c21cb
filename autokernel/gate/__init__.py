"""The five-stage correctness gate: figures from the judge in, verdicts out. Touches no tensor, swallows nothing, prints nothing."""

from __future__ import annotations

from collections.abc import Callable

from autokernel.gate import calls, determinism, edge_cases, shape_sweep, smoke, stability
from autokernel.gate.calls import Calls
from autokernel.records import Verdict
from autokernel.rules import Rules

Stage = Callable[[Calls, Rules], Verdict]
STAGES: tuple[tuple[str, Stage], ...] = (
    ("smoke", smoke.run),
    ("shape_sweep", shape_sweep.run),
    ("stability", stability.run),
    ("determinism", determinism.run),
    ("edge_cases", edge_cases.run),
)
"""In the order they run; the first that fails ends the evaluation."""

__all__ = ["STAGES", "Calls", "Stage", "calls"]
