"""From ledgers of runs to a level's score."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autokernel.cli.layout import ids, wrapped
from autokernel.errors import UsageError
from autokernel.records import PROBLEM_FAULTS, WEAK

if TYPE_CHECKING:
    from autokernel.ledger import LedgerContents
    from autokernel.records import Evaluation
    from autokernel.trials import Outcome, RunHeader
    from scorer import LevelScore, Merged, OpponentScore, ProblemResult, Shard


@dataclass(frozen=True)
class Scored:
    """A level's score and the runs it was put together from."""

    level: int
    merged: Merged
    score: LevelScore

    @property
    def marks(self) -> str:
        """What a reader must know before comparing this score with another one; empty where there is nothing."""
        return "embedded problems, not KernelBench's: compare with no published score" if self.merged.origin == "embedded" else ""

    @property
    def not_run(self) -> tuple[str, ...]:
        """The level's problems that these runs have not come to, or were not asked for; the scorer counts them as missing."""
        seen = {result.uid for result in self.merged.results}
        return tuple(uid for names in self.score.uids.values() for uid in names if uid not in seen)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `not_run` is a part of the missing ones."""
        merged = self.merged
        return {"level": self.level, "origin": merged.origin, "marks": self.marks, "rules": merged.rules, "device": merged.device,
                "torch": merged.torch, "precision": merged.precision, "runs": list(merged.shards), "replaced": list(merged.replaced),
                "differences": list(merged.differences), "not_run": list(self.not_run), **self.score.to_json()}


def score(runs: Mapping[str, LedgerContents]) -> Scored:
    """The score of one level from the ledgers of its runs, by name. Raises UsageError for runs of different levels, ScorerError besides."""
    from kernelbench_bridge import parse_ids
    from scorer import merge, score_level

    headers = {name: _header(name, contents) for name, contents in runs.items()}
    levels = {(header.options.get("level"), header.options.get("ids")) for header in headers.values()}
    if len(levels) != 1:
        listed = ", ".join(f"{name}: level {header.options.get('level')} ({header.options.get('ids')})" for name, header in headers.items())
        raise UsageError(f"these runs are not of one level: {listed}. Pass runs of one level and one version of its problems.")
    level, ids = levels.pop()
    if not isinstance(level, int) or not isinstance(ids, str):
        raise UsageError(f"the run '{next(iter(runs))}' does not say which level it is of. Pass runs that `kb run` made.")
    merged = merge([_shard(name, headers[name], contents) for name, contents in runs.items()])
    return Scored(level, merged, score_level([f"L{level}/{number}" for number in parse_ids(ids)], merged.results))


def read_runs(folders: Sequence[Path]) -> dict[str, LedgerContents]:
    """The ledgers of run folders, by path. Raises UsageError where a folder is named twice or holds no run, StorageError besides."""
    from autokernel import ledger

    names = [str(folder) for folder in folders]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"'{twice}' is named twice. Pass each run once.")
    return {str(folder): ledger.read(folder) for folder in folders}


def _header(name: str, contents: LedgerContents) -> RunHeader:
    if contents.header is None:
        raise UsageError(f"the run in '{name}' has no first line yet. Run it first: autokernel kb run --out DIR.")
    return contents.header


def _shard(name: str, header: RunHeader, contents: LedgerContents) -> Shard:
    from autokernel.rules import PRECISIONS
    from scorer import Shard

    kind, _, model = header.device.partition(" ")
    precision = next((name for name in PRECISIONS if header.rules.endswith(f"+{name}")), "fp32")
    champions = contents.champions()
    results = [_result(outcome, champions[uid].evaluation if uid in champions else None, contents)
               for uid, outcome in contents.outcomes.items()]
    return Shard(name=name, device=model or kind, torch=header.torch, rules=header.rules, results=results, origin=header.origin,
                 machine=dict(header.machine), precision=precision)


def _result(outcome: Outcome, champion: Evaluation | None, contents: LedgerContents) -> ProblemResult:
    from scorer import ProblemResult

    trials = contents.of(outcome.problem)
    last = trials[-1].evaluation if trials else None
    labels = champion.labels if champion is not None else last.labels if last else ()
    make = functools.partial(ProblemResult, uid=outcome.problem, reason=outcome.reason, problem_hash=last.problem_hash if last else "",
                             created=last.created if last else "", weak=any(label.startswith(WEAK) for label in labels))
    if outcome.status == "champion" and champion is not None:
        timed = champion.comparisons
        return make(status="correct", speedup={c.against: c.speedup for c in timed},
                    interval={c.against: (max(c.low, 0.0), c.high) for c in timed}, no_baseline=_no_baseline(champion))
    if outcome.status == "unjudged":  # PROBLEM_FAULTS are the scorer's words too
        return make(status=next((word for word in PROBLEM_FAULTS if outcome.reason.startswith(word)), "missing"))
    return make(status="failed" if outcome.status == "none" else "missing")


def _no_baseline(champion: Evaluation) -> tuple[str, ...]:
    """Opponents that cannot run the reference at all, by their label `NAME baseline: none`."""
    return tuple(name for name in ("eager", "compile") if any(label.startswith(f"{name} baseline: none") for label in champion.labels))


def score_lines(scored: Scored) -> Iterator[str]:
    """The score as text for people."""
    result, merged = scored.score, scored.merged
    yield f"Score of level {scored.level}: {merged.rules}, {merged.device}, torch {merged.torch}"
    if scored.marks:
        yield f"  ({scored.marks})"
    counted = groups(scored)
    counts = ", ".join(f"{len(names)} {label}" for label, names in counted.items())
    right = len(result.uids["correct"])
    yield from wrapped(f"coverage  {result.coverage:.1%} of {result.level_size} problems have a verdict ({counts})", "  ", " " * 12)
    yield f"  correct   {', '.join(_share(right, whole, label) for whole, label in _wholes(result))}"
    yield from (line for label, names in counted.items() if label != "correct" for line in wrapped(f"{label}: {ids(names)}", "  ", "    "))
    if result.weak:
        yield from wrapped(f"weak (an answer without work passes on their own inputs): {ids(result.weak)}", "  ", "    ")
    if result.opponents:
        yield f"  {'fast_p above':<22}" + "".join(f"{threshold:>8.1f}" for threshold in next(iter(result.opponents.values())).fast_p)
    for opponent in result.opponents.values():
        yield from _opponent_lines(opponent, result)
    if len(merged.shards) > 1:
        yield from wrapped(f"put together from {', '.join(merged.shards)}", "  ", "    ")
    yield from (line for text in (*merged.replaced, *merged.differences) for line in wrapped(text, "  ", "    "))


def groups(scored: Scored) -> dict[str, list[str]]:
    """Uids by what to call them, none empty. The scorer's missing ones are those tried in vain here, and those never tried."""
    never = set(scored.not_run)
    found: dict[str, list[str]] = {}
    for status, names in scored.score.uids.items():
        for uid in names:
            label = "not in this run" if uid in never else "tried, not judged" if status == "missing" else status
            found.setdefault(label, []).append(uid)
    if len(scored.merged.shards) > 1 and "not in this run" in found:
        found["not in these runs"] = found.pop("not in this run")
    return found


