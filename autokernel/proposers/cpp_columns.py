"""C++ loops for row programs whose innermost loop is kept: a thread takes `block` neighbouring results at a time.

Every result of a block has its own running sum (in double) on the thread's stack, so that all reads run along memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autokernel.proposers.cpp_expressions import NAMED, START, Expressions, accumulate, at

MAX_BLOCK = 4096  # results of one thread's block; each costs up to 12 bytes of stack a reduction
EACH = "for (int64_t k = 0; k < count; ++k) "
SIMD = "#pragma omp simd"


def column_loops(words: Expressions) -> list[str]:
    """The loops, as lines of C++ at indentation 1."""
    program = words.program
    outer = math.prod(words.loops[i].size for i in words.kept)
    inside = ["const int64_t begin = tile % tiles * block;", f"const int64_t count = std::min<int64_t>(block, {words.inner.size} - begin);"]
    inside += ["const int64_t outer = tile / tiles;", *words.decode("outer", words.kept)] if words.kept else []
    inside += words.pointers("u", "x", words.kept, "begin")
    known: list[int] = []
    for stats in words.stats:
        inside += _constants(words, [program.stats[s].expr for s in stats], known)
        inside += _pass(words, stats, known)
    inside += _constants(words, program.results, known)
    inside += _row_result(words, known) if program.kind == "row" else _full_result(words, known)
    return [f"const int64_t tiles = ({words.inner.size} + block - 1) / block;", "#pragma omp parallel for schedule(static)",
            f"for (int64_t tile = 0; tile < {outer} * tiles; ++tile) {{", *("    " + line for line in inside), "}"]


def _each(lines: Sequence[str]) -> list[str]:
    """A loop over the block's results."""
    return [EACH + "{", *("    " + line for line in lines), "}"]


def _constants(words: Expressions, roots: Sequence[int], known: list[int]) -> list[str]:
    """Arrays h{n} of what changes from result to result but not along the reduced loops; extends `known`."""
    lines = []
    for number in words.constants(roots):
        node = words.program.nodes[number]
        if number in known or node.op in ("leaf", "stat"):
            continue
        known.append(number)
        kind = "bool" if node.dtype == "bool" else "float"
        needs = [_constant(words, a, "u") for a in dict.fromkeys(node.args) if words.program.nodes[a].op not in NAMED]
        text = words.statement(number).split(" = ", 1)[1]
        lines += [f"{kind} h{number}[{MAX_BLOCK}];", SIMD, *_each([*needs, f"h{number}[k] = {text}"])]
    return lines


def _constant(words: Expressions, number: int, pointer: str) -> str:
    """A constant's value for result k: from its operand, its reduction or its array."""
    node = words.program.nodes[number]
    if node.op in ("leaf", "stat"):
        return words.statement(number, "k", pointer)
    return f"const {'bool' if node.dtype == 'bool' else 'float'} t{number} = h{number}[k];"


def _body(words: Expressions, roots: Sequence[int], known: Sequence[int], held: int | None = None, pointer: str = "p") -> list[str]:
    """Statements for `roots`; constants come from their arrays and `held` from the output."""
    nodes = words.program.nodes
    needed = words.order(roots, [*known, *([held] if held is not None else [])])
    used = {a for n in needed for a in nodes[n].args} | set(roots)
    load = [f"const float t{held} = q[{at(words.inner.out, 'k')}];"] if held is not None else []
    return [*load, *(_constant(words, n, pointer) for n in known if n in used),
            *(words.statement(n, "k", pointer) for n in needed if nodes[n].op not in NAMED)]


def _nest(words: Expressions, body: Sequence[str]) -> list[str]:
    """`body` inside the reduced loops."""
    lines, depth = [], 0
    for place in words.over:
        lines.append("    " * depth + f"for (int64_t i{place} = 0; i{place} < {words.loops[place].size}; ++i{place}) {{")
        depth += 1
    lines += ["    " * depth + line for line in [*words.pointers("p", "u", words.over), *body]]
    return [*lines, *("    " * d + "}" for d in reversed(range(depth)))]


def _pass(words: Expressions, stats: Sequence[int], known: Sequence[int]) -> list[str]:
    """One reducing pass: declares r{s}[k] for each of `stats`."""
    program = words.program
    lines, steps, after = [], [], []
    for s in stats:
        op, value = program.stats[s].op, words.name(program.stats[s].expr)
        if op.startswith("arg"):
            start = START["amax" if op == "argmax" else "amin"]
            lines += [f"float s{s}[{MAX_BLOCK}];", f"int64_t r{s}[{MAX_BLOCK}];", EACH + f"{{ s{s}[k] = {start}; r{s}[k] = 0; }}"]
            worse = f"{value} {'<=' if op == 'argmax' else '>='} s{s}[k]"
            steps += [f"const bool take{s} = !({worse}) && s{s}[k] == s{s}[k];  // the first NaN stays",
                      f"s{s}[k] = take{s} ? {value} : s{s}[k];", f"r{s}[k] = take{s} ? i{words.over[-1]} : r{s}[k];"]
        else:
            kind = "double" if op in ("sum", "prod") else "float"
            lines += [f"{kind} s{s}[{MAX_BLOCK}];", EACH + f"s{s}[k] = {START[op]};"]
            steps.append(accumulate(f"s{s}[k]", op, value))
            after += [f"float r{s}[{MAX_BLOCK}];", EACH + f"r{s}[k] = (float)s{s}[k];"]
    exprs = [program.stats[s].expr for s in stats]
    if words.stored in words.order(exprs, known) and program.stats[stats[0]].level == max(stat.level for stat in program.stats):
        steps.append(f"q[{at(words.inner.out, 'k')}] = t{words.stored};")
    return [*lines, *_nest(words, [SIMD, *_each([*_body(words, exprs, known), *steps])]), *after]


def _row_result(words: Expressions, known: Sequence[int]) -> list[str]:
    program = words.program
    place = f"outer * {words.inner.size} + begin + k" if words.kept else "begin + k"
    targets = [f"folded[{n} * {program.rows} + {place}]" for n in range(program.folds)] or [f"v[{at(words.inner.out, 'k')}]"]
    stores = [f"{target} = {words.name(result)};" for target, result in zip(targets, program.results, strict=True)]
    return _each([*_body(words, program.results, known, pointer="u"), *stores])


def _full_result(words: Expressions, known: Sequence[int]) -> list[str]:
    result = words.program.results[0]
    held = words.stored if words.stored in words.order([result], known) else None
    return _nest(words, [SIMD, *_each([*_body(words, [result], known, held), f"q[{at(words.inner.out, 'k')}] = {words.name(result)};"])])
