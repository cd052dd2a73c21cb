"""KernelBench's own scores, to the last digit and with its quirks: fast_p, geometric means, rates, pass@k.

Everything here mirrors what KernelBench computes, denominators included; the honest score is `scorer.level`. Plain Python, in
numpy's order of operations: products run from left to right and powers are the C library's, so that no digit differs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scorer.errors import ScorerError
from scorer.formulas import THRESHOLDS

LEVEL_SIZES = {1: 100, 2: 100, 3: 50, 4: 20}  # problems a level, in every version since the first

Entries = Mapping[str, Any]  # eval_results.json: problem id -> list of samples


def fastp(is_correct: Sequence[Any], baseline_ms: Sequence[float], actual_ms: Sequence[float], n: int, p: float) -> float:
    """Share of `n` that is correct and strictly more than `p` times as fast; 0.0 where `n` is 0. `n` is the caller's, whatever the rows."""
    faster = sum(1 for ratio in _ratios(is_correct, baseline_ms, actual_ms) if ratio > p)
    return faster / n if n > 0 else 0.0


def geometric_mean_speed_ratio_correct_only(is_correct: Sequence[Any], baseline_ms: Sequence[float], actual_ms: Sequence[float],
                                            n: int) -> float:
    """Geometric mean of baseline over actual, of the correct ones; 0.0 where none is. `n` is ignored, as KernelBench does.

    NaN where an odd number of correct ones was not timed (-1 ms), infinite where one took 0 ms.
    """
    return _root_of_product(_ratios(is_correct, baseline_ms, actual_ms))


def geometric_mean_speed_ratio_correct_and_faster_only(is_correct: Sequence[Any], baseline_ms: Sequence[float],
                                                       actual_ms: Sequence[float], n: int) -> float:
    """The same, of the correct ones that are faster than the baseline (ratio above 1)."""
    return _root_of_product([ratio for ratio in _ratios(is_correct, baseline_ms, actual_ms) if ratio > 1.0])


def _ratios(is_correct: Sequence[Any], baseline_ms: Sequence[float], actual_ms: Sequence[float]) -> list[float]:
    return [_divided(float(baseline_ms[i]), float(actual_ms[i])) for i in range(len(is_correct)) if is_correct[i]]


def _divided(above: float, below: float) -> float:
    """IEEE division, where Python raises: x / 0 is infinite, 0 / 0 is NaN."""
    if below != 0.0:
        return above / below
    if above == 0.0 or math.isnan(above):
        return math.nan
    return math.copysign(math.inf, above) * math.copysign(1.0, below)


def _root_of_product(ratios: Sequence[float]) -> float:
    if not ratios:
        return 0.0
    product = 1.0
    for ratio in ratios:
        product *= ratio
    if product < 0.0 and len(ratios) > 1:
        return math.nan  # C's pow of a negative base; Python's would be a complex number
    return float(product ** (1.0 / len(ratios)))


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of `k` samples drawn from `n`, of which `c` are right, is right."""
    if n - c < k:
        return 1.0
    product = 1.0
    for i in range(n - c + 1, n + 1):
        product *= 1.0 - k / i
    return 1.0 - product


def pass_at_k_results(entries: Entries, k_values: Iterable[int]) -> dict[str, Any]:
    """What KernelBench writes to pass_at_k_results.json: `metadata`, `problems` and `averages`.

    A sample is right if it is correct and compiled. A `k` above a problem's number of samples is lowered to it and stored under
    that name, so such a problem adds nothing to the average of `k`, whose denominator is all problems. Raises ScorerError.
    """
    wanted = list(k_values)
    problems: dict[str, dict[str, float]] = {}
    for key, samples in checked(entries).items():
        right = sum(1 for sample in samples if sample["correctness"] and sample["compiled"])
        row: dict[str, float] = {"total_samples": len(samples), "correct_samples": right}
        for k in wanted:
            used = min(k, len(samples))
            if used > 0:
                row[f"pass@{used}"] = pass_at_k(len(samples), right, used)
        problems[key] = row
    having = {k: [row[f"pass@{k}"] for row in problems.values() if f"pass@{k}" in row] for k in wanted}
    metadata: dict[str, int] = {
        "total_problems": len(problems),
        "problems_with_samples": sum(1 for row in problems.values() if row["total_samples"] > 0),
        "total_evaluated_samples": int(sum(row["total_samples"] for row in problems.values())),
        "total_correct_samples": int(sum(row["correct_samples"] for row in problems.values())),
        **{f"pass@{k}_count": len(found) for k, found in having.items()},
    }
    averages = {f"avg_pass@{k}": sum(found) / len(problems) for k, found in having.items() if found and problems}
    return {"metadata": metadata, "problems": problems, "averages": averages}


def checked(entries: Any) -> dict[str, list[dict[str, Any]]]:
    """The entries of an eval_results.json if they are that, else ScorerError naming what is wrong."""
    if not isinstance(entries, Mapping):
        raise ScorerError("the results are no JSON object of problem ids; pass KernelBench's eval_results.json.")
    for key, samples in entries.items():
        if not str(key).lstrip("-").isdigit():
            raise ScorerError(f"'{key}' is no problem id; the keys of eval_results.json must be whole numbers.")
        if not isinstance(samples, list):
            raise ScorerError(f"problem {key} holds no list of samples; KernelBench's older layout must be converted: put it into a list.")
        for sample in samples:
            lacking = [name for name in ("sample_id", "compiled", "correctness", "runtime")
                       if not isinstance(sample, Mapping) or name not in sample]
            if lacking:
                raise ScorerError(f"a sample of problem {key} lacks {', '.join(lacking)}; check that the file is KernelBench's.")
    return {str(key): samples for key, samples in entries.items()}


@dataclass(frozen=True)
class CompatScore:
    """KernelBench's analysis of one run. Rates and fast_p as its denominators give them; NaN stays NaN."""

    run_name: str
    level: int
    hardware: str
    total_count: int  # problems of the level
    total_eval: int  # problem ids in the results, whatever their level
    compiled_count: int
    correct_count: int
    geo_mean_speedup: float
    fast_p: Mapping[str, float]
    aligned: int  # problems of the level that the baseline has: fast_p's denominator
    pass_at_k: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = field(default=())  # what a reader would stumble over, ours

    @property
    def compilation_rate(self) -> float:
        """Compiled ones over the level."""
        return self.compiled_count / self.total_count

    @property
    def correctness_rate(self) -> float:
        """Correct ones over the level."""
        return self.correct_count / self.total_count

    def to_kernelbench(self) -> dict[str, Any]:
        """The dictionary KernelBench's analysis returns, its keys and no others."""
        found = {"run_name": self.run_name, "level": self.level, "hardware": self.hardware, "total_count": self.total_count,
                 "total_eval": self.total_eval, "compiled_count": self.compiled_count, "correct_count": self.correct_count,
                 "compilation_rate": self.compilation_rate, "correctness_rate": self.correctness_rate,
                 "geo_mean_speedup": self.geo_mean_speedup, "fast_p": dict(self.fast_p)}
        if self.pass_at_k is not None:
            found["pass_at_k"] = {"metadata": self.pass_at_k.get("metadata"), "averages": self.pass_at_k.get("averages")}
        return found

    def to_json(self) -> dict[str, Any]:
        """The same with figures that JSON cannot hold as null, and with `aligned` and `notes` beside."""
        finite = self.geo_mean_speedup if math.isfinite(self.geo_mean_speedup) else None
        return {**self.to_kernelbench(), "geo_mean_speedup": finite, "aligned": self.aligned, "notes": list(self.notes)}


