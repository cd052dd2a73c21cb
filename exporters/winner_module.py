"""The winner's text as a module of the kernel: its own words, `native` bound to the shipped library, search leftovers removed."""

from __future__ import annotations

import ast

_LEFT_OUT = ("CUDA_SRC", "CPP_SRC", "CUDA_FLAGS", "CPP_FLAGS", "SIGNATURES", "SPACE", "OP")


def winner_module(source: str, native: str | None) -> str:
    """`source` with `import native` made relative to the module named `native`, and without the literals that only builds and searches
    read, where nothing in the file refers to them. Everything else stays as it was judged, launch parameters included.
    """
    source = source.replace("\r\n", "\n").replace("\r", "\n")  # as Python itself reads it
    tree = ast.parse(source)
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    edits: list[tuple[ast.stmt, str]] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in _LEFT_OUT and name not in used:
                edits.append((node, ""))
    for found in ast.walk(tree):
        if native is not None and isinstance(found, ast.Import) and any(alias.name == "native" for alias in found.names):
            edits.append((found, _relative(found, native)))
        elif native is not None and isinstance(found, ast.ImportFrom) and found.module == "native" and not found.level:
            edits.append((found, f"from .{native} import {', '.join(_alias(alias) for alias in found.names)}"))
    return _edited(source, edits).strip("\n") + "\n"


def _edited(source: str, edits: list[tuple[ast.stmt, str]]) -> str:
    """`source` with each statement replaced by its text; one that is replaced by nothing takes its lines along where it has them alone."""
    lines = source.encode("utf-8", "surrogatepass").split(b"\n")  # the tree counts columns in bytes
    for node, text in sorted(edits, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        before, after = lines[first][:node.col_offset], lines[last][node.end_col_offset:]
        if not text and not before.strip() and (not after.strip() or after.strip().startswith(b"#")):
            lines[first:last + 1] = []
        else:
            lines[first:last + 1] = [before + (text or "pass").encode() + after]
    return b"\n".join(lines).decode("utf-8", "surrogatepass")


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
