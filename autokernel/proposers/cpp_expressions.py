"""A row program's expressions as C++ statements, and the pointers they read through."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from autokernel.proposers.graph import Graph, Unmatchable
from autokernel.proposers.loops import loops
from autokernel.proposers.program import Program

TYPES = {"float32": ("float", "f32*"), "bool": ("bool", "bool*"), "int64": ("int64_t", "i64*")}
CALLS = {"exp": "exp_", "expm1": "expm1_", "log": "log_", "log1p": "log1p_", "sigmoid": "sigmoid_", "tanh": "tanh_", "erf": "erf_"}
PLAIN = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}", "lt": "{} < {}", "le": "{} <= {}",
         "gt": "{} > {}", "ge": "{} >= {}", "eq": "{} == {}", "ne": "{} != {}", "and": "{} && {}", "or": "{} || {}", "not": "!{}",
         "abs": "__builtin_fabsf({})", "sqrt": "__builtin_sqrtf({})", "rsqrt": "1.0f / __builtin_sqrtf({})",
         "sin": "__builtin_sinf({})", "cos": "__builtin_cosf({})", "floor": "__builtin_floorf({})", "pow": "__builtin_powf({}, {})",
         "maximum": "larger({}, {})", "minimum": "smaller({}, {})", "where": "{} ? {} : {}", "cast": "(float){}"}
START = {"sum": "0", "prod": "1", "amax": "-__builtin_inff()", "amin": "__builtin_inff()"}
NAMED = ("const", "scalar")  # expressions that need no statement
GIVEN = ("leaf", "stat", "iota", "fold", *NAMED)
DEAR = frozenset(CALLS) | {"pow", "sin", "cos"}


def literal(value: float | int | bool) -> str:
    """A constant as a C++ float or bool expression."""
    if isinstance(value, bool):
        return "true" if value else "false"
    number = float(value)
    if math.isinf(number):
        return "__builtin_inff()" if number > 0 else "(-__builtin_inff())"
    return '__builtin_nanf("")' if math.isnan(number) else f"{number!r}f" if number >= 0 else f"({number!r}f)"


def at(stride: int, index: str) -> str:
    """The text of an offset of `index` steps."""
    return "0" if stride == 0 else index if stride == 1 else f"{index} * {stride}"


def accumulate(into: str, op: str, value: str) -> str:
    """The statement that adds one value to a running reduction."""
    if op in ("sum", "prod"):
        return f"{into} {'+' if op == 'sum' else '*'}= {value};"
    return f"{into} = {'larger' if op == 'amax' else 'smaller'}({into}, {value});"


class Expressions:
    """What the emitters of all loop shapes share: names, order, statements, pointers. Raises Unmatchable for unknown words.

    Loops are named i0, i1, ... from the outside, the innermost runs over k. Row pointers are u0, u1, ... and v for the output,
    pointers inside a row's outer reduced loops p0, p1, ... and q.
    """

    def __init__(self, program: Program, graph: Graph, keep: bool) -> None:
        self.program, self.graph = program, graph
        self.loops = loops(program)
        self.inner = self.loops[-1]
        self.columns = bool(program.reduced) and not self.inner.reduced
        outer = range(len(self.loops) - 1)
        self.over = [i for i in outer if self.loops[i].reduced or not program.reduced]  # elementwise: all outer loops
        self.kept = [i for i in outer if i not in self.over]
        self.stored = self._stored() if keep else None
        self._check()

    def _check(self) -> None:
        program = self.program
        for leaf in program.leaves:
            if leaf.dtype not in TYPES:
                raise Unmatchable(f"an operand of {leaf.dtype} is not supported on the CPU")
        for node in program.nodes:
            if node.op not in PLAIN and node.op not in CALLS and node.op not in GIVEN:
                raise Unmatchable(f"{node.op} is not supported on the CPU")
            if node.op in ("maximum", "minimum", "cast") and node.dtype != "float32":
                raise Unmatchable(f"{node.op} of {node.dtype} is not supported on the CPU")
        indexed = any(stat.op.startswith("arg") for stat in program.stats)
        if program.out_dtype not in TYPES or (indexed and (len(program.stats) > 1 or program.kind != "row")):
            raise Unmatchable(f"a result of {program.out_dtype} is not supported on the CPU")
        if indexed and sum(loop.reduced for loop in self.loops) > 1:
            raise Unmatchable("the dimensions of an argmax must merge into one")

    @property
    def stats(self) -> list[list[int]]:
        """The reductions of each pass."""
        levels = sorted({stat.level for stat in self.program.stats})
        return [[n for n, stat in enumerate(self.program.stats) if stat.level == level] for level in levels]

    def operands(self) -> list[int]:
        """The graph's operands that the kernel reads, in the order of its arguments x0, x1, ..."""
        return sorted({leaf.operand for leaf in self.program.leaves})

    def name(self, number: int) -> str:
        """What an expression is called."""
        node = self.program.nodes[number]
        return literal(node.value) if node.op == "const" else f"a{node.value}" if node.op == "scalar" else f"t{number}"

    def order(self, roots: Iterable[int], without: Iterable[int] = ()) -> list[int]:
        """The expressions that `roots` need, operands first, less those of `without` and what only they need."""
        done: list[int] = []
        barred = set(without)

        def visit(number: int) -> None:
            if number in barred or number in done:
                return
            for arg in self.program.nodes[number].args:
                visit(arg)
            done.append(number)

        for root in roots:
            visit(root)
        return done

    def constants(self, roots: Sequence[int]) -> list[int]:
        """The expressions below `roots` that do not change along a row, operands first; none where nothing is reduced."""
        if not self.program.reduced:
            return []
        return [n for n in self.order(roots) if not self.program.varies(n) and self.program.nodes[n].op not in ("const", "scalar", "fold")]

    def statement(self, number: int, index: str = "k", pointer: str = "p") -> str:
        """The declaration of one expression; leaves are read at `index` along the innermost loop."""
        node = self.program.nodes[number]
        kind = "bool" if node.dtype == "bool" else "int64_t" if node.dtype == "int64" else "float"
        if node.op == "leaf":
            value = f"{pointer}{node.value}[{at(self.inner.strides[node.value], index)}]"
            kind = TYPES[self.program.leaves[node.value].dtype][0]
        elif node.op == "stat":
            value = f"r{node.value}[k]" if self.columns else f"r{node.value}"
        elif node.op == "iota":
            value = self._counter(index)
        elif node.op == "fold":
            value = f"(float)f{node.value}"
        else:
            args = [self.name(a) for a in node.args]
            value = f"{CALLS[node.op]}({args[0]})" if node.op in CALLS else PLAIN[node.op].format(*args)
        return f"const {kind} t{number} = {value};"

    def _counter(self, index: str) -> str:
        counting = [i for i, loop in enumerate(self.loops) if loop.counts]
        if len(counting) != 1:
            raise Unmatchable("a formula must have one index")
        return index if counting[0] == len(self.loops) - 1 else f"i{counting[0]}"

    def body(self, roots: Sequence[int], known: Iterable[int]) -> list[str]:
        """Statements of the innermost loop for `roots`; those of `known` were declared before."""
        return [self.statement(n) for n in self.order(roots, known) if self.program.nodes[n].op not in NAMED]

    def decode(self, flat: str, places: Sequence[int]) -> list[str]:
        """Declarations of the loop indices of `places` from one flat number."""
        lines, rest = [], flat
        for position, place in enumerate(reversed(places)):
            last = position == len(places) - 1
            lines.append(f"const int64_t i{place} = {rest}{'' if last else f' % {self.loops[place].size}'};")
            rest = f"{rest} / {self.loops[place].size}"
        return lines

    def pointers(self, to: str, source: str, places: Sequence[int], shift: str = "") -> list[str]:
        """Declarations of the pointers `to`0, `to`1, ... from `source`'s, moved along the loops of `places` and by `shift` inner steps."""
        order, lines = self.operands(), []
        for number, leaf in enumerate(self.program.leaves):
            start = f"{source}{order.index(leaf.operand) if source == 'x' else number}"
            terms = [str(leaf.offset)] if leaf.offset and source == "x" else []
            terms += [at(self.loops[p].strides[number], f"i{p}") for p in places]
            terms += [at(self.inner.strides[number], shift)] if shift else []
            lines.append(f"const {TYPES[leaf.dtype][0]}* __restrict {to}{number} = {' + '.join([start, *(t for t in terms if t != '0')])};")
        terms = [at(self.loops[p].out, f"i{p}") for p in places] + ([at(self.inner.out, shift)] if shift else [])
        names = {"x": "y", "u": "v", "p": "q"}
        start = " + ".join([names[source], *(t for t in terms if t != "0")])
        return [*lines, f"{TYPES[self.program.out_dtype][0]}* {names[to]} = {start};"]

    def _stored(self) -> int | None:
        """A dear expression that both the last reducing pass and the result need: the output can hold it in between. Or None."""
        program = self.program
        if program.kind != "full" or not program.stats or program.out_dtype != "float32":
            return None
        last = max(stat.level for stat in program.stats)
        first = set(self.order(stat.expr for stat in program.stats if stat.level == last))
        shared = [n for n in self.order(program.results) if n in first and program.varies(n) and self._dear(n)]
        return shared[-1] if shared else None

    def _dear(self, number: int) -> bool:
        node = self.program.nodes[number]
        return node.dtype == "float32" and (node.op in DEAR or any(self._dear(a) for a in node.args))
