"""What the Hub allows a kernel's Python files to hold, checked on their syntax trees; nothing here runs them."""

from __future__ import annotations

import ast

from exporters.errors import refused

NAMED_BY_TORCH = ("torch", "triton")  # triton comes with torch and need not be declared
OWN = "native"  # becomes a relative import
COMPUTES = frozenset({"__future__", "abc", "collections", "contextlib", "copy", "dataclasses", "enum", "functools", "itertools", "math",
                      "numbers", "operator", "string", "types", "typing", "warnings"})  # of the standard library
_LOOKS = frozenset({"sys", "os", "gc", "inspect", "ctypes", "builtins", "importlib", "__builtins__", "__globals__", "__subclasses__",
                    "f_globals", "tb_frame", "__loader__", "__spec__", "__dict__", "__getattribute__", "attrgetter",
                    "methodcaller"})  # by which a kernel would learn where it runs
_RUNS = frozenset({"eval", "exec", "compile", "open", "globals", "vars"})  # as plain names; nn.Module.eval and torch.compile are others
_COMPILES = frozenset({"load_inline", "cpp_extension"})
_DYNAMIC = frozenset({"__import__", "import_module"})
_STATE_CALLS = frozenset({"setattr", "__setattr__", "register_buffer", "register_parameter", "lru_cache", "cache",
                          "__dict__", "append", "setdefault", "update", "insert", "extend"})


def check_python(source: str, what: str) -> None:
    """Refuse a winner's text that a Hub kernel may not hold. `what` names it in the message.

    Allowed imports are torch, triton and what computes of the standard library, anywhere in the file; nothing by which code could tell
    the evaluator from its users. Raises ExportError naming the rule.
    """
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        modules = _imports(node)
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in _COMPILES or any(part in _COMPILES for module in modules for part in module.split(".")):
            raise refused(f"{what} compiles C++ when it is imported (line {line}). "
                          "Use CUDA_SRC or CPP_SRC, which are compiled ahead.", rule="compiles-on-import")
        if name in _DYNAMIC:
            raise refused(f"{what} imports by name at run time ({name}), which nobody can check. "
                          "Use import statements.", rule="hub-imports")
        if name in _LOOKS or (isinstance(node, ast.Name) and name in _RUNS) or _reads_by_name(node):
            raise refused(f"{what} reaches for '{name or 'getattr'}' (line {line}), by which a kernel could tell who runs it. "
                          "Remove that, then judge it again.", rule="looks-around")
        if isinstance(node, ast.ImportFrom) and node.level:
            raise refused(f"{what} has a relative import (line {line}), and must be one file. "
                          "Put what it imports into it.", rule="hub-imports")
        for module in modules:
            top = module.partition(".")[0]
            if top not in COMPUTES and top not in (*NAMED_BY_TORCH, OWN):
                raise refused(f"{what} imports '{module}' (line {line}), and kernels on the Hub must import torch, triton, themselves "
                              "and what computes of the standard library alone. "
                              "Write what it takes from there into the candidate, then judge it again.", rule="hub-imports")
        if isinstance(node, ast.FunctionDef) and any(_ends_in(d, ("autotune", "heuristics")) for d in node.decorator_list):
            raise refused(f"{what} tunes itself when it runs: '{node.name}' (line {line}) has @triton.autotune or "
                          "@triton.heuristics. "
                          "Set the chosen configuration in the launch, then judge it again.", rule="baked-parameters")


def _reads_by_name(node: ast.AST) -> bool:
    """Whether it is getattr with a name that is only known when it runs, or one that looks around."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2):
        return False
    asked = node.args[1]
    return not (isinstance(asked, ast.Constant) and isinstance(asked.value, str) and asked.value not in _LOOKS)


def _imports(node: ast.AST) -> list[str]:
    """Dotted names of what an import statement takes."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _ends_in(decorator: ast.expr, names: tuple[str, ...]) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(called, ast.Attribute) and called.attr in names) or (isinstance(called, ast.Name) and called.id in names)


def keeps_state(source: str) -> bool:
    """Whether anything in the file but a constructor may store values that outlive a call: attributes, globals, memoised functions.

    Cautious: what cannot be told counts as keeping state. Writing into a tensor that the same function made does not.
    """
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    return any(_stores(function) for function in functions if function.name != "__init__")


def _stores(function: ast.FunctionDef) -> bool:
    fresh = _made_by_torch(function)
    for node in ast.walk(function):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return True
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            return True
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if not (isinstance(node.value, ast.Name) and node.value.id in fresh):
                return True
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in _STATE_CALLS:
            return True
    return False


def _root(node: ast.expr) -> str:
    """The name that an attribute's attributes begin with; empty where there is none. However long it is."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _made_by_torch(function: ast.FunctionDef) -> set[str]:
    """Names that the function assigns from calls of torch alone."""
    made: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            calls = isinstance(node.value, ast.Call) and _root(node.value.func) == "torch"
            for target in node.targets:
                if isinstance(target, ast.Name):
                    (made if calls else other).add(target.id)
    return made - other
