"""Puts the stages of a plan into one candidate file: each stage's functions under a name of their own, forward calls one after another."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Mapping, Sequence
from typing import Any

from autokernel.proposers.emit import Reference, model_class, module_head, module_text
from autokernel.proposers.fill import call_text, pieces
from autokernel.proposers.hooks_triton import functions_for
from autokernel.proposers.launches import with_direct_launches
from autokernel.proposers.plan import Plan, Stage
from autokernel.proposers.starters import Starter
from autokernel.proposers.triton_rows import needs_words, rows_text

WIDTH = 120  # of a docstring's line
IMPORTS = ("import torch", "import triton", "import triton.language as tl", "from torch import nn")


def stage_names(plan: Plan) -> list[str]:
    """What each stage's function is called: its operation, numbered where it comes again."""
    names: list[str] = []
    for stage in plan.stages:
        count = sum(re.fullmatch(rf"{stage.match.op}\d*", name) is not None for name in names)
        names.append(f"{stage.match.op}{count + 1 if count else ''}")
    return names


def compose(plan: Plan, starts: Sequence[Starter | None], ref: Reference, params: Mapping[str, Any], doc: str) -> str:
    """The candidate's text. `starts`: the starter of each stage, None for row programs; `params`: "stage.parameter" -> value."""
    names = stage_names(plan)
    chosen = {name: {k.partition(".")[2]: v for k, v in params.items() if k.partition(".")[0] == name} for name in names}
    shapes: dict[str, Any] = {}
    imports = list(IMPORTS)
    helpers: list[str] = []
    bodies: list[str] = []
    lines: list[str] = []
    before: list[str] = []
    said: dict[str, str] = {}  # what a stage's functions are, less their names -> the stage that has them
    for name, stage, start in zip(names, plan.stages, starts, strict=True):
        if stage.match.op == "library":
            wanted = chosen.pop(name)
            before += [line for key, line in stage.match.shape.get("before", {}).items() if wanted[key] and line not in before]
        elif (same := said.setdefault(_facts(plan, stage, start, chosen[name]), name)) != name:
            chosen.pop(name)  # the same kernels again: compiled once
            name = same
        elif start is None:
            helpers.append(functions_for(needs_words(stage.match)))
            bodies.append(rows_text(stage.match.shape["program"], plan.graph, name, chosen[name], f'PARAMS["{name}"]'))
        else:
            made = pieces(start, stage.match, chosen[name])
            imports += [line for line in made.imports if line not in imports]
            helpers.append(made.helpers)
            bodies += [renamed(text, name, defined_names(made.rest)) for text in made.rest]
            if start.shape:
                shapes[name] = dict(stage.match.shape)
        lines.append(f"{stage.result} = {call_text(stage.match, plan.graph, ref, name)}")
    last = lines.pop().partition(" = ")[2]
    literals = {**({"SHAPE": shapes} if shapes else {}), "PARAMS": chosen}
    before += [line for line in ref.before.split("\n") if line and line not in imports]
    whole = doc if len(doc) <= WIDTH else doc.replace("; ", ";\n")
    brief = doc if len(doc) <= WIDTH else f"Stages: {', '.join(names)}."
    model = model_class(ref, last, brief, None, lines)
    return with_direct_launches(module_text([module_head(whole, imports, literals, before), *_once(helpers), *bodies, model]))


def _facts(plan: Plan, stage: Stage, start: Starter | None, params: Mapping[str, Any]) -> str:
    """All that a stage's functions depend on."""
    if start is None:
        return repr((rows_text(stage.match.shape["program"], plan.graph, "rows", params), dict(params)))
    made = pieces(start, stage.match, params)
    return repr((start.op, made.imports, made.helpers, made.rest, dict(stage.match.shape) if start.shape else {}, dict(params)))


def _once(texts: Sequence[str]) -> list[str]:
    """Helper functions, each once, in the order in which they are first needed."""
    found: dict[str, None] = {}
    for text in texts:
        for part in re.split(r"\n{2,}(?=@triton\.jit)", text.strip("\n")):
            if part.strip():
                found.setdefault(part.strip("\n"))
    return list(found)


def defined_names(texts: Sequence[str]) -> set[str]:
    """The names that module-level statements define."""
    names: set[str] = set()
    for text in texts:
        for node in ast.parse(text).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return names


def renamed(text: str, stage: str, defined: set[str]) -> str:
    """A starter's text with its own names under the stage's: run becomes the stage, others get it in front, literals are its entries."""
    words = {"run": stage, **{name: f"{stage.upper() if name.isupper() else stage}_{name}" for name in defined - {"run"}},
             "PARAMS": f'PARAMS["{stage}"]', "SHAPE": f'SHAPE["{stage}"]'}
    lines = text.split("\n")
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME and t.string in words]
    for token in reversed(tokens):
        row, column = token.start
        line = lines[row - 1]
        if line[:column].rstrip().endswith("."):  # an attribute of something else
            continue
        lines[row - 1] = line[:column] + words[token.string] + line[column + len(token.string):]
    return "\n".join(lines)
