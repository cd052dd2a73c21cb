"""What a problem needs and this machine lacks, read from its text: packages, and models to download (level 4)."""

from __future__ import annotations

import ast
import importlib.util
import os

from kernelbench_bridge.origins.hub import cache_folder
from kernelbench_bridge.problem import Problem


def requirements(problem: Problem) -> tuple[str, ...]:
    """Names of what is missing: top-level packages ("einops"), then models ("model facebook/opt-125m"); empty if nothing is.

    An import inside `try` that handles failure is not required. A model is what a `from_pretrained` call names, by a string or by a
    module-level constant, unless it is a folder here or in the Hub's cache. Nothing is imported or executed. Source that is no
    valid Python gives nothing: judging it will say so.
    """
    try:
        tree = ast.parse(problem.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    packages = sorted(name for name in _required_packages(tree) if not _importable(name))
    models = sorted(name for name in _pretrained_models(tree) if not _downloaded(name))
    return (*packages, *(f"model {name}" for name in models))


def _required_packages(tree: ast.AST) -> set[str]:
    """Top-level names of all imports but relative ones and those whose failure the source handles itself."""
    found: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Try) and any(_handles_import_error(handler) for handler in node.handlers):
            waiting += [*node.orelse, *node.finalbody]
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
        waiting += ast.iter_child_nodes(node)
    return found


def _handles_import_error(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(name, ast.Name) and name.id in ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
               for name in caught)


def _importable(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # a module that is loaded but has no spec, such as __main__
        return True


def _pretrained_models(tree: ast.Module) -> set[str]:
    """First argument of every `X.from_pretrained(...)` call, where it is a string or a module-level string constant."""
    constants = {
        target.id: node.value.value
        for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "from_pretrained"):
            continue
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            found.add(first.value)
        elif isinstance(first, ast.Name) and first.id in constants:
            found.add(constants[first.id])
    return found


def _downloaded(model: str) -> bool:
    snapshots = cache_folder() / f"models--{model.replace('/', '--')}" / "snapshots"
    return os.path.isdir(model) or (snapshots.is_dir() and any(snapshots.iterdir()))
