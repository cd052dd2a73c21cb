"""What the card and the metadata say of an evaluation: plain values from its record."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MACHINE = ("device_name", "cpu", "cpus", "threads", "driver", "cuda", "torch", "triton", "python", "sandbox", "freeze")


@dataclass(frozen=True)
class Speedup:
    """One comparison: how many times faster than the opponent, with the interval's ends."""

    against: str
    speedup: float
    low: float
    high: float
    confidence: float
    pairs: int
    protocol: str
    candidate_ms: float
    opponent_ms: float
    least: float | None = None  # the lower end should the kernel's process have left out all else that a window holds


def speedups(evaluation: Mapping[str, Any]) -> list[Speedup]:
    """The comparisons with what users have, "eager" and "compile", in the record's order."""
    return [Speedup(c["against"], c["speedup"], c["low"], c["high"], c["confidence"], c["pairs"], c["candidate"]["protocol"],
                    statistics.median(c["candidate"]["samples_ms"]), statistics.median(c["opponent"]["samples_ms"]),
                    c.get("verified_low"))
            for c in evaluation["comparisons"] if c["against"] in ("eager", "compile")]


def machine(evaluation: Mapping[str, Any]) -> dict[str, str]:
    """The machine's facts that a reader of a time needs, those that the record has."""
    found = evaluation["machine"]
    return {name: str(found[name]) for name in _MACHINE if found.get(name) not in (None, "")}


def record(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it is shipped: without the candidate's own text and the broker's breakdown."""
    return {name: value for name, value in evaluation.items() if name not in ("log", "breakdown_s")}


def summary(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """The few facts for metadata.json."""
    return {"problem": evaluation["problem"], "problem_hash": evaluation["problem_hash"], "candidate": evaluation["candidate"],
            "builder": evaluation["builder"], "rules": evaluation["rules"], "precision_class": evaluation["precision_class"],
            "judged": evaluation["created"],
            "speedup": {s.against: [round(v, 4) for v in (s.low, s.speedup, s.high)] for s in speedups(evaluation)}}
