"""C++ loops for row programs whose innermost loop is kept: a thread takes `block` neighbouring results at a time.

Every result of a block has its own running sum (in double) on the thread's stack, so that all reads run along memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autokernel.proposers.cpp_expressions import NAMED, START, TYPES, Expressions, accumulate, at

MAX_BLOCK = 4096  # results of one thread's block; each costs up to 12 bytes of stack a reduction
EACH = "for (int64_t k = 0; k < count; ++k) "


def column_loops(words: Expressions) -> list[str]:
    """The loops, as lines of C++ at indentation 1."""
    program = words.program
    outer = math.prod(words.loops[i].size for i in words.kept)
    inside = ["const int64_t begin = tile % tiles * block;", f"const int64_t count = std::min<int64_t>(block, {words.inner.size} - begin);"]
    inside += ["const int64_t outer = tile / tiles;", *words.decode("outer", words.kept)] if words.kept else []
    inside += words.pointers("u", "x", words.kept, "begin")
    known: list[int] = []
    for stats in words.stats:
        exprs = [program.stats[s].expr for s in stats]
        inside += _constants(words, exprs, known)
        inside += _pass(words, stats, known)
    inside += _constants(words, program.results, known)
    inside += _result(words, known)
    return [f"const int64_t tiles = ({words.inner.size} + block - 1) / block;", "#pragma omp parallel for schedule(static)",
            f"for (int64_t tile = 0; tile < {outer} * tiles; ++tile) {{", *("    " + line for line in inside), "}"]


def _constants(words: Expressions, roots: Sequence[int], known: list[int]) -> list[str]:
    """Arrays h{n} of what changes from result to result but not along the reduced loops; extends `known`."""
    lines = []
    for number in words.constants(roots):
        if number in known or words.program.nodes[number].op in ("leaf", "stat"):
            continue
        known.append(number)
        kind = "bool" if words.program.nodes[number].dtype == "bool" else "float"
        body = [_constant(words, n) for n in words.order([number]) if n != number and words.program.nodes[n].op not in NAMED]
        text = words.statement(number).replace("const float ", "", 1).replace("const bool ", "", 1).replace(f"t{number} =", f"h{number}[k] =", 1)
        lines += [f"{kind} h{number}[{MAX_BLOCK}];", "#pragma omp simd", EACH + "{", *("    " + line for line in [*_direct(words, number, body), text]), "}"]
    return lines


def _direct(words: Expressions, number: int, body: Sequence[str]) -> list[str]:
    """Of `body`, the declarations of the expressions that `number` reads itself."""
    wanted = {f"t{a}" for a in words.program.nodes[number].args}
    return [line for line in body if line.split(" = ")[0].split()[-1] in wanted]


def _constant(words: Expressions, number: int) -> str:
    """A constant's value for result k: from its array, its reduction or its operand."""
    node = words.program.nodes[number]
    if node.op == "leaf":
        return words.statement(number, "k", "u")
    if node.op == "stat":
        return words.statement(number)
    return f"const {'bool' if node.dtype == 'bool' else 'float'} t{number} = h{number}[k];"


def _body(words: Expressions, roots: Sequence[int], known: Sequence[int]) -> list[str]:
    needed = words.order(roots, known)
    used = {a for n in needed for a in words.program.nodes[n].args} | set(roots)
    return [*(_constant(words, n) for n in known if n in used), *(words.statement(n) for n in needed if words.program.nodes[n].op not in NAMED)]


def _nest(words: Expressions, body: Sequence[str]) -> list[str]:
    """`body` inside the reduced loops."""
    lines, depth = [], 0
    for place in words.over:
        lines.append("    " * depth + f"for (int64_t i{place} = 0; i{place} < {words.loops[place].size}; ++i{place}) {{")
        depth += 1
    lines += ["    " * depth + line for line in [*words.pointers("p", "u", words.over), *body]]
    return [*lines, *("    " * d + "}" for d in reversed(range(depth)))]


def _pass(words: Expressions, stats: Sequence[int], known: Sequence[int]) -> list[str]:
    program = words.program
    lines, steps = [], []
    for s in stats:
        op, value = program.stats[s].op, words.name(program.stats[s].expr)
        if op.startswith("arg"):
            sign = "<=" if op == "argmax" else ">="
            start = START["amax" if op == "argmax" else "amin"]
            lines += [f"float s{s}[{MAX_BLOCK}];", f"int64_t r{s}[{MAX_BLOCK}];", EACH + f"{{ s{s}[k] = {start}; r{s}[k] = 0; }}"]
            steps += [f"const bool take{s} = !({value} {sign} s{s}[k]) && s{s}[k] == s{s}[k];  // the first NaN stays",
                      f"s{s}[k] = take{s} ? {value} : s{s}[k];", f"r{s}[k] = take{s} ? i{words.over[-1]} : r{s}[k];"]
        else:
            kind = "double" if op in ("sum", "prod") else "float"
            lines += [f"{kind} s{s}[{MAX_BLOCK}];", EACH + f"s{s}[k] = {START[op]};"]
            steps.append(accumulate(f"s{s}[k]", op, value))
    exprs = [program.stats[s].expr for s in stats]
    if words.stored in words.order(exprs, known) and program.stats[stats[0]].level == max(stat.level for stat in program.stats):
        steps.append(f"q[{at(words.inner.out, 'k')}] = t{words.stored};")
    body = ["#pragma omp simd", EACH + "{", *("    " + line for line in [*_body(words, exprs, known), *steps]), "}"]
    lines += _nest(words, body)
    plain = [s for s in stats if not program.stats[s].op.startswith("arg")]
    return [*lines, *(line for s in plain for line in (f"float r{s}[{MAX_BLOCK}];", EACH + f"r{s}[k] = (float)s{s}[k];"))]


def _result(words: Expressions, known: Sequence[int]) -> list[str]:
    program = words.program
    if program.kind == "row":
        store = f"folded[{{}} * {program.rows} + outer * {words.inner.size} + begin + k]" if words.kept else f"folded[{{}} * {program.rows} + begin + k]"
        targets = [store.format(n) for n in range(len(program.results))] if program.final is not None else [f"v[{at(words.inner.out, 'k')}]"]
        body = [line.replace(" p", " u", 1) if "= p" in line else line for line in _body(words, program.results, known)]
        return [EACH + "{", *("    " + line for line in [*body, *(f"{t} = {words.name(r)};" for t, r in zip(targets, program.results, strict=True))]), "}"]
    held = words.stored if words.stored in words.order(program.results, known) else None
    load = [f"const {TYPES['float32'][0]} t{held} = q[{at(words.inner.out, 'k')}];"] if held is not None else []
    inner = _body(words, program.results, [*known]) if held is None else \
        [line for line in _body_without(words, program.results, known, held)]
    body = ["#pragma omp simd", EACH + "{", *("    " + line for line in [*load, *inner]),
            f"    q[{at(words.inner.out, 'k')}] = {words.name(program.results[0])};", "}"]
    return _nest(words, body)


def _body_without(words: Expressions, roots: Sequence[int], known: Sequence[int], held: int) -> list[str]:
    needed = words.order(roots, [*known, held])
    used = {a for n in needed for a in words.program.nodes[n].args} | set(roots)
    return [*(_constant(words, n) for n in known if n in used), *(words.statement(n) for n in needed if words.program.nodes[n].op not in NAMED)]
