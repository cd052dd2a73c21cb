"""C++ loops for row programs whose innermost loop is reduced, and for elementwise chains, where nothing is.

A row is cut into items of at most `chunk` steps of the innermost loop. Sums are kept in float for PART steps, which vectorises, and
added up in double, for many equal values round the same way every time. With many rows a thread takes whole rows; with few long ones,
and for elementwise chains, the threads share each row's items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autokernel.proposers.cpp_expressions import START, Expressions, accumulate, at

SPLIT_BELOW_ROWS = 16
SPLIT_ABOVE_COLUMNS = 65536
SIMD = {"sum": "+", "prod": "*", "amax": "max", "amin": "min"}
PART = 256
PARALLEL = "#pragma omp parallel for schedule(static)"


def shares_rows(words: Expressions) -> bool:
    """Whether the threads share each row instead of taking rows."""
    program = words.program
    return not program.reduced or (rows(words) < SPLIT_BELOW_ROWS and program.columns > SPLIT_ABOVE_COLUMNS)


def rows(words: Expressions) -> int:
    """How many rows the code loops over: one for an elementwise chain."""
    return math.prod(words.loops[i].size for i in words.kept)


def row_loops(words: Expressions) -> list[str]:
    """The loops, as lines of C++ at indentation 1."""
    program, shared = words.program, shares_rows(words)
    items = math.prod(words.loops[i].size for i in words.over)
    lines = [f"const int64_t chunks = ({words.inner.size} + chunk - 1) / chunk;", f"const int64_t items = {items} * chunks;"]
    lines += ["(void)items;"] if any(stat.op.startswith("arg") for stat in program.stats) else []
    lines += [] if shared else [PARALLEL]
    lines += [f"for (int64_t row = 0; row < {rows(words)}; ++row) {{"] if program.reduced else ["{"]
    inside = [*words.decode("row", words.kept), *words.pointers("u", "x", words.kept)]
    known: list[int] = []
    for stats in words.stats:
        exprs = [program.stats[s].expr for s in stats]
        inside += _constants(words, exprs, known)
        inside += _arg_pass(words, stats[0], known) if program.stats[stats[0]].op.startswith("arg") else _pass(words, stats, known, shared)
    inside += _constants(words, program.results, known)
    inside += _result(words, known, shared)
    return [*lines, *("    " + line for line in inside), "}"]


def _constants(words: Expressions, roots: Sequence[int], known: list[int]) -> list[str]:
    """Declarations of what does not change along the row; extends `known`."""
    fresh = [n for n in words.constants(roots) if n not in known]
    known += fresh
    return [words.statement(n, "0", "u") for n in fresh]


def _item(words: Expressions) -> list[str]:
    outer = ["const int64_t outer = item / chunks;", *words.decode("outer", words.over)] if words.over else []
    return ["const int64_t begin = item % chunks * chunk;", f"const int64_t end = std::min<int64_t>(begin + chunk, {words.inner.size});",
            *outer, *words.pointers("p", "u", words.over)]


def _pass(words: Expressions, stats: Sequence[int], known: Sequence[int], shared: bool) -> list[str]:
    """One reducing pass over the row: declares r{s} for each of `stats`."""
    program = words.program
    ops = {s: program.stats[s].op for s in stats}
    exprs = [program.stats[s].expr for s in stats]
    groups: dict[str, list[str]] = {}
    for s in stats:
        groups.setdefault(SIMD[ops[s]], []).append(f"b{s}")
    clauses = " ".join(f"reduction({op} : {', '.join(names)})" for op, names in groups.items())
    needed = words.order(exprs, known)
    store = words.stored in needed and program.stats[stats[0]].level == max(stat.level for stat in program.stats)
    body = [*words.body(exprs, known), *([f"q[{at(words.inner.out, 'k')}] = t{words.stored};"] if store else []),
            *(accumulate(f"b{s}", ops[s], words.name(program.stats[s].expr)) for s in stats)]
    wide = {s: "double" if ops[s] in ("sum", "prod") else "float" for s in stats}
    lines = [f"{wide[s]} s{s} = {START[ops[s]]};" for s in stats]
    into = "d" if shared else "s"  # what an item's sums go into
    own = [f"{wide[s]} d{s} = {START[ops[s]]};" for s in stats] if shared else []
    loop = [*_item(words), *own, f"for (int64_t part = begin; part < end; part += {PART}) {{",
            f"    const int64_t stop = std::min<int64_t>(part + {PART}, end);",
            *(f"    float b{s} = {START[ops[s]]};" for s in stats),
            f"    #pragma omp simd {clauses}", "    for (int64_t k = part; k < stop; ++k) {",
            *("        " + line for line in body), "    }",
            *("    " + accumulate(f"{into}{s}", ops[s], f"b{s}") for s in stats), "}"]
    each = "for (int64_t item = 0; item < items; ++item) {"
    if shared:
        places = {s: f"parts[item * {len(stats)} + {n}]" for n, s in enumerate(stats)}
        lines += [f"std::vector<double> parts(items * {len(stats)});", PARALLEL, each, *("    " + line for line in loop),
                  *(f"    {places[s]} = d{s};" for s in stats), "}", each,
                  *("    " + accumulate(f"s{s}", ops[s], f"({wide[s]}){places[s]}") for s in stats), "}"]
    else:
        lines += [each, *("    " + line for line in loop), "}"]
    return [*lines, *(f"const float r{s} = (float)s{s};" for s in stats)]


def _arg_pass(words: Expressions, s: int, known: Sequence[int]) -> list[str]:
    """The first index of the largest (smallest) value: the extreme first, then a search for it."""
    stat = words.program.stats[s]
    op = "amax" if stat.op == "argmax" else "amin"
    value = words.name(stat.expr)
    loop = [f"for (int64_t k = 0; k < {words.inner.size}; ++k) {{", *("    " + line for line in words.body([stat.expr], known))]
    start = [f"float b{s} = {START[op]};", f"#pragma omp simd reduction({SIMD[op]} : b{s})"]
    return [*words.pointers("p", "u", []), "(void)q;", *start, *loop, "    " + accumulate(f"b{s}", op, value), "}", f"int64_t r{s} = 0;",
            *loop, f"    if ({value} == b{s} || {value} != {value}) {{ r{s} = k; break; }}", "}"]


def _result(words: Expressions, known: Sequence[int], shared: bool) -> list[str]:
    program = words.program
    if program.final is not None:
        return [f"folded[{n} * {program.rows} + row] = {words.name(result)};" for n, result in enumerate(program.results)] + ["(void)v;"]
    if program.kind == "row":
        return [f"v[0] = {words.name(program.results[0])};"]
    held = words.stored if words.stored in words.order(program.results, known) else None
    load = [f"const float t{held} = q[{at(words.inner.out, 'k')}];"] if held is not None else []
    body = [*load, *words.body(program.results, [*known, *([held] if held is not None else [])]),
            f"q[{at(words.inner.out, 'k')}] = {words.name(program.results[0])};"]
    return [*([PARALLEL] if shared else []), "for (int64_t item = 0; item < items; ++item) {", *("    " + line for line in _item(words)),
            "    #pragma omp simd", "    for (int64_t k = begin; k < end; ++k) {", *("        " + line for line in body), "    }", "}"]
