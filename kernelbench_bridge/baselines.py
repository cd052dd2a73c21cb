"""Baseline files in KernelBench's layout: level to problem's file name to statistics; ours say beside under what they were measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kernelbench_bridge.errors import BridgeError
from kernelbench_bridge.run_directory import read_json

OURS = "autokernel"  # key beside the levels; KernelBench reads over it
LEVEL = "level"


class NoBaseline(BridgeError, FileNotFoundError):
    """The file is not there."""


@dataclass(frozen=True)
class Baseline:
    """Times of a level's references. A statistic is None where the measurement failed."""

    levels: Mapping[str, Mapping[str, Any]]  # "level1" -> "19_ReLU.py" -> {"mean": ms, ...} or None
    environment: Mapping[str, Any] = field(default_factory=dict)  # precision, torch, device_name, ...; empty in KernelBench's

    def level(self, number: int) -> Mapping[str, Any]:
        """The level's entries, names as the file spells them. Raises BridgeError (exit 2) where the file lacks the level."""
        key = f"{LEVEL}{number}"
        if key not in self.levels:
            raise BridgeError(f"the baseline has no level {number}; it has {', '.join(self.levels) or 'none'}. Pass another file.")
        return self.levels[key]

    def by_id(self, number: int) -> dict[int, Any]:
        """The level's entries by problem id, names with and without `.py` alike."""
        return {found: entry for name, entry in self.level(number).items() if (found := problem_id(name)) is not None}

    def names(self, number: int) -> dict[int, str]:
        """The level's problem ids and the names that the file has for them."""
        return {found: name for name in self.level(number) if (found := problem_id(name)) is not None}

    def hardware(self, number: int) -> str:
        """The card that the level was measured on, "" where the file does not say."""
        named = self.environment.get("device_name")
        found = {str(entry["hardware"]) for entry in self.level(number).values() if isinstance(entry, Mapping) and entry.get("hardware")}
        return str(named) if named else sorted(found)[0] if found else ""


def problem_id(name: str) -> int | None:
    """The id that a problem's name begins with, None where it begins with none."""
    try:
        return int(name.split("_")[0])
    except ValueError:
        return None


def read_baseline(path: Path) -> Baseline:
    """A baseline file, KernelBench's or ours. Raises NoBaseline, or BridgeError (exit 2) for a file that is none."""
    if not path.exists():
        raise NoBaseline(f"there is no baseline file '{path}'; check the path, or make one: autokernel kb baseline --level N.")
    whole = read_json(path)
    if not isinstance(whole, dict) or not any(key.startswith(LEVEL) for key in whole):
        raise BridgeError(f"'{path}' holds no levels (level1, level2, ...); pass a baseline file in KernelBench's layout.")
    levels = {key: entries for key, entries in whole.items() if key.startswith(LEVEL)}
    wrong = next((key for key, entries in levels.items() if not isinstance(entries, dict)), None)
    if wrong is not None:
        raise BridgeError(f"'{path}' holds no problems below {wrong}; pass a baseline file in KernelBench's layout.")
    environment = whole.get(OURS)
    return Baseline(levels, environment if isinstance(environment, dict) else {})


def baseline_text(baseline: Baseline) -> str:
    """The text of a baseline file: KernelBench's layout, our facts under a key of their own."""
    whole: dict[str, Any] = {key: dict(entries) for key, entries in baseline.levels.items()}
    if baseline.environment:
        whole[OURS] = dict(baseline.environment)
    return json.dumps(whole, indent=4)


class NamedProblems(Protocol):
    """A data set, as far as `fetch_baseline_time` needs one."""

    def get_problem_by_id(self, problem_id: int) -> Any:
        """The problem, which has a `name`."""


def fetch_baseline_time(level_name: str, problem_id: int, dataset: NamedProblems, path: str | Path) -> Any:
    """The statistics of a problem in a baseline file, by its exact name, None where the file lacks that name.

    So a data set from the Hub, whose names have no `.py`, finds nothing in KernelBench's files. Raises NoBaseline (FileNotFoundError).
    """
    entries = read_baseline(Path(path)).levels.get(level_name, {})
    return entries.get(dataset.get_problem_by_id(problem_id).name)
