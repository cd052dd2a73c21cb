"""The last stage: paired windows against an opponent, the one-call control, and opponents timed alone. Reasons, or none."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from autokernel import measure
from autokernel.executor.faults import ProblemFault, WorkerFault
from autokernel.executor.handle import WorkerHandle
from autokernel.gate.calls import fault_in
from autokernel.records import INCUMBENT_FAILS, Comparison
from autokernel.session import Session


def compare(session: Session, worker: WorkerHandle, name: str, opponent: WorkerHandle, calls: int) -> Comparison | str:
    """Paired windows of so many calls until the rules' looks decide; a reason where a timed call was wrong."""
    looks = session.rules.looks

    def pairs(count: int, first: int) -> Mapping[str, Any]:
        return _pairs(session, worker, name, opponent, calls=calls, count=count, first=first, fewest=looks.fewest,
                      limit_s=looks.first_look_s if first == 0 else looks.budget_s, slower_below=looks.slower_below)

    got = measure.compare(name, pairs, session.null(calls), calls, session.rules, time.monotonic)
    return got if isinstance(got, Comparison) else _wrong(got)


def checked(session: Session, worker: WorkerHandle, name: str, opponent: WorkerHandle, calls: int,
            timed: Callable[[str], AbstractContextManager[None]]) -> Comparison | str:
    """`compare` and, where windows hold several calls and it matters, `control`: what that contradicts is timed once more before it
    counts. `timed` says what the seconds inside are for."""
    reason = ""
    for _ in range(2):
        with timed(f"pairs {name}"):
            got = compare(session, worker, name, opponent, calls)
        if isinstance(got, str) or calls == 1 or got.pairs <= 3 or falls_behind(session, got):
            return got
        with timed("K=1 control"):
            reason = control(session, worker, opponent, got)
        if not reason:
            return got
    return reason


def falls_behind(session: Session, made: Comparison) -> bool:
    """Whether a candidate of the search will not be kept by this comparison with the incumbent, so that no more need be known."""
    return made.against == "incumbent" and not session.rules.second_process and made.low <= session.rules.looks.keep_above


def control(session: Session, worker: WorkerHandle, opponent: WorkerHandle, many: Comparison) -> str:
    """One-call windows must agree with those of several calls, in the middle of all that were made: else work was moved between calls."""
    null, rules = session.null(1), session.rules
    windows: dict[str, list[float]] = {}
    for number in range(rules.control_rounds):
        got = _pairs(session, worker, many.against, opponent, calls=1, count=rules.control_pairs, first=number * rules.control_pairs,
                     fewest=3, limit_s=rules.looks.budget_s, slower_below=0.0)
        if "wrong" in got:
            return _wrong(got)
        windows = {key: [*windows.get(key, []), *values] for key, values in got.items()}
        one = measure.comparison(many.against, windows, null, 1, rules.looks.alpha[-1])
        if not measure.work_moved(one, many, null, rules.control_margin):
            return ""
    if not measure.contradicts(one, many, rules.control_alpha):  # either may be luck
        return ""
    return (f"batch-and-skip: {many.speedup:.2f}x in windows of {many.candidate.calls_per_window} calls but {one.speedup:.2f}x one call at "
            "a time; each call must do its own work")


def below_roofline(session: Session, made: Comparison) -> bool:
    """Whether a candidate took less time than the reference's bytes and FLOPs need here: by doing less, or by foul play."""
    return made.candidate.median_ms < session.roofline_ms


def impossible(session: Session, made: Comparison) -> str:
    """A reason where not even the outputs can have been written in that time, allowing for what windows cannot resolve."""
    most = made.candidate.median_ms + session.null(made.candidate.calls_per_window).slack_us(made.candidate.calls_per_window) / 1e3
    if most >= session.rules.write_share * session.write_ms:
        return ""
    return (f"too fast: {made.candidate.median_ms:.4g} ms a call, and filling {session.facts['output_bytes'] / 1e6:.4g} MB of outputs "
            f"alone takes {session.write_ms:.4g} ms at the fastest rate seen on this device")


def interference(session: Session, comparisons: Sequence[Comparison], opponents: Mapping[str, WorkerHandle]) -> str:
    """Opponents beside the candidate against themselves alone, before it lived and after it died: slower beside it is foul play.

    Where the comparison's windows are longer than those from before, it is held against longer ones from after. And those from after are
    held against those from before: whatever made it slow may have outlived the candidate.
    """
    for made in comparisons:
        opponent, calls = opponents[made.against], made.opponent.calls_per_window
        before = _nets(session, session.alone(made.against, opponent, reuse=True), session.calls)
        after = _nets(session, session.alone(made.against, opponent, after=True), session.calls)
        beside = [*made.opponent.samples_ms]
        alone_as_long = before + after if calls == session.calls else _nets(
            session, session.alone(made.against, opponent, calls=calls, after=True), calls)
        for when, samples, others, most in (("beside this candidate", beside, alone_as_long, session.rules.interference),
                                            ("after this candidate", after, before, session.rules.left_behind)):
            then, alone = measure.median_interval(samples, 0.01), measure.median_interval(others, 0.01)
            if then.low > most * alone.high:
                return (f"interference: {made.against} takes {then.median:.4g} ms a call {when} and {alone.median:.4g} ms alone; leave "
                        "nothing running")
    return ""


def _nets(session: Session, windows_ms: Sequence[float], calls: int) -> list[float]:
    null = session.null(calls)
    return [measure.net(window, null.median_ms, calls, null.spread_ms) for window in windows_ms]


def _pairs(session: Session, worker: WorkerHandle, name: str, opponent: WorkerHandle, *, calls: int, count: int,
           **limits: float) -> Mapping[str, Any]:
    """Pairs of windows. Raises WorkerFault, and ProblemFault where the incumbent fails: it must not have its successors refused."""
    try:
        got = session.ask("pairs", session.deadline(2 * count * calls), {"candidate": worker, "opponent": opponent}, calls=calls,
                          count=count, **limits)
    except WorkerFault as fault:
        if not fault.opponent:
            raise
        if name == "incumbent":
            raise ProblemFault(INCUMBENT_FAILS, fault.message) from fault
        raise WorkerFault(fault.kind, f"{name} failed beside it: {fault.message}") from fault
    if got.get("wrong") == "opponent" and name == "incumbent":
        raise ProblemFault(INCUMBENT_FAILS, "it gave a wrong answer in a timed call")
    return got


def _wrong(got: Mapping[str, Any]) -> str:
    if got["wrong"] != "candidate":
        return f"the {got['wrong']} gave a wrong answer in a timed call, so no comparison can be made"
    return fault_in({"figures": got["figures"], "changed_input": got["changed_input"]}, "a timed call")
