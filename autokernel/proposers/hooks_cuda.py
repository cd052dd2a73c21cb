"""Formulas as CUDA C++ functions, for the hooks of CUDA starters."""

from __future__ import annotations

from autokernel.proposers.cpp_expressions import literal
from autokernel.proposers.graph import Unmatchable
from autokernel.proposers.match import Formula

WORDS = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}", "lt": "{0} < {1}",
         "le": "{0} <= {1}",
         "gt": "{0} > {1}", "ge": "{0} >= {1}", "eq": "{0} == {1}", "ne": "{0} != {1}", "and": "{0} && {1}", "or": "{0} || {1}",
         "not": "!{0}", "abs": "fabsf({0})", "exp": "expf({0})", "expm1": "expm1f({0})", "log": "logf({0})", "log1p": "log1pf({0})",
         "sqrt": "sqrtf({0})", "rsqrt": "1.0f / sqrtf({0})", "sigmoid": "1.0f / (1.0f + expf(-{0}))", "tanh": "tanhf({0})",
         "erf": "erff({0})", "sin": "sinf({0})", "cos": "cosf({0})", "floor": "floorf({0})", "pow": "powf({0}, {1})",
         "maximum": "({0} > {1} || {0} != {0}) ? {0} : {1}", "minimum": "({0} < {1} || {0} != {0}) ? {0} : {1}",
         "where": "{0} ? {1} : {2}"}


def chain_text(formula: Formula) -> str:
    """A formula as the device function `chain(float x0, float x1)`. Raises Unmatchable for operations that have no words here."""
    program = formula.program
    names = {number: f"x{i}" for i, number in enumerate(formula.arguments)}
    lines: list[str] = []

    def visit(number: int) -> str:
        if number not in names:
            node = program.nodes[number]
            if node.op == "const":
                names[number] = literal(node.value)
            elif node.op not in WORDS:
                raise Unmatchable(f"{node.op} is not supported in a CUDA chain")
            else:
                args = [visit(a) for a in node.args]
                lines.append(f"    const {'bool' if node.dtype == 'bool' else 'float'} t{number} = {WORDS[node.op].format(*args)};")
                names[number] = f"t{number}"
        return names[number]

    result = visit(formula.result)
    return "\n".join(["__device__ __forceinline__ float chain(float x0, float x1) {", *lines, f"    return {result};", "}"])
