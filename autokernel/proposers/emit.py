"""Puts a candidate file together: the problem's constructor, the kernel, and a forward that calls it."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autokernel.proposers.graph import Graph, Unmatchable, contiguous_strides, numel

LINE = 120  # characters of a literal's line


@dataclass(frozen=True)
class Reference:
    """What a candidate needs of the problem's text: forward's argument names and everything its constructor relies on."""

    arguments: tuple[str, ...]
    before: str  # module text that stands before ModelNew: imports, and helpers where the constructor needs them
    constructor: str  # the text of __init__ in class ModelNew with the methods and attributes of the class that it reaches, "" where none


def reference(source: str) -> Reference:
    """Read the problem's text. Raises Unmatchable where class Model is not as KernelBench writes it."""
    tree = ast.parse(source)
    model = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    if model is None or [ast.unparse(b).split(".")[-1] for b in model.bases] != ["Module"]:
        raise Unmatchable("class Model must be a plain nn.Module")
    methods = {n.name: n for n in model.body if isinstance(n, ast.FunctionDef)}
    forward, construct = methods.get("forward"), methods.get("__init__")
    if forward is None or forward.args.vararg or forward.args.kwarg or forward.args.kwonlyargs:
        raise Unmatchable("forward must take plain arguments alone")
    arguments = tuple(a.arg for a in forward.args.args[1:])
    if construct is None:
        return Reference(arguments, "", "")
    if len(construct.body) > 1 and ast.get_docstring(construct) is not None:
        construct.body.pop(0)
    reached = _reached(methods, construct)
    wanted = [*_attributes(model, reached), *reached]
    keeps = _needed(tree, wanted)
    return Reference(arguments, "\n".join(ast.unparse(n) for n in keeps), "\n\n".join(ast.unparse(_Renamed().visit(n)) for n in wanted))


def _reached(methods: Mapping[str, ast.FunctionDef], construct: ast.FunctionDef) -> list[ast.FunctionDef]:
    """The constructor, and the methods that it calls, one through another. Raises Unmatchable where forward is among them."""
    wanted = [construct]
    for method in wanted:
        wanted += [methods[name] for name in sorted(_called(method)) if name in methods and methods[name] not in wanted]
    if methods["forward"] in wanted:
        raise Unmatchable("the constructor must not call forward")
    return wanted


def _called(node: ast.AST) -> set[str]:
    return {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _attributes(model: ast.ClassDef, methods: Sequence[ast.FunctionDef]) -> list[ast.stmt]:
    """The class's own assignments that these methods reach, one through another, in the class's order."""
    words = {word for method in methods for word in _called(method) | _names(method)}
    kept: list[ast.stmt] = []
    for statement in reversed(model.body):
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and words & set(_defines(statement)):
            kept.insert(0, statement)
            words |= _names(statement)
    return kept


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _needed(tree: ast.Module, parts: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The module's statements that these parts of class Model reach by name, in the module's order."""
    defined: dict[str, ast.stmt] = {}
    for statement in tree.body:
        for name in _defines(statement):
            defined[name] = statement
    wanted: list[ast.stmt] = []
    stack = [name for part in parts for name in _free(part)]
    while stack:
        found = defined.get(stack.pop())
        if found is None or found in wanted or (isinstance(found, ast.ClassDef) and found.name == "Model"):
            continue
        wanted.append(found)
        stack += _free(found)
    return [s for s in tree.body if s in wanted]


def _free(node: ast.stmt) -> list[str]:
    """The names that a statement takes from around it; a function's own parameters are its own."""
    own = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)} if isinstance(node, ast.FunctionDef) else set[str]()
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id not in own]


