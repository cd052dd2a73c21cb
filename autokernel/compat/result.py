"""A worker's report as KernelBench's result: the same fields, the same kinds of error under the same keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from autokernel.executor import compat_wire
from autokernel.executor.compat_host import DEADLINE, Answer
from autokernel.executor.compat_wire import Report
from autokernel.rules import CompatRules

NO_MODEL = "Syntax error in custom generated code or ModelNew not found"  # the text that KernelBench's users look for


@dataclass
class KernelExecResult:
    """KernelBench's result of one evaluation. Times are in ms, -1.0 where none was taken."""

    compiled: bool = False
    correctness: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    runtime: float = -1.0
    runtime_stats: dict[str, Any] = field(default_factory=dict)
    ref_runtime: float = -1.0
    ref_runtime_stats: dict[str, Any] = field(default_factory=dict)

    def model_dump(self) -> dict[str, Any]:
        """The fields as a dictionary, as pydantic's method of that name."""
        return asdict(self)

    def model_dump_json(self, *, indent: int | None = None) -> str:
        """The fields as JSON text; metadata that JSON has no word for as its text."""
        return json.dumps(asdict(self), indent=indent, default=str)


@dataclass(frozen=True)
class Judged:
    """One evaluation under KernelBench's rules."""

    result: KernelExecResult
    batch: KernelExecResult  # what KernelBench's batch script writes to eval_results.json; differs where an exception left its evaluator
    note: str = ""  # where KernelBench raises, crashes or returns None: what it does, and what is answered here instead
    missing_package: str = ""  # a package that the candidate imports and that is not installed
    problem_fails: str = ""  # what is wrong with the reference itself
    draws: str = ""  # "kept" where all inputs came from the cache, "drawn" where the evaluation drew some itself
    seconds: Mapping[str, float] = field(default_factory=dict)
    log: str = ""
    times_ms: tuple[float, ...] = ()  # all of them, as the candidate's process reported them
    reference_ms: tuple[float, ...] = ()
    outcome: str = "finished"  # finished, died, deadline or protocol


def judged(answer: Answer, *, hardware: str, device: str, rules: CompatRules) -> Judged:
    """What an answer comes to. `hardware` is the device's name, `device` "cuda:0" or "cpu"."""
    facts = {"hardware": hardware, "device": device}
    seconds = {"total": round(answer.seconds, 3)}
    report = answer.report
    if report is None:
        return Judged(*_no_report(answer, facts), seconds=seconds, log=answer.log, outcome=answer.fault)
    phases = dict(zip(("load", "construct", "check", "time"), (round(part, 3) for part in report.seconds), strict=True))
    result, note = _result(report, facts, rules)
    drew = "drawn" if report.flags & compat_wire.DREW else "kept"
    missing = report.error if report.flags & compat_wire.MISSING_PACKAGE else ""
    fails = ""
    if report.outcome in (compat_wire.REFERENCE_DOES_NOT_LOAD, compat_wire.REFERENCE_NOT_BUILT):
        fails = f"{report.error_name}: {report.error}"
    return Judged(result, _batch(report, result, facts), note, missing, fails, drew, {**seconds, **phases}, answer.log,
                  tuple(report.times_ms), tuple(report.reference_ms))


def _no_report(answer: Answer, facts: dict[str, Any]) -> tuple[KernelExecResult, KernelExecResult, str]:
    if answer.fault == DEADLINE:
        text, theirs = "Evaluation timed out", "its batch records the same"
    else:
        text = f"Evaluation process failed: {answer.message}"
        theirs = "its process dies with the candidate's, and its batch waits for the deadline"
    result = KernelExecResult(metadata={**facts, "error": text})
    return result, result, f"KernelBench's evaluator does not return here ({answer.message}); {theirs}"


