"""The winner's text as a module of the kernel: its own words, `native` bound to the shipped library, search leftovers removed."""

from __future__ import annotations

import ast

_LEFT_OUT = ("CUDA_SRC", "CPP_SRC", "CUDA_FLAGS", "CPP_FLAGS", "SIGNATURES", "SPACE", "OP")


def winner_module(source: str, native: str | None) -> str:
    """`source` with `import native` made relative to the module named `native`, and without the literals that only builds and searches
    read, where nothing in the file refers to them. Everything else stays as it was judged, launch parameters included.
    """
    tree = ast.parse(source)
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    edits: list[tuple[int, int, str]] = []  # first and last line, from 1, and what stands there instead
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in _LEFT_OUT and name not in used:
                edits.append((node.lineno, node.end_lineno or node.lineno, ""))
    for found in ast.walk(tree):
        if native is not None and isinstance(found, ast.Import) and any(alias.name == "native" for alias in found.names):
            edits.append((found.lineno, found.end_lineno or found.lineno, " " * found.col_offset + _relative(found, native)))
        elif native is not None and isinstance(found, ast.ImportFrom) and found.module == "native" and not found.level:
            taken = ", ".join(_alias(alias) for alias in found.names)
            edits.append((found.lineno, found.end_lineno or found.lineno, " " * found.col_offset + f"from .{native} import {taken}"))
    lines: list[str | None] = list(source.split("\n"))
    for first, last, text in edits:
        lines[first - 1:last] = [text or None] + [None] * (last - first)
    return "\n".join(line for line in lines if line is not None).strip("\n") + "\n"


def _relative(node: ast.Import, native: str) -> str:
    parts = []
    for alias in node.names:
        if alias.name == "native":
            parts.append(f"from . import {native} as {alias.asname or 'native'}")
        else:
            parts.append(f"import {_alias(alias)}")
    return "; ".join(parts)


def _alias(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name

