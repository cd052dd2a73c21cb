"""Fills a starter: its SHAPE, PARAMS, hooks and ModelNew are written anew, the kernels stay as they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autokernel.proposers.emit import Reference, leaf_text, model_class, module_head, module_text, operand_text
from autokernel.proposers.graph import Graph, Unmatchable, Value
from autokernel.proposers.hooks_cuda import chain_text
from autokernel.proposers.hooks_triton import functions_used, hook_text
from autokernel.proposers.launches import with_direct_launches
from autokernel.proposers.match import Match
from autokernel.proposers.program import Leaf
from autokernel.proposers.starters import Starter

RESHAPED = ("matmul", "pooling", "conv")  # whose function's result may still need the problem's shape


@dataclass(frozen=True)
class Pieces:
    """A filled starter in parts: import lines, the functions of its hooks' helpers, and its own functions and constants."""

    imports: tuple[str, ...]
    helpers: str
    rest: tuple[str, ...]


def pieces(start: Starter, match: Match, params: Mapping[str, Any]) -> Pieces:
    """The starter's text less its literals and its ModelNew, with the match's hooks in it."""
    tree = ast.parse(start.text)
    lines = start.text.split("\n")
    triton = "SIGNATURES" not in start.text
    hooks = {name: hook_text(name, formula) for name, formula in match.hooks.items()} if triton else {}
    imports: list[str] = []
    rest: list[str] = []
    for node in tree.body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1
        text = "\n".join(lines[first:node.end_lineno])
        name = _name(node)
        if name in ("OP", "SPACE", "SHAPE", "PARAMS", "ModelNew") or _is_doc(node):
            continue
        if name in ("CUDA_SRC", "CPP_SRC"):
            text = _native(text, params, match)
        (imports if isinstance(node, (ast.Import, ast.ImportFrom)) else rest).append(hooks.get(name, text))
    return Pieces(tuple(imports), functions_used(match.hooks.values()) if hooks else "", tuple(rest))


def fill(start: Starter, match: Match, graph: Graph, ref: Reference, params: Mapping[str, Any], doc: str) -> str:
    """The candidate's text: the starter with the match's facts and these parameters in it."""
    made = pieces(start, match, params)
    before = [line for line in ref.before.split("\n") if line and line not in start.text]
    literals = {**({"SHAPE": dict(match.shape)} if start.shape else {}), "PARAMS": dict(params)}
    head = module_head(doc, made.imports, literals, before)
    return with_direct_launches(module_text([head, made.helpers, *made.rest, model_class(ref, call_text(match, graph, ref), doc)]))


def call_text(match: Match, graph: Graph, ref: Reference, function: str = "run") -> str:
    """The expression that calls a match's function with what it reads."""
    inputs = [_input(i, match, graph, ref) for i in match.inputs]
    if match.op == "library":
        return str(match.shape["call"]).format(*inputs)
    call = f"{function}({', '.join(inputs)})"
    return f"{call}.view({match.out_shape})" if match.op in RESHAPED else call


def _native(text: str, params: Mapping[str, Any], match: Match) -> str:
    """C++ text with the parameters in its `constexpr int` lines and the formula between its chain markers."""
    for name, value in params.items():
        text = re.sub(rf"^constexpr int {name.upper()} = \d+;", f"constexpr int {name.upper()} = {int(value)};", text, flags=re.MULTILINE)
    if "chain" in match.hooks:
        chain = f"// chain begin\n{chain_text(match.hooks['chain'])}\n// chain end"
        text = re.sub(r"// chain begin\n.*?// chain end", lambda _: chain, text, flags=re.DOTALL)
    return text


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.name if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else ""


def _is_doc(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _input(given: Any, match: Match, graph: Graph, ref: Reference) -> str:
    """The text of one argument of run."""
    if given is None:
        return "None"
    if isinstance(given, tuple):
        return operand_text(graph, given[1], ref.arguments) if given[0] == "operand" else ref.arguments[given[1]]
    if isinstance(given, Leaf):
        sizes = tuple(size if stride else 1 for size, stride in zip(match.space, given.strides, strict=True))
        return leaf_text(graph, given.operand, sizes, given.strides, given.offset, ref.arguments)
    if isinstance(given, Value) and given.op == "leaf":
        return leaf_text(graph, given.attrs["operand"], given.shape, given.attrs["stride"], given.attrs["offset"], ref.arguments)
    raise Unmatchable("inputs of a starter must not be computed")