def _wholes(result: LevelScore) -> list[tuple[int, str]]:
    """What shares are of: the level, or where problems are unscorable the rest of it and then all."""
    if result.denominator == result.level_size:
        return [(result.level_size, f"of {result.level_size}")]
    return [(result.denominator, f"of {result.denominator} scorable"), (result.level_size, f"of all {result.level_size}")]


def _opponent_lines(opponent: OpponentScore, result: LevelScore) -> Iterator[str]:
    name = {"best": "the better of both"}.get(opponent.against, opponent.against)
    mean = "none timed" if opponent.geometric_mean is None else f"geometric mean {opponent.geometric_mean:.3f}x over {opponent.timed}"
    yield f"  against {name}: {mean}"
    rates = [opponent.fast_p, opponent.fast_p_whole_level]
    for shares, (_, label) in zip(rates, _wholes(result), strict=False):
        yield _rates(label, shares)
    if result.weak:
        yield _rates(f"without {len(result.weak)} weak", opponent.fast_p_without_weak)
    yield _rates("whole interval above", opponent.fast_p_low)
    if opponent.untimed:
        yield from wrapped(f"right but not timed: {ids(opponent.untimed)}", "    ", "      ")


def _rates(label: str, shares: Mapping[float, float | None]) -> str:
    return f"    {label:<20}" + "".join("       -" if share is None else f"{share:>8.1%}" for share in shares.values())


def _share(part: int, whole: int, label: str) -> str:
    return f"{part} {label}" + (f" ({part / whole:.1%})" if whole else "")
