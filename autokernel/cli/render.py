"""An evaluation as text for people and as the JSON object that `kb eval --json` promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from autokernel.cli.layout import printable

if TYPE_CHECKING:
    from autokernel.records import Comparison, Evaluation, Figure

WIDE = 1.5  # an interval whose ends are further apart than this ratio says little
LOG_LINES = 40  # of the candidate's own text shown to a person; JSON and the ledger hold all that was kept


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """The documented keys: accepted, refused_by, reason, stages, speedup, interval, against and the rest; values are plain JSON.

    `speedup`, `interval` and `against` are those of the first opponent asked for; `comparisons` holds all of them with samples.
    """
    whole = evaluation.to_json()
    first = evaluation.comparisons[0] if evaluation.comparisons else None
    return {
        "problem": evaluation.problem,
        "problem_hash": evaluation.problem_hash,
        "candidate": evaluation.candidate,
        "builder": evaluation.builder,
        "accepted": evaluation.accepted,
        "refused_by": evaluation.refused_by,
        "reason": evaluation.reason,
        "stages": whole["verdicts"],
        "speedup": first.speedup if first else None,
        "interval": [first.low, first.high] if first else None,
        "confidence": first.confidence if first else None,
        "pairs": first.pairs if first else None,
        "verified_low": first.verified_low if first else None,
        "against": first.against if first else None,
        "verified": evaluation.verified,
        "oracle": evaluation.oracle,
        "precision_class": evaluation.precision_class,
        "labels": list(evaluation.labels),
        "times_ms": whole["times_ms"],
        "breakdown_s": whole["breakdown_s"],
        "roofline": whole["roofline"],
        "rules": evaluation.rules,
        "machine": whole["machine"],
        "comparisons": whole["comparisons"],
        "log": evaluation.log,
        "created": evaluation.created,
    }


def evaluation_lines(evaluation: Evaluation) -> Iterator[str]:
    """The verdict, stage by stage, and the times."""
    verdict = click.style("accepted", fg="green") if evaluation.accepted else click.style(f"refused by {evaluation.refused_by}", fg="red")
    yield f"{evaluation.problem}  {verdict}  ({evaluation.rules}, {evaluation.builder} {evaluation.candidate[:12]})"
    if evaluation.reason:
        yield f"  {evaluation.reason}"
    for stage in evaluation.verdicts:
        mark = click.style("pass", fg="green") if stage.passed else click.style("FAIL", fg="red")
        yield f"  {stage.stage:<13} {mark}  {_figures(stage.figures)}".rstrip()
        if stage.reason and stage.reason != evaluation.reason:
            yield f"  {'':<13}       {stage.reason}"
    for comparison in evaluation.comparisons:
        yield f"  {comparison_line(comparison)}"
        if comparison.high > WIDE * comparison.low:
            yield "    a wide interval: something else kept this machine busy, or one call's time varies by itself; time it once more"
    if evaluation.times_ms:
        yield "  times: " + ", ".join(f"{name} {value:.4g} ms" for name, value in evaluation.times_ms.items())
    for name, value in _facts(evaluation).items():
        yield f"  {name}: {value}"
    if evaluation.log and not evaluation.accepted:
        lines = evaluation.log.rstrip().splitlines()
        yield "  the candidate's own output:"
        if len(lines) > LOG_LINES:
            yield f"    ({len(lines) - LOG_LINES} lines before these; --json shows them)"
        yield from (f"    {printable(line)}" for line in lines[-LOG_LINES:])


def comparison_line(comparison: Comparison) -> str:
    """`1.32x against eager [1.30, 1.35] (24 pairs, 99.6 % interval; 1.28x at least, whatever the candidate's process left out)`."""
    least = f"; {comparison.verified_low:.3f}x at least, whatever the candidate's process left out" if comparison.low > 1.0 else ""
    return (f"{comparison.speedup:.3f}x against {comparison.against} [{comparison.low:.3f}, {comparison.high:.3f}] "
            f"({comparison.pairs} pairs, {100 * comparison.confidence:.4g} % interval{least})")


def _facts(evaluation: Evaluation) -> dict[str, str]:
    facts = {
        "verified": evaluation.verified,
        "oracle": evaluation.oracle if evaluation.accepted else "",
        "precision": evaluation.precision_class or "",
        "roofline": "" if evaluation.roofline is None else f"{evaluation.roofline:.0%} of the bound",
        "labels": ", ".join(evaluation.labels),
        "took": ", ".join(f"{name} {seconds:.2f} s" for name, seconds in evaluation.breakdown_s.items()),
        "machine": ", ".join(f"{name} {value}" for name, value in evaluation.machine.items() if value not in (None, "")),
    }
    return {name: value for name, value in facts.items() if value}


def _figures(figures: Mapping[str, Figure]) -> str:
    return ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in figures.items()
                     if value not in (None, ""))
