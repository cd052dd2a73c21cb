"""Both scores of a KernelBench run directory or results file: KernelBench's to the last digit, and the honest one. Needs no GPU and no
problem source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autokernel.compat.own_file import read_ours
from autokernel.errors import UsageError
from kernelbench_bridge.baselines import Baseline, read_baseline
from kernelbench_bridge.run_directory import EVAL_RESULTS, PASS_AT_K, read_eval_results, read_generation_config, read_json, samples
from kernelbench_bridge.selection import parse_ids
from scorer import LevelScore, ProblemResult, score_level
from scorer.kernelbench import LEVEL_SIZES, CompatScore, analyze

UNKNOWN = "not recorded"


@dataclass(frozen=True)
class RunScore:
    """One run against one baseline."""

    level: int
    compat: CompatScore
    honest: LevelScore
    verified: tuple[str, ...]  # uids whose speedup is the judge's ratio of windows; the others' are ratios of unverified means
    conditions: Mapping[str, str]  # what both were measured under, and what is not recorded
    forced: tuple[str, ...]  # mismatches that --force let pass
    exclusions: tuple[str, ...]  # a line for each group of results that the honest score does not count, and why

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"level": self.level, "kernelbench": self.compat.to_json(), "honest": self.honest.to_json(),
                "verified": list(self.verified), "times": "verified" if self.verified else "unverified",
                "conditions": dict(self.conditions), "forced": list(self.forced), "exclusions": list(self.exclusions)}


def is_kernelbench_run(path: Path) -> bool:
    """Whether a path is a KernelBench run directory or a results file, and no run of `kb run`."""
    return path.is_file() or (path / EVAL_RESULTS).exists()


def score_run(path: Path, baseline_path: Path, *, level: int | None = None, names: Mapping[int, str] | None = None,
              force: bool = False) -> RunScore:
    """Score a run directory or an eval_results.json against a baseline file.

    `level` is found in the run directory where it is not given. `names` are the level's problems (id to name with `.py`); without them the
    baseline's own names are taken. Raises UsageError, BridgeError, ScorerError; UsageError where run and baseline are of different cards or
    precisions, unless `force`.
    """
    folder = path if path.is_dir() else path.parent
    entries = read_eval_results(path / EVAL_RESULTS if path.is_dir() else path)
    ours = read_ours(folder) if path.is_dir() or path.name == EVAL_RESULTS else {}
    conditions = ours.get("conditions", {})
    chosen = _level(level, folder if path.is_dir() else None, conditions)
    baseline = read_baseline(baseline_path)
    facts, mismatches = _conditions(folder, entries, conditions, baseline, chosen)
    if mismatches and not force:
        raise UsageError(f"{mismatches[0]}. Pass a baseline of the same card and precision, or --force to compare them all the same.")
    passed = read_json(folder / PASS_AT_K) if path.is_dir() and (folder / PASS_AT_K).exists() else None
    level_names = _names(baseline, chosen, names, str(conditions.get("level_ids") or ""))
    compat = analyze(level_names, entries, baseline.level(chosen), level=chosen, run_name=folder.name,
                     hardware=facts["baseline card"], pass_results=passed)
    config = str(baseline.environment.get("config") or baseline_path.stem)
    opponent = "compile" if "compile" in config else "eager"
    results, verified, exclusions = _honest(entries, baseline.by_id(chosen), chosen, ours.get("samples", {}), sorted(level_names), opponent)
    uids = [f"L{chosen}/{number}" for number in sorted(level_names)]
    return RunScore(chosen, compat, score_level(uids, results), verified, facts, mismatches if force else (), exclusions)


def _level(asked: int | None, folder: Path | None, conditions: Mapping[str, Any]) -> int:
    if asked is not None:
        return asked
    if isinstance(conditions.get("level"), int):
        return int(conditions["level"])
    if folder is not None:
        stated = read_generation_config(folder).get("level")
        if isinstance(stated, int):
            return stated
        held = {number for number in LEVEL_SIZES if samples(folder, number)[0]}
        if len(held) == 1:
            return held.pop()
    raise UsageError("results do not say which level they are of; pass --level N.")


def _names(baseline: Baseline, level: int, given: Mapping[int, str] | None, level_ids: str) -> dict[int, str]:
    """The level's problems by id as KernelBench's local data set names them, `.py` included, so that its quirks come out alike.

    `level_ids` are those that our own evaluation recorded, "" where it recorded none: then the level is KernelBench's, whole.
    """
    if given:
        return dict(given)
    named = {number: name if name.endswith(".py") else f"{name}.py" for number, name in baseline.names(level).items()}
    ids = parse_ids(level_ids) if level_ids else range(1, LEVEL_SIZES[level] + 1) if level in LEVEL_SIZES else sorted(named)
    return {number: named.get(number, f"{number}_.py") for number in ids}


def _conditions(folder: Path, entries: Mapping[str, Any], ours: Mapping[str, Any], baseline: Baseline,
                level: int) -> tuple[dict[str, str], tuple[str, ...]]:
    cards = sorted({str(entry["metadata"]["hardware"]) for rows in entries.values() for entry in rows
                    if isinstance(entry.get("metadata"), Mapping) and entry["metadata"].get("hardware")})
    stated = read_generation_config(folder).get("precision")
    facts = {
        "run card": ", ".join(cards) or UNKNOWN, "baseline card": baseline.hardware(level) or UNKNOWN,
        "run precision": str(ours.get("precision") or stated or UNKNOWN),
        "baseline precision": str(baseline.environment.get("precision") or UNKNOWN),
        "run torch": str(ours.get("torch") or UNKNOWN), "baseline torch": str(baseline.environment.get("torch") or UNKNOWN),
        "run timing": str(ours.get("timing_method") or UNKNOWN),
        "baseline timing": str(baseline.environment.get("timing_method") or UNKNOWN),
    }
    wrong = [f"the run is of {what} {facts[f'run {what}']} and the baseline of {what} {facts[f'baseline {what}']}"
             for what in ("card", "precision")
             if UNKNOWN not in (facts[f"run {what}"], facts[f"baseline {what}"]) and facts[f"run {what}"] != facts[f"baseline {what}"]]
    return facts, tuple(wrong)


def _honest(entries: Mapping[str, Any], means: Mapping[int, Any], level: int, ours: Mapping[str, Any], ids: Sequence[int],
            opponent: str) -> tuple[list[ProblemResult], tuple[str, ...], tuple[str, ...]]:
    """Results for the honest score: sample 0 of each problem, the verified ratio where there is one, else the ratio of means."""
    results: list[ProblemResult] = []
    verified: list[str] = []
    left: dict[str, list[str]] = {}
    for number in ids:
        uid = f"L{level}/{number}"
        entry = next((row for row in entries.get(str(number), []) if row["sample_id"] == 0), None)
        if entry is None:
            if entries.get(str(number)):
                left.setdefault("have results, but none of sample 0", []).append(uid)
            continue
        beyond = ours.get(f"{number}/0", {})
        if beyond.get("problem_fails"):
            results.append(ProblemResult(uid, "reference fails", reason=str(beyond["problem_fails"])))
            continue
        if not (entry["correctness"] and entry["compiled"]):
            results.append(ProblemResult(uid, "failed", reason=str(entry.get("metadata", {}).get("correctness_issue", ""))[:200]))
            continue
        judged = beyond.get("verified") or {}  # against eager; against another opponent only its verdict counts
        speedup, interval, why = _speedup(entry, means.get(number), judged if opponent == "eager" else {"verdict": judged.get("verdict")})
        if why:
            left.setdefault(why, []).append(uid)
        if speedup is None:
            results.append(ProblemResult(uid, "failed", reason=why) if why == REFUSED else ProblemResult(uid, "correct", reason=why))
            continue
        if interval:
            verified.append(uid)
        results.append(ProblemResult(uid, "correct", {opponent: speedup}, {opponent: interval} if interval else {}))
    strangers = [key for key in entries if int(key) not in ids]
    if strangers:
        left["are of no problem of the level"] = [f"L{level}/{key}" for key in strangers]
    return results, tuple(verified), tuple(f"{_listed(uids)} {why}" for why, uids in left.items())


REFUSED = "are right under KernelBench's rules and refused by the judge"


def _speedup(entry: Mapping[str, Any], mean: Any, verified: Mapping[str, Any]) -> tuple[float | None, tuple[float, float] | None, str]:
    if str(verified.get("verdict", "")).startswith("refused"):
        return None, None, REFUSED
    if verified.get("speedup") and verified.get("interval"):
        low, high = verified["interval"]
        return float(verified["speedup"]), (max(float(low), 0.0), float(high)), ""
    runtime = float(entry["runtime"])
    if not runtime > 0:
        return None, None, "are right, but were not timed"
    if not isinstance(mean, Mapping) or not float(mean.get("mean") or 0) > 0:
        return None, None, "are right, but the baseline has no time for them"
    return float(mean["mean"]) / runtime, None, ""


def _listed(uids: Sequence[str]) -> str:
    return ", ".join(uids) if len(uids) <= 12 else f"{', '.join(uids[:12])} and {len(uids) - 12} more"


def run_score_lines(score: RunScore) -> Iterator[str]:
    """Both scores as text for people."""
    compat, honest = score.compat, score.honest
    yield f"KernelBench's score of level {score.level}: {compat.run_name}"
    yield f"  compiled  {compat.compiled_count} of {compat.total_count} ({compat.compilation_rate:.1%})"
    yield f"  correct   {compat.correct_count} of {compat.total_count} ({compat.correctness_rate:.1%})"
    yield f"  geometric mean {compat.geo_mean_speedup:.4f} over the correct ones (times unverified)"
    yield "  " + ", ".join(f"fast_{p} {value:.4g}" for p, value in compat.fast_p.items()) + f" of {compat.aligned}"
    if compat.pass_at_k and isinstance(compat.pass_at_k.get("averages"), Mapping):
        yield "  " + ", ".join(f"{name} {value:.4g}" for name, value in compat.pass_at_k["averages"].items())
    yield from (f"  note: {note}" for note in compat.notes)
    yield f"The honest score: {len(score.verified)} speedups verified by the judge's clock, the others ratios of unverified means"
    right = len(honest.uids["correct"])
    yield f"  correct   {right} of {honest.denominator}; {honest.coverage:.1%} of {honest.level_size} have a verdict"
    for opponent in honest.opponents.values():
        mean = "none timed" if opponent.geometric_mean is None else f"{opponent.geometric_mean:.4f} over {opponent.timed}"
        yield f"  geometric mean {mean}"
        yield "  " + ", ".join(f"fast_{p} {value or 0:.4g}" for p, value in opponent.fast_p.items()) + f" of {honest.denominator}"
    yield from (f"  left out: {line}" for line in score.exclusions)
    yield "  " + ", ".join(f"{name} {value}" for name, value in score.conditions.items())
    yield from (f"  FORCED: {line}" for line in score.forced)
