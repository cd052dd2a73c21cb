"""Stage 4: the same inputs give the same answer again, and a second process with other weights is right too."""

from __future__ import annotations

from autokernel.gate.calls import Calls, fault_in
from autokernel.records import Verdict
from autokernel.rules import Rules


def run(calls: Calls, rules: Rules) -> Verdict:
    """Bitwise equal where eager is, else no further apart than eager from itself (times a sampling allowance)."""
    answer = calls.repeat(rules.repeats)
    figures = {"spread": answer["spread"], "eager_spread": answer["eager_spread"]}
    if answer["overwritten"]:
        reason = "an earlier output changed when forward was called again; clone it before returning it"
        return Verdict("determinism", False, reason, figures)
    if answer["spread"] > rules.repeat_times_eager * answer["eager_spread"]:
        reason = f"the same inputs gave answers {answer['spread']:.3g} apart; eager's differ by {answer['eager_spread']:.3g}"
        return Verdict("determinism", False, reason, figures)
    if rules.second_process:
        reason = _other_weights(calls) or (_loaded_weights(calls) if rules.loaded_weights else "")
        if reason:
            return Verdict("determinism", False, reason, figures)
    return Verdict("determinism", True, "", figures)


def _loaded_weights(calls: Calls) -> str:
    reason = fault_in(calls.second_process("replaced"), "weights loaded after construction")
    return reason and f"stale-weights: {reason}; forward must use the parameters that it has when it is called, under the reference's names"


def _other_weights(calls: Calls) -> str:
    """Right with parameters moved in construction or loaded afterwards will do: a candidate may pack its weights early, or name them
    otherwise than the reference."""
    answer = calls.second_process("moved")
    reason = fault_in(answer, "second process, other weights")
    if not reason or not answer["neutral"]:
        return reason
    if not fault_in(calls.second_process("loaded"), ""):
        return ""
    return (f"neutral-weights: {reason}; {answer['neutral']} parameters that begin as ones or zeros had other values, and forward must "
            "use them all the same")
