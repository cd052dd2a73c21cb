"""A seed's matrix products by the matmul starter: the compiler leaves them to the library, which uses no tensor cores for float32."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from autokernel.proposers.choices import Choice, matmul
from autokernel.proposers.compose import IMPORTS, defined_names, renamed
from autokernel.proposers.fill import pieces
from autokernel.proposers.graph import Value
from autokernel.proposers.match import Match
from autokernel.proposers.starters import starter

NAME = "matmul"
WORTH = 1 << 28  # multiplications of a forward's products, below which the library's take no time that counts
SHAPE = {"triangular": None, "triangular_inputs": False}
PRODUCT = '''\
def product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None, *, out: torch.Tensor) -> None:
    """a @ b + bias, into `out`."""
    if bias is not None and bias.dim() != 1:
        torch.addmm(bias, a, b, out=out)
    elif out.is_contiguous():
        matmul(a, b, bias, out=out)
    else:
        out.copy_(matmul(a, b, bias))'''


@dataclass(frozen=True)
class Products:
    """A forward whose products are our own: its lines, the functions they call, and the starter's parameters to try."""

    lines: Sequence[str]
    functions: Sequence[str]
    imports: Sequence[str]
    firsts: tuple[Choice, ...]
    space: Mapping[str, Sequence[Any]]


def own_products(lines: Sequence[str], traced: Mapping[str, Any]) -> Products | None:
    """The forward's `lines` with their products replaced; None where it has none, or too small ones. `traced`: the problem's operations."""
    replaced = [_own(line) for line in lines]
    sizes = _sizes(traced)
    if replaced == list(lines) or sum(prod(a) * b[-1] for a, b in sizes) < WORTH:
        return None
    a, b = max(sizes, key=lambda pair: prod(pair[0]) * pair[1][-1])
    leaves = tuple(Value("leaf", (), tuple(shape), "float32") for shape in (a, b))
    match = Match(NAME, SHAPE, leaves, (*a[:-1], b[-1]), "product")
    start = starter("triton", NAME)
    made = pieces(start, match, start.params)
    functions = [renamed(text, NAME, defined_names(made.rest)) for text in made.rest]
    firsts = tuple({**start.params, **{k: v for k, v in change.items() if k in start.params}} for change in matmul(match))
    imports = [line for line in made.imports if line.startswith("import ") and line not in IMPORTS]
    return Products(replaced, [*functions, PRODUCT], imports, firsts, start.space)


def _sizes(traced: Mapping[str, Any]) -> list[tuple[list[int], list[int]]]:
    """The shapes of both sides of every float32 product that was traced."""
    found = []
    for op in traced["ops"]:
        name = op["op"].split(".")[1]
        if name in ("mm", "bmm", "addmm", "matmul", "linear"):
            sides = [traced["nodes"][arg["node"]] for arg in op["args"][name == "addmm":][:2]]
            if all(side["dtype"] == "float32" for side in sides):
                found.append((sides[0]["shape"], sides[1]["shape"]))
    return found


def _own(line: str) -> str:
    """A call of the library's product with a call of ours in its place; any other line as it is."""
    statement = ast.parse(line.strip()).body[0] if line.strip().startswith("torch.") else None
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return line
    call = statement.value
    name = ast.unparse(call.func).removeprefix("torch.")
    named = {k.arg: ast.unparse(k.value) for k in call.keywords}
    given = [ast.unparse(a) for a in call.args]
    if "out" not in named or {named.get("alpha", "1"), named.get("beta", "1")} != {"1"}:
        return line
    if name in ("mm", "bmm"):
        return f"product({', '.join(given)}, out={named['out']})"
    return f"product({given[1]}, {given[2]}, {given[0]}, out={named['out']})" if name == "addmm" else line