def analyze(names: Mapping[int, str], entries: Entries, baseline: Mapping[str, Any], *, level: int, run_name: str = "",
            hardware: str = "", pass_results: Mapping[str, Any] | None = None) -> CompatScore:
    """KernelBench's greedy analysis: sample 0 of each problem against a baseline.

    `names` holds the level's problems, id to name, as the baseline spells them; `entries` is eval_results.json; `baseline` the level's
    part of a baseline file, name to statistics. A problem that the baseline lacks leaves both sides, one that the results lack counts as
    failed. KernelBench crashes on a baseline entry that is null; here such a problem leaves both sides and is noted.
    Raises ScorerError for results that are none and for two samples 0 of one problem.
    """
    if not names:
        raise ScorerError("the level has no problems; choose one that has.")
    known = checked(entries)
    first: dict[str, Mapping[str, Any]] = {}
    for key, samples in known.items():
        zeros = [sample for sample in samples if sample["sample_id"] == 0]
        if len(zeros) > 1:
            raise ScorerError(f"problem {key} has two samples 0; remove one of them from eval_results.json.")
        if zeros:
            first[key] = zeros[0]
    correct: list[bool] = []
    means: list[float] = []
    times: list[float] = []
    null: list[int] = []
    for number in sorted(names):
        if names[number] not in baseline:
            continue
        entry = baseline[names[number]]
        if entry is None:
            null.append(number)
            continue
        result = first.get(str(number), {"correctness": False, "runtime": -1.0})
        correct.append(bool(result["correctness"]))
        times.append(result["runtime"])
        means.append(_mean(entry, names[number]))
    count = len(correct)
    fast = {str(p): fastp(correct, means, times, count, p) for p in THRESHOLDS}
    mean = geometric_mean_speed_ratio_correct_only(correct, means, times, count)
    return CompatScore(
        run_name=run_name, level=level, hardware=hardware, total_count=len(names), total_eval=len(known),
        compiled_count=sum(1 for result in first.values() if result["compiled"]),
        correct_count=sum(1 for result in first.values() if result["correctness"]),
        geo_mean_speedup=mean, fast_p=fast, aligned=count, pass_at_k=pass_results,
        notes=tuple(_notes(names, known, first, null, mean, count)),
    )


def _mean(entry: Any, name: str) -> float:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("mean"), (int, float)):
        raise ScorerError(f"the baseline's entry '{name}' has no mean; pass a file in KernelBench's layout.")
    return float(entry["mean"])


def _notes(names: Mapping[int, str], known: Mapping[str, Any], first: Mapping[str, Mapping[str, Any]], null: Sequence[int], mean: float,
           count: int) -> Iterable[str]:
    strangers = sorted(int(key) for key in known if int(key) not in names)
    untimed = sorted(int(key) for key, result in first.items() if result["correctness"] and not result["runtime"] > 0)
    if not count:
        yield "no problem's name is in the baseline, so every fast_p is 0; KernelBench says nothing of it"
    elif count < len(names):
        yield f"{len(names) - count} problems are not in the baseline and leave fast_p's denominator, which is {count}"
    if null:
        yield f"the baseline's entry is null for {_listed(null)}: KernelBench crashes on it, here it counts as not in the baseline"
    if strangers:
        yield f"results of problems that the level does not have raise the rates: {_listed(strangers)}"
    if untimed:
        yield f"correct but not timed, which bends the geometric mean and lowers fast_0: {_listed(untimed)}"
    if math.isnan(mean):
        yield "the geometric mean is NaN, because an odd number of correct problems was not timed"
    late = sorted(int(key) for key in known if key not in first)
    if late:
        yield f"only sample 0 is scored, and these have none: {_listed(late)}"


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:12]))
    return shown if len(numbers) <= 12 else f"{shown} and {len(numbers) - 12} more"
