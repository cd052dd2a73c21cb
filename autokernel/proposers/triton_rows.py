"""Row programs as Triton kernels: softmax, norms, losses, elementwise chains, and whatever mixes them over the same rows.

Three ways, by the tile: a row in one tile is read once; a longer one is walked by one program, a pass for each level of statistics;
few long rows are cut into splits, each pass two small kernels, so that the whole device has work.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from autokernel.proposers.graph import Graph, Unmatchable
from autokernel.proposers.hooks_triton import GATHER, IDENTITY
from autokernel.proposers.match import Match
from autokernel.proposers.program import Program
from autokernel.proposers.triton_words import Words

Choice = Mapping[str, Any]
PARAMS: Choice = {"tile": 4096, "lanes": 1, "splits": 1, "num_warps": 4}
SPACE: Mapping[str, list[Any]] = {
    "tile": [1024, 2048, 4096, 8192, 16384, 32768], "lanes": [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096],
    "splits": [1, 2, 4, 8, 16, 32, 64, 128, 264, 528, 1056], "num_warps": [2, 4, 8, 16, 32],
}
WHOLE = 32768  # columns that one tile still holds
FEW = 264  # programs below which an H200 (132 multiprocessors) stands partly idle


def rows_match(graph: Graph, program: Program) -> Match:
    """A row program as a match of no starter: its kernels are written for it. Raises Unmatchable where it has no words in Triton."""
    words = Words(program, graph)
    inputs: list[Any] = [("operand", o) for o in words.operands]
    inputs += [("scalar", s) for s in words.scalars]
    what = "chain" if not program.stats else "/".join(dict.fromkeys(s.op for s in program.stats))
    passes = "" if len(words.levels) < 2 else f" in {len(words.levels)} passes"
    idea = f"{what} over {words.rows} rows of {words.columns}{passes}"
    return Match("rows", {"program": program}, tuple(inputs), program.out_shape, idea)


def power_of_2(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << max(number - 1, 0).bit_length()


def first_rows(graph: Graph, program: Program) -> list[Choice]:
    """The launch parameters to try first: a whole row in a tile where it fits, else enough splits to fill the device."""
    words = Words(program, graph)
    n, rows = power_of_2(words.columns), power_of_2(words.rows)
    if not program.stats:
        if words.over:
            return [{"tile": 4096, "lanes": min(64, rows), "splits": 1, "num_warps": 8}]
        return [{"tile": block, "lanes": min(block, rows), "splits": 1, "num_warps": warps} for block, warps in ((2048, 8), (1024, 4))]
    if words.along_rows:
        lanes = min(128 if n > 128 else 64, rows)
        if n * lanes <= 16384:
            return [{"tile": n * lanes, "lanes": lanes, "splits": 1, "num_warps": 8}]
        splits = _splits(-(-words.rows // lanes), words.columns, 4096 // lanes)
        return [{"tile": 4096, "lanes": lanes, "splits": splits, "num_warps": 8}]
    if n <= WHOLE and words.rows >= FEW // 4:
        lanes = min(max(1, 2048 // n), 16, rows)
        warps = 4 if n <= 4096 else 8 if n <= 8192 else 16 if n <= 16384 else 32
        return [{"tile": n * lanes, "lanes": lanes, "splits": 1, "num_warps": warps}]
    splits = _splits(words.rows, words.columns, 4096)
    return [{"tile": 4096, "lanes": 1, "splits": splits, "num_warps": 8}]


def _splits(programs: int, columns: int, step: int) -> int:
    if programs >= FEW:
        return 1
    wanted = max(1, min(-(-4 * FEW // programs), columns // (2 * step)))
    return max(int(s) for s in SPACE["splits"] if s <= wanted)


def rows_text(program: Program, graph: Graph, name: str, params: Choice, key: str = "") -> str:
    """The kernels and the function `name(x0, ...)` that launches them; `key` is how the text says PARAMS."""
    words = Words(program, graph)
    lanes = min(params["lanes"], power_of_2(words.rows), params["tile"])
    block = min(params["tile"] // lanes, power_of_2(words.columns))
    made = _Text(words, name, key or "PARAMS")
    if not program.stats:
        return made.tiles()
    if block >= words.columns:
        return made.whole()
    if params["splits"] > 1:
        return made.split()
    return made.looped()


class _Text:
    """Writes one program's kernels under one name."""

    def __init__(self, words: Words, name: str, params: str) -> None:
        self.words, self.name, self.params = words, name, params
        self.program = words.program
        self.tensors = [f"x{i}" for i in range(len(words.operands))]
        self.takes = [*self.tensors, *(f"a{s}" for s in words.scalars)]

    # ------------------------------------------------------------ pieces

    def head(self, lane: bool = True, column: str | None = None) -> list[str]:
        """lane (and columns from `column`) with their masks and loop indices."""
        words, lines = self.words, []
        if lane:
            pid = "tl.program_id(0).to(tl.int64)" if words.wide else "tl.program_id(0)"
            lines += [f"lane = {pid} * BLOCK_L + tl.arange(0, BLOCK_L)[:, None]", f"lanes = lane < {words.rows}",
                      *words.decode("lane", words.kept)]
        if column is not None:
            last = f"col < {words.columns}"
            first = f"({column}).to(tl.int64)" if words.wide_across else column
            lines += [f"col = {first}", f"columns = {last}", *words.decode("col", words.over), "mask = lanes & columns"]
        return lines

    def kernel(self, suffix: str, arguments: Sequence[str], doc: str, body: Sequence[str]) -> str:
        """One kernel's text."""
        lines = [f'"""{doc}"""', *body]
        return (f"@triton.jit\ndef {self.name}_{suffix}({', '.join(arguments)}):\n" + textwrap.indent("\n".join(lines), "    "))

    def gathered(self, stat: int, value: str, axis: str = "mask") -> str:
        """A statistic of one tile, [L, 1]."""
        op = self.program.stats[stat].op
        masked = f"tl.where({axis}, {value}, {IDENTITY[op]})"
        return f"tl.sum({masked}, 1, keep_dims=True)" if op == "sum" else f"tl.reduce({masked}, 1, {GATHER[op]}, keep_dims=True)"

    def result(self, known: list[int], extra: str = "") -> list[str]:
        """The result's statements and its store."""
        words, root = self.words, self.program.results[0]
        mask = "mask" if self.program.kind == "full" else "lanes"
        return [*words.statements([root], known, extra), f"tl.store({words.target()}, {words.name(root)}, mask={mask})"]

    def launch(self, lines: Sequence[str], doc: str) -> str:
        """The function that launches the kernels."""
        shape, dtype = tuple(self.program.out_shape), self.program.out_dtype
        first = self.tensors[0]
        typed = [*(f"{t}: torch.Tensor" for t in self.tensors), *(f"{t}: float" for t in self.takes[len(self.tensors):])]
        body = [f'"""{doc}"""', f"y = torch.empty({shape}, dtype=torch.{dtype}, device={first}.device)",
                f'lanes = min({self.params}["lanes"], {power_of_2(self.words.rows)}, {self.params}["tile"])',
                f'block = min({self.params}["tile"] // lanes, {power_of_2(self.words.columns)})', *lines, "return y"]
        return f"def {self.name}({', '.join(typed)}) -> torch.Tensor:\n" + textwrap.indent("\n".join(body), "    ")

    @property
    def warps(self) -> str:
        """The launch option."""
        return f'num_warps={self.params}["num_warps"]'

    @property
    def shape(self) -> str:
        """What the rows are, for docstrings."""
        return f"{self.words.rows} rows of {self.words.columns}"

    # ------------------------------------------------------------ ways

    def tiles(self) -> str:
        """Nothing is reduced: a tile a program."""
        body = [*self.head(column="tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]"), *self.result([])]
        sizes = ["BLOCK_L: tl.constexpr", "BLOCK_N: tl.constexpr"]
        grid = f"(-(-{self.words.rows} // lanes), -(-{self.words.columns} // block))"
        run = self.launch([f"{self.name}_kernel[{grid}]({', '.join([*self.takes, 'y', 'lanes', 'block'])}, {self.warps})"],
                          f"One pass over {self.words.rows * self.words.columns} elements; {_shape(self.program)}.")
        return "\n\n\n".join([self.kernel("kernel", [*self.takes, "y", *sizes], "One tile of the result.", body), run])

    def whole(self) -> str:
        """A row lies in one tile: everything is read once."""
        words, known = self.words, list[int]()
        body = self.head(column="tl.arange(0, BLOCK_N)[None, :]")
        for s, stat in enumerate(self.program.stats):
            body += words.statements([stat.expr], known)
            body.append(f"r{s} = {self.gathered(s, words.name(stat.expr))}")
        body += self.result(known)
        sizes = ["BLOCK_L: tl.constexpr", "BLOCK_N: tl.constexpr"]
        arguments = ", ".join([*self.takes, "y", "lanes", "block"])
        launch = [f"assert block >= {words.columns}  # this text holds whole rows",
                  f"{self.name}_kernel[(-(-{words.rows} // lanes),)]({arguments}, {self.warps})"]
        kernel = self.kernel("kernel", [*self.takes, "y", *sizes], "BLOCK_L whole rows, read once.", body)
        return "\n\n\n".join([kernel, self.launch(launch, f"{self.shape}, each in one tile; {_shape(self.program)}.")])

    def one_pass(self, stats: Sequence[int], begin: str, length: str, kept: Sequence[int]) -> list[str]:
        """Walks columns begin .. begin + length; gives r{s} of each statistic (of a pair: its mean m and its squares r)."""
        words, program = self.words, self.program
        alone = [s for s in stats if s not in words.pairs and s not in words.pairs.values()]
        pairs = {s: words.pairs[s] for s in stats if s in words.pairs}
        start, inside = list[str](), list[str]()
        known = list(kept)  # what the loop says is said anew by the next pass
        inside += self.head(lane=False, column=f"{begin} + start + tl.arange(0, BLOCK_N)[None, :]")
        inside += words.statements([program.stats[s].expr for s in [*alone, *pairs.values()]], known)
        for s in alone:
            op, value = program.stats[s].op, words.name(program.stats[s].expr)
            start.append(f"b{s} = tl.full([BLOCK_L, BLOCK_N], {IDENTITY[op]}, tl.float32)")
            masked = f"tl.where(mask, {value}, {IDENTITY[op]})"
            inside.append(f"b{s} = b{s} + {masked}" if op == "sum" else f"b{s} = {GATHER[op]}(b{s}, {masked})")
        if pairs:
            start += ["seen = 0.0", "count = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)"]
            inside += ["seen += 1.0", "count = tl.where(mask, seen, count)"]
        for s, first in pairs.items():
            value = words.name(program.stats[first].expr)
            start += [f"m{s} = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)", f"b{s} = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)"]
            inside += [f"away{s} = {value} - m{s}", f"moved{s} = m{s} + away{s} / seen",
                       f"b{s} = tl.where(mask, b{s} + away{s} * ({value} - moved{s}), b{s})", f"m{s} = tl.where(mask, moved{s}, m{s})"]
        after = []
        for s in alone:
            op = program.stats[s].op
            after.append(f"r{s} = tl.sum(b{s}, 1, keep_dims=True)" if op == "sum"
                         else f"r{s} = tl.reduce(b{s}, 1, {GATHER[op]}, keep_dims=True)")
        for s in pairs:
            after += ["number = tl.maximum(tl.sum(count, 1, keep_dims=True), 1.0)",
                      f"center{s} = tl.sum(m{s} * count, 1, keep_dims=True) / number",
                      f"r{s} = tl.sum(b{s} + count * (m{s} - center{s}) * (m{s} - center{s}), 1, keep_dims=True)"]
        return [*start, f"for start in range(0, {length}, BLOCK_N):", *("    " + line for line in inside), *after]

    def looped(self) -> str:
        """One program walks its rows, once for each pass."""
        words = self.words
        body, known = self.head(), list[int]()
        for stats in words.levels:
            body += self.steady(self.roots(stats), known)
            body += self.one_pass(stats, "0", str(words.columns), known)
            body += [f"r{words.pairs[s]} = center{s} * {float(words.columns)}" for s in stats if s in words.pairs]
        if self.program.kind == "row":
            body += self.result(known)
        else:
            body += self.steady(self.program.results, known)
            inside = [*self.head(lane=False, column="start + tl.arange(0, BLOCK_N)[None, :]"), *self.result(list(known))]
            body += [f"for start in range(0, {words.columns}, BLOCK_N):", *("    " + line for line in inside)]
        sizes = ["BLOCK_L: tl.constexpr", "BLOCK_N: tl.constexpr"]
        arguments = ", ".join([*self.takes, "y", "lanes", "block"])
        launch = [f"{self.name}_kernel[(-(-{words.rows} // lanes),)]({arguments}, {self.warps})"]
        doc = f"BLOCK_L rows, walked in {len(words.levels)} passes and a last one."
        kernel = self.kernel("kernel", [*self.takes, "y", *sizes], doc, body)
        return "\n\n\n".join([kernel, self.launch(launch, f"{self.shape}, walked in tiles; {_shape(self.program)}.")])

    def steady(self, roots: Sequence[int], known: list[int]) -> list[str]:
        """Statements of what does not change along a row, said before the loop."""
        return self.words.statements([n for n in self.words.order(roots) if not self.program.varies(n)], known)

    def roots(self, stats: Sequence[int]) -> list[int]:
        """The expressions that a pass computes: of a pair only what its mean is of."""
        return [self.program.stats[s].expr for s in stats if s not in self.words.pairs]

    def split(self) -> str:
        """Each pass by (row tile, split) programs, their parts joined by a small kernel."""
        words, kernels = self.words, list[str]()
        launch = [f'splits = {self.params}["splits"]', f"chunk = -(-{words.columns} // splits // block) * block",
                  f"splits = -(-{words.columns} // chunk)", f"tiles = -(-{words.rows} // lanes)",
                  f"parts = torch.empty({2 * max(map(len, words.levels))} * splits * {words.rows}, dtype=torch.float32, device=y.device)",
                  f"stats = torch.empty({len(self.program.stats)} * {words.rows}, dtype=torch.float32, device=y.device)"]
        sizes = ["SPLITS: tl.constexpr", "CHUNK: tl.constexpr", "BLOCK_L: tl.constexpr", "BLOCK_N: tl.constexpr"]
        done: list[int] = []
        for level, stats in enumerate(words.levels):
            suffix = f"pass{level}"
            known: list[int] = []
            body = [*self.head(), "split = tl.program_id(1)", *self.known_stats(done)]
            body += self.steady(self.roots(stats), known)
            body += self.one_pass(stats, "split * CHUNK", "CHUNK", known)
            body += [f"tl.store(parts + ({place} * SPLITS + split) * {words.rows} + lane, {name}, mask=lanes)"
                     for place, (_, name) in enumerate(self.part_names(stats))]
            kernels.append(self.kernel(suffix, [*self.takes, "parts", "stats", *sizes], "One split of some rows.", body))
            launch.append(f"{self.name}_{suffix}[(tiles, splits)]({', '.join([*self.takes, 'parts', 'stats'])}, "
                          f"splits, chunk, lanes, block, {self.warps})")
            last = level == len(words.levels) - 1 and self.program.kind == "row"
            kernels.append(self.join(level, stats, done, last))
            narrow = f"min({power_of_2(words.rows)}, max(1, 2048 // (1 << (splits - 1).bit_length())))"
            arguments = ", ".join([*self.takes, "parts", "stats", "y", "splits", "chunk", "narrow", "1 << (splits - 1).bit_length()"])
            launch += [f"narrow = {narrow}",
                       f"{self.name}_join{level}[(-(-{words.rows} // narrow),)]({arguments}, num_warps=4)"]
            done += stats
        if self.program.kind == "full":
            head = self.head(column="tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]")
            body = [*head, *self.known_stats(done), *self.result([])]
            kernels.append(self.kernel("last", [*self.takes, "stats", "y", *sizes[2:]], "One tile of the result.", body))
            launch.append(f"{self.name}_last[(tiles, -(-{words.columns} // block))]({', '.join([*self.takes, 'stats', 'y'])}, "
                          f"lanes, block, {self.warps})")
        return "\n\n\n".join([*kernels, self.launch(launch, f"{self.shape}, split over programs; {_shape(self.program)}.")])

    def part_names(self, stats: Sequence[int]) -> list[tuple[int, str]]:
        """What a pass leaves for the join, in order: the statistic and the name of a part of it."""
        pairs = self.words.pairs
        return [(s, f"{name}{s}") for s in stats if s not in pairs.values() for name in (("center", "r") if s in pairs else ("r",))]

    def known_stats(self, done: Sequence[int]) -> list[str]:
        """Loads of the statistics that earlier passes gave."""
        return [f"r{s} = tl.load(stats + {s * self.words.rows} + lane, mask=lanes, other=0.0)" for s in done]

    def join(self, level: int, stats: Sequence[int], done: Sequence[int], last: bool) -> str:
        """Joins a pass's parts, always in the same order; after the last pass of a row result it also stores that."""
        words = self.words
        body = [*self.head(), "s = tl.arange(0, BLOCK_S)[None, :]", "within = lanes & (s < SPLITS)",
                f"length = tl.minimum(tl.maximum({words.columns} - s * CHUNK, 0), CHUNK).to(tl.float32)"]
        for place, (s, name) in enumerate(self.part_names(stats)):
            other = IDENTITY[self.program.stats[s].op]
            body.append(f"p_{name} = tl.load(parts + ({place} * SPLITS + s) * {words.rows} + lane, mask=within, other={other})")
        for s in stats:
            if s in words.pairs:
                body += [f"center = tl.sum(tl.where(within, p_center{s} * length, 0.0), 1, keep_dims=True) / {float(words.columns)}",
                         f"away = p_center{s} - center", f"r{words.pairs[s]} = center * {float(words.columns)}",
                         f"r{s} = tl.sum(tl.where(within, p_r{s} + length * away * away, 0.0), 1, keep_dims=True)"]
            elif s not in words.pairs.values():
                body.append(f"r{s} = {self.gathered(s, f'p_r{s}', 'within')}")
        if last:
            body += [*self.known_stats(done), *self.result([])]
        else:
            body += [f"tl.store(stats + {s * words.rows} + lane, r{s}, mask=lanes)" for s in stats]
        sizes = ["SPLITS: tl.constexpr", "CHUNK: tl.constexpr", "BLOCK_L: tl.constexpr", "BLOCK_S: tl.constexpr"]
        return self.kernel(f"join{level}", [*self.takes, "parts", "stats", "y", *sizes], "All splits of some rows, joined.", body)


def _shape(program: Program) -> str:
    return f"gives {program.out_dtype} of shape {tuple(program.out_shape)}"


def needs_words(match: Match) -> Sequence[str]:
    """The operations and gatherings a rows match's text calls by name, for the helpers to be put before it."""
    program: Program = match.shape["program"]
    if not isinstance(program, Program):
        raise Unmatchable("a rows match must carry its program")
    return [*(node.op for node in program.nodes), *(stat.op for stat in program.stats)]
