"""Reads a native candidate's literals (CUDA_SRC or CPP_SRC, SIGNATURES, flags) from its syntax tree, without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from autokernel.builders.flags import SHOWN, is_allowed
from autokernel.builders.signatures import Signature, parse_signature
from autokernel.builders.syntax import CandidateFault, assignments, parse

_LANGUAGES = {"cuda": ("CUDA_SRC", "CUDA_FLAGS"), "cpp": ("CPP_SRC", "CPP_FLAGS")}


@dataclass(frozen=True)
class NativeLiterals:
    """What a native candidate declares."""

    code: str
    first_line: int | None  # line of the file that the code's first line stands on; None where they do not run in step
    signatures: tuple[Signature, ...]
    flags: tuple[str, ...]
    warning: str = ""  # shown beside a compiler's errors: how the literal itself may have caused them


def read_literals(source: str, kind: str) -> NativeLiterals:
    """The literals of a candidate's text for `kind` "cuda" or "cpp". Raises CandidateFault that names the line and what to write."""
    source_name, flags_name = _LANGUAGES[kind]
    tree = parse(source)
    code_node = _only_value(tree, source_name)
    if code_node is None:
        raise CandidateFault(f"error: {source_name} is missing; set it at module level to the C++ text, {source_name} = r'''...'''.")
    if not isinstance(code_node, ast.Constant) or not isinstance(code_node.value, str):
        raise CandidateFault(f"candidate.py:{code_node.lineno}: error: {source_name} must be one plain string literal, r'''...'''; it is "
                             "read without running the file, so f-strings, calls and concatenation cannot be used.")  # fmt: skip
    code = code_node.value
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in code):
        raise CandidateFault(f"candidate.py:{code_node.lineno}: error: {source_name} holds a null or a lone surrogate; use r'''...'''.")
    in_step = code.count("\n") == (code_node.end_lineno or code_node.lineno) - code_node.lineno
    segment = ast.get_source_segment(source, code_node) or ""
    raw = segment[:2].lower().startswith(("r", "ur"))
    warning = "" if raw or "\\" not in segment else (
        f"note: {source_name} is not a raw string, so Python has already replaced its backslashes; use r'''...'''.")  # fmt: skip
    return NativeLiterals(code, code_node.lineno if in_step else None, _signatures(tree), _flags(tree, flags_name, kind), warning)


def _only_value(tree: ast.Module, name: str) -> ast.expr | None:
    nodes = assignments(tree).get(name, [])
    if len(nodes) > 1:
        raise CandidateFault(f"candidate.py:{nodes[1].lineno}: error: {name} is assigned {len(nodes)} times; set it once.")
    return nodes[0].value if nodes else None


def _signatures(tree: ast.Module) -> tuple[Signature, ...]:
    example = "SIGNATURES = {'softmax_rows': 'f32* x, f32* y, i64 rows, i64 cols'}"
    node = _only_value(tree, "SIGNATURES")
    if node is None:
        raise CandidateFault(f"error: SIGNATURES is missing; set it at module level, for example {example}.")
    where = f"candidate.py:{node.lineno}: error: SIGNATURES"
    if not isinstance(node, ast.Dict) or not node.keys:
        raise CandidateFault(f"{where} must be a dict literal with one entry a launcher, for example {example}.")
    found: dict[str, Signature] = {}
    for key, value in zip(node.keys, node.values):  # noqa: B905 (a Dict node's lists are equally long)
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            raise CandidateFault(f"{where} must have plain strings as keys, for example {example}.")
        if not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
            where = f"candidate.py:{key.lineno}: error: SIGNATURES['{key.value}']"
            raise CandidateFault(f"{where} must be one plain string, for example {example}.")
        if key.value in found:
            raise CandidateFault(f"candidate.py:{key.lineno}: error: SIGNATURES['{key.value}'] is given twice; remove one.")
        found[key.value] = parse_signature(key.value, value.value, key.lineno)
    return tuple(found.values())


def _flags(tree: ast.Module, name: str, kind: str) -> tuple[str, ...]:
    node = _only_value(tree, name)
    if node is None:
        return ()
    where = f"candidate.py:{node.lineno}: error: {name}"
    if not isinstance(node, (ast.List, ast.Tuple)):
        raise CandidateFault(f"{where} must be a list literal of strings.")
    flags: list[str] = []
    for item in node.elts:
        if not (isinstance(item, ast.Constant) and isinstance(item.value, str)):
            raise CandidateFault(f"{where} must be a list literal of strings.")
        if not is_allowed(item.value, kind):
            raise CandidateFault(f"{where}: flag {item.value!r} is not allowed; choose from {SHOWN[kind]}.")
        flags.append(item.value)
    return tuple(flags)
