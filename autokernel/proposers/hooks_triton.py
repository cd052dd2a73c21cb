"""Formulas as Triton functions, for the hooks of Triton starters."""

from __future__ import annotations

import math
from collections.abc import Iterable

from autokernel.proposers.graph import Unmatchable
from autokernel.proposers.match import Formula

PLAIN = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}", "lt": "{} < {}", "le": "{} <= {}",
         "gt": "{} > {}", "ge": "{} >= {}", "eq": "{} == {}", "ne": "{} != {}", "and": "{} & {}", "or": "{} | {}", "not": "~{}",
         "abs": "tl.abs({})", "exp": "tl.exp({})", "log": "tl.log({})", "sqrt": "tl.sqrt_rn({})", "rsqrt": "1.0 / tl.sqrt_rn({})",
         "sigmoid": "1.0 / (1.0 + tl.exp(-{}))", "erf": "tl.erf({})", "sin": "tl.sin({})", "cos": "tl.cos({})", "floor": "tl.floor({})",
         "expm1": "expm1({})", "log1p": "log1p({})", "tanh": "tanh({})", "where": "tl.where({}, {}, {})", "cast": "{}",
         "maximum": "greater({}, {})", "minimum": "lesser({}, {})"}
FUNCTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "greater": ((), "def greater(a, b):\n    return tl.where((a > b) | (a != a), a, b)  # NaN wins, as in torch\n"),
    "lesser": ((), "def lesser(a, b):\n    return tl.where((a < b) | (a != a), a, b)\n"),
    "expm1": ((), """\
def expm1(x):
    \"\"\"exp(x) - 1; a polynomial near 0, where the subtraction would lose digits.\"\"\"
    q = 0.00019914547738153487
    q = q * x + 0.0013941259821876884
    q = q * x + 0.00833327230066061
    q = q * x + 0.04166635125875473
    q = q * x + 0.1666666716337204
    q = q * x + 0.5
    return tl.where(tl.abs(x) < 0.34, x + x * x * q, tl.exp(x) - 1.0)
"""),
    "log1p": ((), """\
def log1p(x):
    \"\"\"log(1 + x); the factor gives back what 1 + x rounds away.\"\"\"
    u = 1.0 + x
    return tl.where(u == 1.0, x, tl.where(u == float("inf"), u, tl.log(u) * (x / (u - 1.0))))
"""),
    "tanh": (("expm1",), """\
def tanh(x):
    \"\"\"tanh by expm1(2|x|), so that small x keep their digits.\"\"\"
    a = tl.abs(x)
    t = expm1(2.0 * tl.where(a > 10.0, 10.0, a))
    r = t / (t + 2.0)
    return tl.where(x < 0.0, -r, r)
"""),
}


def literal(value: float | int | bool) -> str:
    """A constant as Triton reads it."""
    if isinstance(value, bool):
        return str(value)
    number = float(value)
    if math.isinf(number) or math.isnan(number):
        return f'float("{number}")'
    return repr(number) if number >= 0 else f"({number!r})"


def hook_text(name: str, formula: Formula, indent: str = "    ") -> str:
    """A formula as the starter's function `name`. Raises Unmatchable for operations that have no words here."""
    program, given = formula.program, dict(zip(formula.arguments, (f"x{i}" for i in range(len(formula.arguments))), strict=True))
    lines: list[str] = []
    names: dict[int, str] = dict(given)

    def visit(number: int) -> str:
        if number in names:
            return names[number]
        node = program.nodes[number]
        if node.op == "const":
            names[number] = literal(node.value)
            return names[number]
        if node.op not in PLAIN:
            raise Unmatchable(f"{node.op} is not supported in a Triton chain")
        args = [visit(a) for a in node.args]
        lines.append(f"t{number} = {PLAIN[node.op].format(*args)}")
        names[number] = f"t{number}"
        return names[number]

    for number, argument in given.items():
        if program.nodes[number].op == "leaf" and program.leaves[program.nodes[number].value].dtype == "bool":
            lines.append(f"{argument} = {argument} != 0.0")
    result = visit(formula.result)
    body = "\n".join(indent + line for line in [*lines, f"return {result}"])
    return f"@triton.jit\ndef {name}({', '.join(given.values())}):\n{body}"


def functions_used(formulas: Iterable[Formula]) -> str:
    """The texts of the functions that formulas call, callees first."""
    done: list[str] = []

    def add(name: str) -> None:
        if name in done or name not in FUNCTIONS:
            return
        for callee in FUNCTIONS[name][0]:
            add(callee)
        done.append(name)

    for formula in formulas:
        for node in formula.program.nodes:
            add({"maximum": "greater", "minimum": "lesser"}.get(node.op, node.op))
    return "\n\n".join("@triton.jit\n" + FUNCTIONS[name][1] for name in done)