def _defines(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [(a.asname or a.name).split(".")[0] for a in statement.names]
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [name for target in statement.targets for name in _names(target)]
    return list(_names(statement.target)) if isinstance(statement, ast.AnnAssign) else []


class _Renamed(ast.NodeTransformer):
    """Model -> ModelNew, for `super(Model, self)`."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name("ModelNew", node.ctx) if node.id == "Model" else node


def operand_text(graph: Graph, number: int, arguments: Sequence[str]) -> str:
    """How forward's body names an operand: an argument, self and the parameter's path, or what an earlier stage gave."""
    operand = graph.operands[number]
    if operand.kind == "stage":
        return operand.name
    if operand.kind == "input":
        return arguments[operand.position]
    return "self." + ".".join(operand.name.split(".")) if all(p.isidentifier() for p in operand.name.split(".")) \
        else f"self.get_{operand.kind}({operand.name!r})"


def leaf_text(graph: Graph, number: int, shape: Sequence[int], stride: Sequence[int], offset: int, arguments: Sequence[str]) -> str:
    """How forward's body names a view of an operand, in the plainest words that say it."""
    operand, name = graph.operands[number], operand_text(graph, number, arguments)
    if not operand.contiguous:
        raise Unmatchable("every input must be contiguous")
    same = all(a == b or s == 1 for a, b, s in zip(stride, contiguous_strides(shape), shape, strict=True))
    if same and offset == 0 and numel(shape) == numel(operand.shape):
        return name if tuple(shape) == operand.shape else f"{name}.view({tuple(shape)})"
    if len(operand.shape) == 2 and tuple(shape) == operand.shape[::-1] and tuple(stride) == operand.stride[::-1] and offset == 0:
        return f"{name}.t()"
    return f"{name}.as_strided({tuple(shape)}, {tuple(stride)}, {offset})"


def argument_types(graph: Graph, ref: Reference) -> dict[str, str]:
    """Type names of forward's arguments, for those that are one tensor or a float."""
    tensors = {o.position for o in graph.operands if o.kind == "input"}
    return {name: "torch.Tensor" if place in tensors else "float" for place, name in enumerate(ref.arguments)
            if place in tensors or place in graph.scalars}


def model_class(ref: Reference, call: str, doc: str, types: Mapping[str, str] | None = None, first: Sequence[str] = (),
                held: Sequence[str] = ()) -> str:
    """The text of class ModelNew whose forward runs the lines `first` and returns `call`, a tensor; `types` of its arguments if known;
    `held`: lines of the class itself."""
    takes = ["self", *(f"{name}: {types[name]}" if types and name in types else name for name in ref.arguments)]
    construct = textwrap.indent(ref.constructor, "    ") + "\n\n" if ref.constructor else ""
    own = "".join(f"    {line}\n" for line in held) + "\n" if held else ""
    return (f'class ModelNew(nn.Module):\n    """{doc}"""\n\n{own}{construct}'
            f"    def forward({', '.join(takes)}){' -> torch.Tensor' if types else ''}:\n"
            f"{''.join(f'        {line}' + chr(10) for line in first)}        return {call}\n")


def module_head(doc: str, imports: Sequence[str], literals: Mapping[str, Any], more: Sequence[str] = ()) -> str:
    """Docstring, imports (of the future, of the standard library, others; each once), `more` statements, and literals of a module."""
    given = dict.fromkeys(line for line in [*imports, *more] if line.startswith(("import ", "from ")))
    if "from torch import nn" in given:
        given.pop("import torch.nn as nn", None)
    ranks = {line: 0 if "__future__" in line else 1 if re.split(r"[ .]", line)[1] in sys.stdlib_module_names else 2 for line in given}
    groups = ["\n".join(sorted((line for line in given if ranks[line] == rank), key=_import_order)) for rank in range(3)]
    rest = "\n".join(line for line in more if line not in ranks and line != "import torch.nn as nn")
    written = "\n".join(f"{name} = {literal(value, len(name) + 3)}" for name, value in literals.items())
    return "\n\n".join(part for part in (f'"""{doc}"""', *groups, rest, written) if part)


def literal(value: Any, column: int = 0, indent: int = 0) -> str:
    """A value as Python text; dicts that would reach beyond the line are broken after commas, nested ones an entry a line."""
    plain = repr(value)
    if not isinstance(value, dict) or column + len(plain) <= LINE:
        return plain
    inner = " " * (indent + 4)
    entries = [f"{key!r}: {literal(item, indent + 6 + len(repr(key)), indent + 4)}," for key, item in value.items()]
    lines = entries if any(isinstance(item, dict) for item in value.values()) else _side_by_side(entries, LINE - len(inner))
    return "\n".join(["{", *(inner + line for line in lines), " " * indent + "}"])


def _side_by_side(entries: Sequence[str], width: int) -> list[str]:
    """Entries side by side, as many to a line as fit."""
    lines = [""]
    for entry in entries:
        joined = f"{lines[-1]} {entry}".strip()
        lines[-1:] = [joined] if len(joined) <= width else [*filter(None, lines[-1:]), entry]
    return lines


def _import_order(line: str) -> tuple[bool, str]:
    return line.startswith("from "), line


def module_text(parts: Sequence[str]) -> str:
    """Parts of a module with two blank lines between them, none between assignments of one line and what is assigned before them."""
    text, assigned = "", False
    for part in (p.strip("\n") for p in parts if p.strip()):
        close = assigned and re.match(r"\w+ = .*$", part) is not None and "\n" not in part
        text += ("\n" if close else "\n\n\n") * bool(text) + part
        assigned = close or isinstance(ast.parse(part).body[-1], ast.Assign)
    return text + "\n"
