"""What a candidate's syntax tree shows that a reader would want to know, with lines. Advisory: no verdict rests on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

TIMERS = ("torch.cuda.Event", "torch.cuda.synchronize", "time.perf_counter", "time.time", "torch.Tensor")
CONCURRENT = ("threading", "multiprocessing", "concurrent", "asyncio")
STRUCTURE = ("Module", "Parameter", "ParameterList", "ParameterDict", "ModuleList", "ModuleDict", "Sequential", "init", "parameter",
             "Buffer", "Identity")
FREE = ("empty", "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "tensor", "as_tensor",
        "device", "no_grad", "inference_mode", "manual_seed", "float32", "float16", "bfloat16", "int32", "int64", "Size", "Tensor")


@dataclass(frozen=True, order=True)
class Label:
    """One finding: the line it stands on, a short name, and what was found there."""

    line: int
    name: str
    text: str


def static_labels(code: str) -> tuple[Label, ...]:
    """Findings by line; none for text that is no Python, which the build says.

    `swallows`: an except that leads on; `inherits the reference`; `patches`: an attribute of a clock or of torch is assigned, also by
    setattr; `concurrency`; `torch computes`: a layer, function or operator of torch's in the place of a kernel; `second stream`.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names = _aliases(tree)
    found = {label for node in ast.walk(tree) for label in _of(node, names)}
    return tuple(sorted(found))


def _aliases(tree: ast.AST) -> dict[str, str]:
    """Local names and the dotted names that they stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update({alias.asname or alias.name.split(".")[0]: alias.name if alias.asname else alias.name.split(".")[0]
                          for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return found


def _dotted(node: ast.AST, names: dict[str, str]) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([names.get(node.id, node.id), *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _of(node: ast.AST, names: dict[str, str]) -> Iterator[Label]:
    if isinstance(node, ast.ExceptHandler) and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node)):
        yield Label(node.lineno, "swallows", "an except block does not raise")
    elif isinstance(node, ast.ClassDef):
        bases = [_dotted(base, names) for base in node.bases]
        if "Model" in bases:
            yield Label(node.lineno, "inherits the reference", f"class {node.name}(Model)")
        if any(base in ("torch.Tensor", "Tensor") for base in bases):
            yield Label(node.lineno, "tensor subclass", f"class {node.name}")
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            dotted = _dotted(target, names)
            if isinstance(target, ast.Attribute) and dotted.startswith(TIMERS):
                yield Label(node.lineno, "patches", dotted)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for module in modules:
            if module.split(".")[0] in CONCURRENT:
                yield Label(node.lineno, "concurrency", module)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield Label(node.lineno, "torch computes", "the operator @")
    elif isinstance(node, ast.Call):
        yield from _of_call(node, names)


def _of_call(node: ast.Call, names: dict[str, str]) -> Iterator[Label]:
    dotted = _dotted(node.func, names)
    if dotted == "setattr" and node.args and _dotted(node.args[0], names).startswith(("torch", "time")):
        yield Label(node.lineno, "patches", f"setattr on {_dotted(node.args[0], names)}")
    elif dotted == "torch.compile":
        yield Label(node.lineno, "torch computes", dotted)
    elif dotted in ("torch.cuda.Stream", "torch.cuda.stream") or dotted.endswith((".wait_stream", ".record_stream")):
        yield Label(node.lineno, "second stream", dotted)
    elif dotted.startswith("torch.nn.functional."):
        yield Label(node.lineno, "torch computes", dotted)
    elif dotted.startswith("torch.nn.") and dotted.split(".")[2] not in STRUCTURE:
        yield Label(node.lineno, "torch computes", dotted)
    elif dotted.startswith("torch.") and dotted.count(".") == 1 and dotted.split(".")[1] not in FREE:
        yield Label(node.lineno, "torch computes", dotted)
