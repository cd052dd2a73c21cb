"""Puts triton_kernels/direct.py into a candidate's text: every kernel that it launches is looked up once."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import autokernel
from autokernel.errors import MissingOnMachine

FOLDER = "triton_kernels"


def with_direct_launches(text: str) -> str:
    """The candidate with `@direct` on the Triton kernels that it launches by name, and what that is before its first function."""
    tree = ast.parse(text)
    launched = {n.func.value.id for n in ast.walk(tree)
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript) and isinstance(n.func.value, ast.Name)}
    kernels = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in launched
               and any(ast.unparse(d) == "triton.jit" for d in n.decorator_list)]
    if not kernels:
        return text
    lines = text.split("\n")
    for kernel in reversed(kernels):
        lines.insert(kernel.decorator_list[0].lineno - 1, "@direct")
    first = next(n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)))
    place = min([first.lineno, *(d.lineno for d in first.decorator_list)]) - 1
    return "\n".join([*lines[:place], *_direct().split("\n"), "", "", *lines[place:]])


@functools.cache
def _direct() -> str:
    """The functions and classes of direct.py. Raises MissingOnMachine where this installation lacks it."""
    found = [path for root in autokernel.__path__ if (path := Path(root, FOLDER, "direct.py")).exists()]
    if not found:
        raise MissingOnMachine(f"{FOLDER}/direct.py is missing. Install autokernel again: its kernels were left out.")
    source = found[0].read_text("utf-8")
    parts = [n for n in ast.parse(source).body if isinstance(n, (ast.ClassDef, ast.FunctionDef))]
    return "\n\n\n".join(ast.get_source_segment(source, part) or "" for part in parts)
