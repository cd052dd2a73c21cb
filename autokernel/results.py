"""results.tsv: the ledger's trials as the table of ten columns that spreadsheets and AutoKernel's older scripts read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from autokernel.durable import replace_file, storage_errors, write_all
from autokernel.records import Evaluation, Figure
from autokernel.trials import Trial

COLUMNS = ("experiment", "tag", "kernel_type", "throughput_tflops", "latency_us", "pct_peak", "speedup_vs_pytorch",
           "correctness", "peak_vram_mb", "description")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def cells(number: int, trial: Trial) -> tuple[str, ...]:
    """One row's ten cells, unescaped; a figure that was not measured is an empty cell."""
    evaluation = trial.evaluation
    eager = evaluation.against("eager")
    roofline = evaluation.roofline
    return (
        str(number),
        f"{trial.problem}/{trial.phase}/{trial.iteration}",
        evaluation.builder,
        _number(_tflops(evaluation)),
        _number(_latency_us(evaluation)),
        _number(None if roofline is None else 100.0 * roofline),
        _number(eager.speedup if eager else None),
        "PASS" if evaluation.accepted else "FAIL",
        "",  # peak_vram_mb: a candidate's own allocator would have to be believed
        "; ".join(part for part in (trial.decision, evaluation.refused_by, evaluation.reason, trial.note) if part),
    )


def line(values: Sequence[str]) -> str:
    """The cells as one line of text; tabs, newlines and backslashes inside a cell become \\t, \\n and \\\\."""
    return "\t".join(value.translate(_ESCAPES) for value in values) + "\n"


class ResultsTable:
    """The results.tsv of one run. It is derived: opening a run writes it anew from the ledger."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows = 0

    def rewrite(self, trials: Sequence[Trial]) -> None:
        """Replace the table by one of these trials, in one step. Raises StorageError."""
        text = line(COLUMNS) + "".join(line(cells(number, trial)) for number, trial in enumerate(trials, start=1))
        replace_file(self.path, text.encode("utf-8", "backslashreplace"))
        self._rows = len(trials)

    def append(self, trial: Trial) -> None:
        """Add one row. Raises StorageError; the ledger holds the trial all the same."""
        text = line(cells(self._rows + 1, trial))
        with storage_errors("write to", self.path):
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                write_all(descriptor, text.encode("utf-8", "backslashreplace"))
            finally:
                os.close(descriptor)
        self._rows += 1


def _latency_us(evaluation: Evaluation) -> float | None:
    if evaluation.comparisons:
        return 1000.0 * evaluation.comparisons[0].candidate.median_ms
    ms = evaluation.times_ms.get("candidate")
    return None if ms is None else 1000.0 * ms


def _tflops(evaluation: Evaluation) -> float | None:
    """The reference's products over the candidate's time; None where it has none."""
    taken_us = _latency_us(evaluation)
    return evaluation.flops / taken_us / 1e6 if evaluation.flops and taken_us else None


def _number(value: Figure) -> str:
    return "" if value is None or isinstance(value, (str, bool)) else f"{value:.6g}"
