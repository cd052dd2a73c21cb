"""The problem audit of law 7: may a problem be scored at all, is it weak, and what memory does it take?"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from autokernel.errors import JudgeDied, UsageError
from autokernel.executor.broker import Executor
from autokernel.executor.faults import ProblemFault
from autokernel.rules import STRICT, Rules
from autokernel.session import ProblemLike, Session

STATUSES = ("scorable", "weak", "unscorable", "does not fit", "reference fails")


@dataclass(frozen=True)
class Audit:
    """What came of auditing one problem. Sizes in bytes, `eager_ms` one forward's time."""

    problem: str
    problem_hash: str
    rules: str
    status: str
    weak: tuple[str, ...] = ()  # controls that pass on the problem's own inputs
    unscorable: tuple[str, ...] = ()  # controls that pass on every kind of inputs
    judged: tuple[str, ...] = ()  # kinds of inputs that the controls met
    blind: float | None = None  # share of the outputs' elements below their own bound; above the rules' share the problem is weak
    oracle: str = ""
    reason: str = ""
    input_bytes: int = 0
    output_bytes: int = 0
    weight_bytes: int = 0
    flops: int = 0
    eager_ms: float | None = None
    roofline_ms: float | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise UsageError(f"no audit status '{self.status}'; use one of {', '.join(STATUSES)}.")

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


def audit_problem(problem: ProblemLike, executor: Executor, rules: Rules = STRICT) -> Audit:
    """Run the control answers through the gate's figures. A problem at fault is an answer, not an exception."""
    start = time.monotonic()
    session = None
    try:
        session = Session(executor, problem, rules)
        found = session.audited(rules)
    except JudgeDied as death:
        seconds = round(time.monotonic() - start, 2)
        return Audit(problem.uid, problem.hash, rules.label, "reference fails", reason=str(death), seconds=seconds)
    except ProblemFault as fault:
        status = fault.kind if fault.kind in STATUSES else "reference fails"
        return Audit(problem.uid, problem.hash, rules.label, status, reason=fault.message, seconds=round(time.monotonic() - start, 2))
    finally:
        if session is not None and session.alive:
            session.close()
    weak = found["weak"] or found["blind"] > rules.blind_share
    status = "unscorable" if found["unscorable"] else "weak" if weak else "scorable"
    facts = session.facts
    return Audit(
        problem.uid, problem.hash, rules.label, status, weak=tuple(found["weak"]), unscorable=tuple(found["unscorable"]),
        judged=tuple(found["judged"]), blind=found["blind"], oracle=found["oracle"],
        input_bytes=facts["input_bytes"], output_bytes=facts["output_bytes"],
        weight_bytes=facts["weight_bytes"], flops=sum(facts["products"].values()), eager_ms=facts["eager_ms"],
        roofline_ms=session.roofline_ms,
        seconds=round(time.monotonic() - start, 2),
    )
