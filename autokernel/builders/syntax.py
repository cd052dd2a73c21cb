"""Reads a candidate's syntax tree: whether it parses, what kind it is, whether its import compiles. Never runs it."""

from __future__ import annotations

import ast
import io
import tokenize

NO_MODEL = "the file defines no class ModelNew"  # in the words of the worker that imports it
NATIVE_LITERALS = {"CUDA_SRC": "cuda", "CPP_SRC": "cpp"}
_IMPORT_BUILDS = frozenset({"load_inline", "cpp_extension"})


class CandidateFault(ValueError):
    """The candidate's text is at fault; the message is for its author and names the line."""


def parse(source: str) -> ast.Module:
    """The syntax tree of a candidate's text. Raises CandidateFault, with line and reason, for text that is no Python."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source.encode("utf-8", "surrogatepass")).readline)
        if encoding not in ("utf-8", "utf-8-sig"):  # Python would read the file otherwise than we and its readers do
            raise CandidateFault(f"error: the file must be UTF-8, and its coding line says {encoding}.")
        return ast.parse(source)
    except CandidateFault:
        raise
    except SyntaxError as error:
        line = f"candidate.py:{error.lineno}: " if error.lineno else ""
        text = f"\n    {error.lineno} | {error.text.rstrip()}" if error.text and error.lineno else ""
        raise CandidateFault(f"{line}error: {error.msg}{text}") from error
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, lone surrogates, absurd nesting
        raise CandidateFault(f"error: the file must be Python text, and cannot be parsed ({type(error).__name__}: {error}).") from error


def unreadable(source: str) -> str | None:
    """Why a text alone shows that it is no candidate, before a problem is opened for it; None where it may be one."""
    try:
        tree = parse(source)
    except CandidateFault as fault:
        return f"it does not compile ({str(fault).splitlines()[0]})"
    whole = any(alias.name == "*" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names)
    return None if "ModelNew" in source or whole else NO_MODEL


def detect(source: str) -> str:
    """The builder's name for a candidate's text: "cuda", "cpp", "triton" or "python".

    By its syntax tree alone: a module-level `CUDA_SRC` or `CPP_SRC`, a function decorated `@triton.jit`, else python. Text that
    compiles itself when it is imported (load_inline) is python whatever it calls its strings; text that does not parse is python too,
    and that builder says why.
    """
    try:
        tree = parse(source)
    except CandidateFault:
        return "python"
    if not _mentions(tree, _IMPORT_BUILDS):
        for name in assignments(tree):
            if name in NATIVE_LITERALS:
                return NATIVE_LITERALS[name]
    if _has_triton_kernel(tree):
        return "triton"
    return "python"


def compiles_on_import(source: str) -> bool:
    """True where load_inline, load or anything else of torch.utils.cpp_extension is named in the syntax tree."""
    try:
        return _mentions(parse(source), _IMPORT_BUILDS)
    except CandidateFault:
        return False


def assignments(tree: ast.Module) -> dict[str, list[ast.Assign | ast.AnnAssign]]:
    """Module-level assignments to plain names, by name, in order."""
    found: dict[str, list[ast.Assign | ast.AnnAssign]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets = [target for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            targets = [node.target]
        else:
            continue
        for target in targets:
            found.setdefault(target.id, []).append(node)
    return found


def _mentions(tree: ast.Module, names: frozenset[str]) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            return True
        if isinstance(node, ast.Attribute) and node.attr in names:
            return True
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None) or ""
            imported = {part for alias in node.names for part in alias.name.split(".")} | set(module.split("."))
            if imported & names:
                return True
    return False


def _has_triton_kernel(tree: ast.Module) -> bool:
    modules, functions = {"triton"}, set[str]()  # local names: of triton and its parts, and of triton.jit itself
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname for alias in node.names if alias.asname and _of_triton(alias.name)}
        elif isinstance(node, ast.ImportFrom) and _of_triton(node.module or ""):
            for alias in node.names:
                (functions if alias.name == "jit" else modules).add(alias.asname or alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if isinstance(called, ast.Name) and called.id in functions:
                    return True
                if isinstance(called, ast.Attribute) and called.attr == "jit" and dotted(called.value) in modules:
                    return True
    return False


def dotted(node: ast.expr) -> str:
    """A name with its attributes, e.g. "torch.nn"; empty for any other expression. However long: `ast.unparse` calls itself."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _of_triton(module: str) -> bool:
    return module.split(".")[0] == "triton"
