"""The file beside eval_results.json that holds what KernelBench's layout has no place for. Its reading side, light enough for a score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernelbench_bridge.run_directory import read_json

OURS = "autokernel_eval.json"  # conditions of the run, and for each sample what KernelBench does not record
SCHEMA = 1


def read_ours(folder: Path) -> dict[str, Any]:
    """Our file of a run directory: `conditions` and `samples`, empty where there is none or it is another program's."""
    path = folder / OURS
    if not path.exists():
        return {}
    whole = read_json(path)
    return whole if isinstance(whole, dict) and whole.get("schema") == SCHEMA else {}
