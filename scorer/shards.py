"""Merging runs that share out one level: the same device model, rules, torch and precision, on as many machines as one likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scorer.errors import ScorerError
from scorer.results import MISSING, ProblemResult

EMBEDDED = "embedded"  # the origin whose problems are not KernelBench's


@dataclass(frozen=True)
class Shard:
    """One run's results, and what they depend on."""

    name: str  # how people know it, e.g. the run's folder
    device: str  # model, e.g. "NVIDIA H200"
    torch: str  # version
    rules: str  # name and version, e.g. "strict/1"
    results: Sequence[ProblemResult]
    precision: str = "fp32"
    origin: str = ""  # of the problems; "embedded" ones are never mixed with others
    machine: Mapping[str, object] = field(default_factory=dict)  # all that is known of it; differences are named, not refused


@dataclass(frozen=True)
class Merged:
    """Several shards as one run."""

    shards: tuple[str, ...]  # names, sorted
    device: str
    torch: str
    rules: str
    precision: str
    origin: str  # of the first shard by name
    results: tuple[ProblemResult, ...]  # one for each problem, by level and number
    replaced: tuple[str, ...]  # a line for each result that a newer one of the same problem replaced
    differences: tuple[str, ...]  # a line for each fact, such as the driver, in which the machines differ


def merge(shards: Sequence[Shard]) -> Merged:
    """One run out of several, the same whatever order they come in.

    Raises ScorerError if none is given, two share a name, they differ in device model, torch, rules or precision, embedded problems
    meet others, or two give one problem different hashes. Where several have a result for a problem, the newest by `created` counts,
    never the best, which would reward trying often; a tie goes to the last shard by name, and "missing" gives way to anything.
    """
    ordered = sorted(shards, key=lambda shard: shard.name)
    if not ordered:
        raise ScorerError("there are no runs to merge; pass at least one.")
    names = [shard.name for shard in ordered]
    if len(set(names)) < len(names):
        raise ScorerError(f"two runs have the same name among {', '.join(names)}; pass each run once.")
    _refuse_if_different("device model", {shard.name: shard.device for shard in ordered})
    _refuse_if_different("torch version", {shard.name: shard.torch for shard in ordered})
    _refuse_if_different("rules", {shard.name: shard.rules for shard in ordered})
    _refuse_if_different("precision", {shard.name: shard.precision for shard in ordered})
    _refuse_if_different("kind of problems",
                         {shard.name: EMBEDDED if shard.origin == EMBEDDED else "KernelBench" for shard in ordered})
    first = ordered[0]
    results, replaced = _newest(ordered)
    return Merged(tuple(names), first.device, first.torch, first.rules, first.precision, first.origin,
                  results, replaced, _differences(ordered))


def _refuse_if_different(what: str, by_shard: Mapping[str, str]) -> None:
    """ScorerError that names each shard's value, unless all have the same one."""
    if len(set(by_shard.values())) > 1:
        listed = ", ".join(f"{value} ({name})" for name, value in by_shard.items())
        raise ScorerError(f"these runs differ in {what} and cannot be one score: {listed}. "
                          "Score them apart, or run the missing part again on the same set-up.")


def _newest(ordered: Sequence[Shard]) -> tuple[tuple[ProblemResult, ...], tuple[str, ...]]:
    """The result that counts for each problem, and a line for each that does not."""
    claims: dict[str, list[tuple[str, ProblemResult]]] = {}
    for shard in ordered:
        for result in shard.results:
            claims.setdefault(result.uid, []).append((shard.name, result))
    chosen: list[ProblemResult] = []
    replaced: list[str] = []
    for uid in sorted(claims, key=_order):
        hashes = {name: result.problem_hash for name, result in claims[uid] if result.problem_hash}
        _refuse_if_different(f"the code of {uid}", hashes)
        # sorted() keeps the order of equals, and shards come by name: the last is the newest, ties by name.
        ranked = sorted(claims[uid], key=lambda claim: (claim[1].status != MISSING, claim[1].created))
        winner, result = ranked[-1]
        chosen.append(result)
        replaced += [f"{uid}: {name} ({loser.status}) gives way to {winner} ({result.status})"
                     for name, loser in ranked[:-1] if loser.status != MISSING]
    return tuple(chosen), tuple(replaced)


def _order(uid: str) -> tuple[str, int, str]:
    """Sort key that puts L1/9 before L1/10."""
    level, _, number = uid.rpartition("/")
    return (level, int(number), "") if number.isdecimal() else (level, 0, number)


def _differences(ordered: Sequence[Shard]) -> tuple[str, ...]:
    keys = sorted({key for shard in ordered for key in shard.machine})
    lines = []
    for key in keys:
        values = {shard.name: shard.machine.get(key) for shard in ordered}
        if any(value != values[ordered[0].name] for value in values.values()):
            lines.append(f"{key}: " + ", ".join(f"{value} ({name})" for name, value in values.items()))
    return tuple(lines)
