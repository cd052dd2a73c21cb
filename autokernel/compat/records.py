"""A run directory's records on disk: eval_results.json in KernelBench's layout, and what we know beyond it in a file of our own."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autokernel.compat.own_file import OURS, SCHEMA
from autokernel.compat.result import Judged, KernelExecResult
from autokernel.compat.single import Verified
from autokernel.durable import replace_file
from autokernel.errors import StorageError, UsageError
from kernelbench_bridge.run_directory import (
    EVAL_RESULTS,
    PASS_AT_K,
    RESULT_KEYS,
    SampleFile,
    eval_results_text,
    read_eval_results,
    read_json,
    serializable,
)
from scorer.kernelbench import pass_at_k_results

LEVEL_IDS = "level_ids"  # the one condition that may change: a denominator, not something that figures depend on


class RunRecords:
    """The records of one run directory. Each addition replaces both files in one step, so a kill loses at most the last sample."""

    def __init__(self, folder: Path, conditions: Mapping[str, Any], results: dict[str, list[dict[str, Any]]],
                 ours: dict[str, dict[str, Any]]) -> None:
        self.folder, self.conditions, self.results, self.ours = folder, dict(conditions), results, ours

    @classmethod
    def open(cls, folder: Path, conditions: Mapping[str, Any], *, fresh: bool = False, append: bool = False) -> RunRecords:
        """The records so far. `conditions` are what figures depend on: level, precision, device model, torch, trials and so on.

        `fresh` puts what is there aside; `append` adds to results that another program wrote. Raises UsageError where the records were
        made under other conditions or by another program, BridgeError for a file that is half written or none; both are left alone.
        """
        results_path, ours_path = folder / EVAL_RESULTS, folder / OURS
        if fresh:
            for path in (results_path, ours_path, folder / PASS_AT_K):
                _put_aside(path)
        results = read_eval_results(results_path) if results_path.exists() else {}
        if not ours_path.exists():
            if results and not append:
                count = sum(map(len, results.values()))
                raise UsageError(f"'{results_path}' holds {count} results that another program wrote; it is left alone. "
                                 "Pass --append to add the missing samples to it, or --fresh to put it aside and begin anew.")
            return cls(folder, conditions, results, {})
        whole = read_json(ours_path)
        if not isinstance(whole, dict) or whole.get("schema") != SCHEMA:
            raise UsageError(f"'{ours_path}' is not of this version; it is left alone. Pass --fresh to put it aside and begin anew.")
        before = whole.get("conditions", {})
        for name, value in conditions.items():
            if name != LEVEL_IDS and before.get(name) != value:
                raise UsageError(f"this run was evaluated with {name} {before.get(name)}, and now it is {value}. "
                                 "Use the same, or pass --fresh to put the old results aside and begin anew.")
        return cls(folder, conditions, results, whole.get("samples", {}))

    def has(self, problem_id: int, sample_id: int) -> bool:
        """Whether the sample has a record. KernelBench asks for the problem alone and so never comes to a second sample."""
        return any(entry["sample_id"] == sample_id for entry in self.results.get(str(problem_id), []))

    def wants_ratio(self, sample: SampleFile) -> bool:
        """Whether the sample is right and was timed, and the judge has not been asked about it."""
        rows = (entry for entry in self.results.get(str(sample.problem_id), []) if entry["sample_id"] == sample.sample_id)
        right = any(entry.get("correctness") and float(entry.get("runtime", -1.0)) > 0 for entry in rows)
        return right and "verified" not in self.ours.get(f"{sample.problem_id}/{sample.sample_id}", {})

    def add_ratio(self, sample: SampleFile, verified: Verified) -> None:
        """Put the judge's word on a sample on disk. Raises StorageError."""
        self.ours.setdefault(f"{sample.problem_id}/{sample.sample_id}", {})["verified"] = verified.to_json()
        self._write_ours()

    def add(self, sample: SampleFile, record: KernelExecResult, found: Judged | None) -> None:
        """Put a sample's record on disk. Raises StorageError."""
        key = str(sample.problem_id)
        entry = {"sample_id": sample.sample_id, **{name: getattr(record, name) for name in RESULT_KEYS[1:]}}
        entry["metadata"] = serializable(record.metadata)
        others = [old for old in self.results.get(key, []) if old["sample_id"] != sample.sample_id]
        self.results[key] = sorted([*others, entry], key=lambda old: int(old["sample_id"]))
        self.ours[f"{key}/{sample.sample_id}"] = _beyond(record, found)
        self._write_ours()
        replace_file(self.folder / EVAL_RESULTS, eval_results_text(self.results).encode("utf-8", "backslashreplace"))

    def _write_ours(self) -> None:
        whole = {"schema": SCHEMA, "conditions": self.conditions, "samples": self.ours}
        replace_file(self.folder / OURS, json.dumps(whole, indent=1).encode())

    def write_pass_at_k(self, k_values: Sequence[int]) -> dict[str, Any]:
        """Write pass_at_k_results.json and give what it says. Raises StorageError, ScorerError."""
        found = pass_at_k_results(self.results, k_values)
        replace_file(self.folder / PASS_AT_K, json.dumps(found, indent=2).encode())
        return found


def _beyond(record: KernelExecResult, found: Judged | None) -> dict[str, Any]:
    """What KernelBench's entry does not say of a sample."""
    timed = record.runtime > 0
    beyond: dict[str, Any] = {"times": "unverified" if timed else "none"}
    if found is not None:
        beyond |= {"note": found.note, "outcome": found.outcome, "draws": found.draws, "seconds": dict(found.seconds),
                   "ref_runtime": found.result.ref_runtime, "ref_runtime_stats": found.result.ref_runtime_stats,
                   "missing_package": found.missing_package, "problem_fails": found.problem_fails}
    return beyond


def _put_aside(path: Path) -> None:
    if not path.exists():
        return
    aside = path.with_name(f"{path.stem}.{time.strftime('%Y%m%dT%H%M%S')}{path.suffix}")
    try:
        path.rename(aside)
    except OSError as error:
        raise StorageError(f"cannot put '{path}' aside: {error.strerror}. Check the permissions.") from error
