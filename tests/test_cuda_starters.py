"""CUDA C++ starters: literals that the search can read, and a build by AutoKernel's own builder (no GPU needed for either)."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from autokernel import builders

FOLDER = Path(__file__).resolve().parent.parent / "cuda"
STARTERS = sorted(path.stem for path in FOLDER.glob("*.py"))
CUDA = builders.get("cuda")


def literals(text: str) -> dict[str, Any]:
    """The module-level literal assignments of a file."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


def with_params(text: str, params: dict[str, int]) -> str:
    """The file with launch parameters baked into its C++ and its PARAMS, as the search does it."""
    for name, value in params.items():
        text, count = re.subn(rf"(constexpr int {name.upper()} = )\d+;", rf"\g<1>{value};", text)
        assert count == 1, name
    return re.sub(r"^PARAMS = \{.*?\}", f"PARAMS = {params!r}", text, count=1, flags=re.M)


@pytest.mark.parametrize("starter", STARTERS)
def test_starter_has_literals_and_every_parameter_is_a_line_of_its_source(starter: str) -> None:
    text = (FOLDER / f"{starter}.py").read_text(encoding="utf-8")
    facts = literals(text)
    assert builders.detect(text) == "cuda"
    assert facts["OP"] == starter
    assert facts["PARAMS"].keys() == facts["SPACE"].keys()
    for name, value in facts["PARAMS"].items():
        assert value in facts["SPACE"][name]
        assert f"constexpr int {name.upper()} = {value};" in facts["CUDA_SRC"]
    assert literals(with_params(text, facts["PARAMS"])) == facts


@pytest.mark.parametrize("starter", STARTERS)
def test_starter_builds(starter: str, tmp_path: Path) -> None:
    reason = CUDA.unavailable("cuda:0")
    if reason:
        pytest.skip(reason)
    result = CUDA.build((FOLDER / f"{starter}.py").read_text(encoding="utf-8"), tmp_path, None, 170.0)
    assert result.ok, result.digest
    assert result.artifact is not None and result.artifact.stat().st_size > 0


def test_matmul_refuses_a_tile_that_static_shared_memory_cannot_hold(tmp_path: Path) -> None:
    reason = CUDA.unavailable("cuda:0")
    if reason:
        pytest.skip(reason)
    text = with_params((FOLDER / "matmul.py").read_text(encoding="utf-8"), {"block_k": 32})
    result = CUDA.build(text, tmp_path, None, 170.0)
    assert not result.ok and "48 KiB" in result.digest, result.digest
