"""Finds starters and reads their literals by syntax tree; none is ever imported."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import autokernel
from autokernel.errors import MissingOnMachine

FOLDERS = {"cpp": "cpp_kernels", "triton": "triton_kernels", "cuda": "cuda"}


@dataclass(frozen=True)
class Starter:
    """One starter file: its text and the literals OP, PARAMS, SPACE, SHAPE."""

    name: str
    text: str
    op: str
    params: Mapping[str, Any]
    space: Mapping[str, list[Any]]
    shape: Mapping[str, Any]


@functools.cache
def starters(backend: str) -> Mapping[str, Starter]:
    """The starters of a backend ("cpp", "triton", "cuda") by file name; empty where the folder is not there."""
    found: dict[str, Starter] = {}
    for root in autokernel.__path__:
        for path in sorted(Path(root, FOLDERS[backend]).glob("*.py")):
            text = path.read_text("utf-8")
            values = _literals(text)
            if "OP" in values:
                found.setdefault(path.stem, Starter(path.stem, text, values["OP"], values.get("PARAMS", {}), values.get("SPACE", {}),
                                                    values.get("SHAPE", {})))
    return found


def starter(backend: str, name: str) -> Starter:
    """One starter. Raises MissingOnMachine where this installation lacks it."""
    try:
        return starters(backend)[name]
    except KeyError:
        raise MissingOnMachine(f"the {backend} starter '{name}' is missing. Install autokernel again: its kernels were left out.") from None


def _literals(text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return values
