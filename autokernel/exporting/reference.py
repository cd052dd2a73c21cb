"""The problem's Model as a module of its own: the fallback in torch for arguments outside what was verified."""

from __future__ import annotations

import ast

_INPUTS = ("get_inputs", "get_init_inputs")


def reference_text(source: str) -> str:
    """The statements of the problem's text that class Model reaches by name, in its order, without those that draw inputs."""
    tree = ast.parse(source)
    defined: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _defines(statement):
            defined.setdefault(name, []).append(statement)
    wanted: list[ast.stmt] = []
    names = ["Model"]
    while names:
        for found in defined.get(names.pop(), []):
            if found not in wanted:
                wanted.append(found)
                names += [n.id for n in ast.walk(found) if isinstance(n, ast.Name)]
    kept = [statement for statement in tree.body if statement in wanted]
    return "\n\n".join(ast.get_source_segment(source, statement) or ast.unparse(statement) for statement in kept) + "\n"


def _defines(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [(a.asname or a.name).split(".")[0] for a in statement.names]
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [] if statement.name in _INPUTS else [statement.name]
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    return []
