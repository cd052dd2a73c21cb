"""Row programs as C++ for the CPU: one `extern "C"` function with OpenMP outside and `omp simd` inside."""

from __future__ import annotations

from dataclasses import dataclass

from autokernel.proposers.cpp_columns import column_loops
from autokernel.proposers.cpp_expressions import CALLS, NAMED, TYPES, Expressions
from autokernel.proposers.cpp_math import texts
from autokernel.proposers.cpp_rows import row_loops, shares_rows
from autokernel.proposers.graph import Graph
from autokernel.proposers.program import Program

ENTRY = "fused"
HELPERS = """\
static inline float larger(float a, float b) { return ((a > b) | (a != a)) ? a : b; }  // NaN wins, as in torch
static inline float smaller(float a, float b) { return ((a < b) | (a != a)) ? a : b; }
"""


@dataclass(frozen=True)
class CppKernel:
    """A kernel's C++ text, its entry's arguments as SIGNATURES writes them, and the launch parameters it takes with their choices."""

    source: str
    signature: str
    operands: tuple[int, ...]  # the graph's operands, in the order of the arguments
    scalars: tuple[int, ...]  # positions of the float inputs, after them
    params: dict[str, int]
    space: dict[str, list[int]]
    keeps: bool  # whether `keep` made a difference


def emit(program: Program, graph: Graph, keep: bool = True) -> CppKernel:
    """The kernel of a program. `keep`: hold a dear intermediate in the output between passes instead of computing it twice.

    Raises Unmatchable for types and operations that have no words in C++ here.
    """
    words = Expressions(program, graph, keep)
    body = column_loops(words) if words.columns else row_loops(words)
    params, space = _parameters(words)
    tensors = [(f"x{i}", graph.operands[o].dtype) for i, o in enumerate(words.operands())]
    scalars = tuple(sorted({n.value for n in program.nodes if n.op == "scalar"}))
    arguments = [*(f"const {TYPES[t][0]}* {n}" for n, t in tensors), *(f"float a{s}" for s in scalars), f"{TYPES[program.out_dtype][0]}* y"]
    declared = [*(f"{TYPES[t][1]} {n}" for n, t in tensors), *(f"f32 a{s}" for s in scalars), f"{TYPES[program.out_dtype][1]} y"]
    functions = texts(CALLS[n.op] for n in program.nodes if n.op in CALLS)
    folded = [f"std::vector<double> folded({program.folds} * {program.rows});"] if program.final is not None else []
    lines = ["#include <algorithm>", "#include <vector>", '#pragma GCC optimize("no-math-errno,no-trapping-math")', "", HELPERS]
    lines += [functions] if functions else []
    lines += [f'extern "C" int {ENTRY}({", ".join(arguments)}, {", ".join(f"int64_t {name}" for name in params)}) {{']
    lines += ["    " + line for line in [*folded, *body, *_final(words), "return 0;"]]
    signature = ", ".join([*declared, *(f"i64 {name}" for name in params)])
    return CppKernel("\n".join([*lines, "}", ""]), signature, tuple(words.operands()), scalars, params, space, words.stored is not None)


def _parameters(words: Expressions) -> tuple[dict[str, int], dict[str, list[int]]]:
    if words.columns:
        return {"block": 1024}, {"block": [64, 128, 256, 512, 1024, 2048, 4096]}
    size = 16384 if shares_rows(words) else 1024
    return {"chunk": size}, {"chunk": [size // 4, size // 2, size, size * 2, size * 4]}


def _final(words: Expressions) -> list[str]:
    """The sums over all rows and the formula of them, where the program has one."""
    program = words.program
    if program.final is None:
        return []
    lines = []
    for fold in range(program.folds):
        each = f"for (int64_t row = 0; row < {program.rows}; ++row)"
        lines += [f"double f{fold} = 0;", f"{each} f{fold} += folded[{fold} * {program.rows} + row];"]
    lines += [words.statement(n) for n in words.order([program.final]) if program.nodes[n].op not in NAMED]
    return [*lines, f"y[0] = {words.name(program.final)};"]
