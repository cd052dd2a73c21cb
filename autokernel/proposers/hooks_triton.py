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
IDENTITY = {"sum": "0.0", "prod": "1.0", "amax": 'float("-inf")', "amin": 'float("inf")'}
GATHER = {"prod": "multiply", "amax": "greater", "amin": "lesser"}
FUNCTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "multiply": ((), "def multiply(a, b):\n    return a * b\n"),
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
    """A formula as the starter's function `name`. Raises Unmatchable for operations that have no words here.

    Arguments are x0, x1, ... in the formula's order, None for one that it does not read. Where `formula.across` is an axis, the last
    argument is `inside`, and statistics along that axis are gathered from the places where it holds.
    """
    program = formula.program
    given = [f"x{i}" for i in range(len(formula.arguments))]
    names: dict[int, str] = {number: word for number, word in zip(formula.arguments, given, strict=True) if number is not None}
    lines: list[str] = []

    def visit(number: int) -> str:
        if number not in names:
            node = program.nodes[number]
            if node.op == "const":
                names[number] = literal(node.value)
            elif node.op == "stat" and formula.across is not None:
                lines.append(f"t{number} = {gathered(program.stats[node.value].op, visit(program.stats[node.value].expr), formula.across)}")
                names[number] = f"t{number}"
            elif node.op not in PLAIN:
                raise Unmatchable(f"{node.op} is not supported in a Triton chain")
            else:
                args = [visit(a) for a in node.args]
                lines.append(f"t{number} = {PLAIN[node.op].format(*args)}")
                names[number] = f"t{number}"
        return names[number]

    for number, argument in names.items():
        if program.nodes[number].op == "leaf" and program.leaves[program.nodes[number].value].dtype == "bool":
            lines.append(f"{argument} = {argument} != 0.0")
    result = visit(formula.result)
    body = "\n".join(indent + line for line in [*lines, f"return {result}"])
    return f"@triton.jit\ndef {name}({', '.join([*given, *(['inside'] if formula.across is not None else [])])}):\n{body}"


def gathered(op: str, value: str, axis: int) -> str:
    """A statistic along one axis of a tile, over the places that are `inside`, the axis kept."""
    if op not in IDENTITY:
        raise Unmatchable(f"{op} is not supported in a Triton chain")
    masked = f"tl.where(inside, {value}, {IDENTITY[op]})"
    return f"tl.sum({masked}, {axis}, keep_dims=True)" if op == "sum" else f"tl.reduce({masked}, {axis}, {GATHER[op]}, keep_dims=True)"


def functions_used(formulas: Iterable[Formula]) -> str:
    """The texts of the functions that formulas call, callees first."""
    return functions_for([op for formula in formulas for op in (
        *(node.op for node in formula.program.nodes), *(stat.op for stat in formula.program.stats if formula.across is not None))])


def functions_for(ops: Iterable[str]) -> str:
    """The texts of the functions that operations and statistics of these names call, callees first."""
    done: list[str] = []

    def add(name: str) -> None:
        if name in done or name not in FUNCTIONS:
            return
        for callee in FUNCTIONS[name][0]:
            add(callee)
        done.append(name)

    for op in ops:
        add({"maximum": "greater", "minimum": "lesser", "amax": "greater", "amin": "lesser", "prod": "multiply"}.get(op, op))
    return "\n\n".join("@triton.jit\n" + FUNCTIONS[name][1] for name in done)
