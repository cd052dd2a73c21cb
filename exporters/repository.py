"""The whole folder of an exported kernel: what is uploaded, and beside it nothing but the proof."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exporters.abi import abi_report
from exporters.benchmark_script import benchmark_script
from exporters.card import PLOT, RECORDS, bars, card, default_repo
from exporters.evidence import record, summary
from exporters.package import Kernel, variant_files
from exporters.plot import speedup_plot
from exporters.source_project import source_files

PROOF = "proof.json"
"""Stays local: it names this machine's second measurement, which differs from run to run."""


@dataclass(frozen=True)
class Sources:
    """What the repository is made from beside the kernel: by operation, the evaluation's record and the problem's text."""

    records: Mapping[str, Mapping[str, Any]]
    problems: Mapping[str, str]
    proof_rules: str  # what the loaded kernel was judged by


def repository_files(kernel: Kernel, sources: Sources, repo_id: str | None = None) -> dict[str, bytes]:
    """Every file by its path. Same kernel and records, same bytes."""
    reports = {o.name: abi_report(o.native.library) for o in kernel.operations if o.native is not None}
    named = repo_id or default_repo(kernel)
    evidence: dict[str, Any] = {"repo": named, "winners": {o.name: summary(sources.records[o.name]) for o in kernel.operations}}
    if reports:
        evidence["abi"] = reports
    variant = variant_files(kernel, evidence)
    files = {f"build/{kernel.variant}/{path}": data for path, data in variant.items()}
    files["README.md"] = card(kernel, sources.records, reports, named, sources.proof_rules).encode()
    files[PLOT] = speedup_plot(bars(kernel, sources.records), f"{kernel.name}: speedup by operation and shape").encode()
    files["benchmarks/benchmark.py"] = benchmark_script(kernel, sources.problems).encode("utf-8", "surrogatepass")
    for operation in kernel.operations:
        text = json.dumps(record(sources.records[operation.name]), indent=1, sort_keys=True)
        files[f"{RECORDS}/{operation.name}.json"] = (text + "\n").encode()
    if kernel.native:
        files |= {f"source/{path}": data for path, data in source_files(kernel, variant, files["README.md"]).items()}
    return dict(sorted(files.items()))