def _result(report: Report, facts: dict[str, Any], rules: CompatRules) -> tuple[KernelExecResult, str]:
    """The result, and what KernelBench does instead where it has none."""
    metadata: dict[str, Any] = dict(facts)
    result = KernelExecResult(metadata=metadata)
    outcome = report.outcome
    if outcome in (compat_wire.NOT_COMPILED, compat_wire.RETRY):
        metadata |= {"compilation_error_name": report.error_name, "compilation_error": report.error}
        note = "KernelBench returns None here and asks for a retry, because the error's text names a lock or a missing file"
        return result, note if outcome == compat_wire.RETRY else ""
    if outcome == compat_wire.NO_MODEL_NEW:
        metadata |= {"compilation_error_name": "SyntaxError", "compilation_error": NO_MODEL}
        return result, ""
    if outcome in (compat_wire.REFERENCE_DOES_NOT_LOAD, compat_wire.REFERENCE_NOT_BUILT):
        metadata |= {"error": f"the reference fails: {report.error}", "error_name": report.error_name}
        return result, "KernelBench raises here: the reference itself does not load or cannot be constructed"
    result.compiled = True
    if report.max_differences:
        metadata["max_difference"] = [f"{value:.6f}" for value in report.max_differences]
        metadata["avg_difference"] = [f"{value:.6f}" for value in report.average_differences]
        metadata["correctness_issue"] = "Output mismatch"
    note = ""
    if outcome == compat_wire.SHAPE_DIFFERS:
        metadata |= {"correctness_issue": report.error, "correctness_issue_name": "correctness_issue"}
    elif outcome == compat_wire.FINISHED:
        metadata["correctness_trials"] = f"({report.passed} / {report.trials})"
        result.correctness = report.passed == report.trials
    else:
        metadata |= {"runtime_error": report.error, "runtime_error_name": report.error_name}
        if report.trace:
            metadata["runtime_error_traceback"] = report.trace
        if outcome == compat_wire.CONSTRUCTOR_ESCAPED:
            note = f"KernelBench catches only RuntimeError at construction: {report.error_name} leaves its evaluator"
    return result, _timed(report, result, rules) or note


def _timed(report: Report, result: KernelExecResult, rules: CompatRules) -> str:
    """Adds the times to the result; a note where KernelBench would raise."""
    from scorer.timing import timing_stats

    hardware, device = result.metadata["hardware"], result.metadata["device"]
    if report.flags & compat_wire.TIMED and report.times_ms and result.correctness:
        result.runtime_stats = timing_stats(report.times_ms, hardware=hardware, device=device)
        result.runtime = result.runtime_stats["mean"]
    if report.flags & compat_wire.TIMING_FAILED:
        result.metadata["error_during_performance"] = report.second
    if report.flags & compat_wire.REFERENCE_TIMED and report.reference_ms:
        result.ref_runtime_stats = timing_stats(report.reference_ms, hardware=hardware, device=device)
        result.ref_runtime = result.ref_runtime_stats["mean"]
        if result.runtime and result.ref_runtime / result.runtime > rules.excessive_speedup:
            result.metadata["excessive_speedup"] = True
    if report.flags & compat_wire.REFERENCE_TIMING_FAILED:
        return f"KernelBench raises here: timing the reference failed ({report.second})"
    return ""


def _batch(report: Report, result: KernelExecResult, facts: dict[str, Any]) -> KernelExecResult:
    """The record of KernelBench's batch script: an exception that leaves its evaluator is filed as not compiled."""
    escaped = report.outcome == compat_wire.CONSTRUCTOR_ESCAPED
    if not escaped and not report.flags & compat_wire.REFERENCE_TIMING_FAILED:
        return result
    name, text = (report.error_name, report.error) if escaped else _split(report.second)
    kind, words = ("cuda_error", f"CUDA Error: {text}") if "CUDA error" in text else ("other_error", f"error: {text}")
    return KernelExecResult(metadata={kind: words, f"{kind}_name": name, **facts})


def _split(text: str) -> tuple[str, str]:
    name, _, rest = text.partition(": ")
    return name, rest
