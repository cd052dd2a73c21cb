"""KernelBench's run directories: names of files, and the texts of eval_results.json, pass_at_k_results.json, generation_config.yaml.

Nothing here writes: a caller gets the text and puts it in place in one step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelbench_bridge.errors import BridgeError
from kernelbench_bridge.origins.checkout import read_source

EVAL_RESULTS = "eval_results.json"
PASS_AT_K = "pass_at_k_results.json"
GENERATION_CONFIG = "generation_config.yaml"
RESULT_KEYS = ("sample_id", "compiled", "correctness", "metadata", "runtime", "runtime_stats")
LARGEST_JSON_BYTES = 1 << 30
_KERNEL = re.compile(r"level_([0-9]+)_problem_([0-9]+)_sample_([0-9]+)_kernel\.py")


class NotAProblemId(BridgeError, ValueError):
    """A key of the results that is no number."""


@dataclass(frozen=True, order=True)
class SampleFile:
    """One generated kernel in a run directory."""

    level: int
    problem_id: int
    sample_id: int
    path: Path

    def read(self) -> str:
        """Its text. Raises BridgeError where it is none."""
        return read_source(self.path)


def kernel_name(level: int, problem_id: int, sample_id: int) -> str:
    """Name of a sample's file: ids are not padded."""
    return f"level_{level}_problem_{problem_id}_sample_{sample_id}_kernel.py"


def prompt_name(level: int, problem_id: int, sample_id: int) -> str:
    """Name of the prompt that a sample was made with."""
    return f"level_{level}_problem_{problem_id}_sample_{sample_id}_prompt.txt"


def parse_kernel_name(name: str) -> tuple[int, int, int] | None:
    """(level, problem id, sample id) of a sample's file name, None for any other; padded ids are another name and so none."""
    match = _KERNEL.fullmatch(name)
    if match is None:
        return None
    found = (int(match[1]), int(match[2]), int(match[3]))
    return found if kernel_name(*found) == name else None


def fetch_kernel(folder: Path, level: int, problem_id: int, sample_id: int) -> str | None:
    """A sample's text, None where the run has none."""
    path = folder / kernel_name(level, problem_id, sample_id)
    return read_source(path) if path.exists() else None


def samples(folder: Path, level: int) -> tuple[tuple[SampleFile, ...], tuple[str, ...]]:
    """The level's samples in a run directory, by problem and sample, and a note for each file that looks like one and is none.

    Raises BridgeError (exit 2) where the folder cannot be read.
    """
    found: list[SampleFile] = []
    notes: list[str] = []
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise BridgeError(f"the run directory '{folder}' cannot be read ({error.strerror}); check the path.") from None
    others = 0
    for path in paths:
        ids = parse_kernel_name(path.name)
        if ids is None:
            if path.name.endswith("_kernel.py"):
                notes.append(f"{path.name} is left alone: its name is not level_L_problem_P_sample_S_kernel.py")
        elif ids[0] != level:
            others += 1
        else:
            found.append(SampleFile(*ids, path))
    if others:
        notes.append(f"{others} samples of other levels are left alone; a run directory's results are of one level")
    return tuple(sorted(found)), tuple(notes)


def read_json(path: Path) -> Any:
    """The JSON value in a file. Raises BridgeError (exit 2) that says whether it is absent, half written or not JSON."""
    try:
        if path.is_dir():
            raise BridgeError(f"'{path}' is a folder, and a JSON file is expected.")
        if path.stat().st_size > LARGEST_JSON_BYTES:
            raise BridgeError(f"'{path}' is larger than {LARGEST_JSON_BYTES >> 30} GB; check that it is KernelBench's.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BridgeError(f"'{path}' cannot be read ({error.strerror}); check the path.") from None
    except UnicodeDecodeError:
        raise BridgeError(f"'{path}' is not UTF-8 text; check that it is KernelBench's.") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise BridgeError(f"'{path}' is no whole JSON ({where}): half written, or another kind of file. It is left as it is.",
                          hint="Mend or move it, then run the same command again.") from None


def read_eval_results(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The results in an eval_results.json: problem id to samples. Raises BridgeError (exit 2) for anything that is not that."""
    whole = read_json(path)
    if not isinstance(whole, dict):
        raise BridgeError(f"'{path}' holds no object of problem ids; it is left as it is. Pass KernelBench's eval_results.json.")
    for key, entries in whole.items():
        _number(key, path)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) and "sample_id" in entry for entry in entries):
            raise BridgeError(f"'{path}' holds no list of samples for problem {key}; it is left as it is. "
                              "Pass KernelBench's eval_results.json.")
    return whole


def eval_results_text(results: Mapping[str, list[dict[str, Any]]]) -> str:
    """The text of eval_results.json: keys in order of their number, samples by id, indented by 4. Raises NotAProblemId."""
    ordered = sorted(results, key=lambda key: _number(key, Path(EVAL_RESULTS)))
    rows = {key: sorted(results[key], key=lambda entry: int(entry["sample_id"])) for key in ordered}
    return json.dumps(rows, indent=4)


def _number(key: str, path: Path) -> int:
    try:
        return int(key)
    except ValueError:
        raise NotAProblemId(f"'{key}' in '{path}' is no problem id; the file is left as it is. Its keys must be whole numbers.") from None


def serializable(value: Any) -> Any:
    """Metadata that JSON can hold: containers kept (tuples become lists), everything else that JSON has no word for as its text."""
    if isinstance(value, Mapping):
        return {key: serializable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [serializable(inner) for inner in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def read_generation_config(folder: Path) -> dict[str, Any]:
    """What a run's generation_config.yaml says, empty where there is none. Raises BridgeError (exit 2) for a file that is no mapping."""
    path = folder / GENERATION_CONFIG
    if not path.exists():
        return {}
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        found = None
    if not isinstance(found, dict):
        raise BridgeError(f"'{path}' is no YAML mapping; it is left as it is. Mend or remove it.")
    return found


def generation_config_text(options: Mapping[str, Any]) -> str:
    """The text of a generation_config.yaml."""
    import yaml

    return str(yaml.safe_dump(dict(options), sort_keys=True))
