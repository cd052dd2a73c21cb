"""The launch parameters that a starter is tried with first, by operation and shape: what is likeliest to win, then what differs most.

Numbers come from measurements on an H200 (132 multiprocessors) and from what an operation must move and multiply; they only order the
search, which goes on from the fastest of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autokernel.proposers.graph import Value, numel
from autokernel.proposers.match import Match

Choice = Mapping[str, Any]
PROCESSORS = 132
LONG_K = 1024  # sums from here on hide a tile's start and end
EMULATED_K = 1536  # from here on three bfloat16 products are well within the bound: at 1024 rms errors were 8.2 times eager's (8 allowed),
# and the ratio goes as 1 / sqrt(K)
SHALLOW, FEW_CHANNELS = 128, 16  # products of an element of a convolution and channels, below both of which the library leaves TF32 alone,
# as with fewer than 8 channels in 3D and with groups when transposed: found by the errors of KernelBench's references
MULTIPLIED, WRITTEN, WRITTEN_APART = 150e12, 2e12, 0.25e12  # a second: TF32 operations of an implicit GEMM; bytes of neighbours, and of
# outputs a stride apart, as measured on KernelBench's four strided transposed convolutions that lost (0.19 to 0.27e12)
LONG_CHAIN = 11  # operations of an epilogue from which on registers run out before tiles of 128 x 128 do
# what an operation counts for there; others one
WEIGHTS = {"tanh": 8, "sigmoid": 2, "log1p": 5, "expm1": 5, "erf": 6, "sin": 6, "cos": 6, "leaf": 0, "const": 0, "scalar": 0}
SHORT_SUM = 128  # products of a pointwise convolution's element, up to which its tiles wait for memory and not for tensor cores
LONGEST_SUM = 1024  # products that a tensor core adds up before what it cuts off counts; longer sums are ended there and added outside
LONGEST_ROW = 32768  # that one program holds in its registers
WORTH_SPLITTING = 300  # M * N / (M + N): products for each element of A and B that is written in parts first


def first_choices(match: Match, params: Choice, backend: str) -> tuple[Choice, ...]:
    """Whole sets of parameters, the likeliest first, each different; `params` are the starter's own."""
    makers = {"conv": convolution, "matmul": matmul, "softmax": softmax, "layernorm": layernorm, "groupnorm": groupnorm,
              "norm_scale": norm_scale, "reduce": reduction, "attention": attention, "pooling": windows, "depthwise_conv": windows}
    maker = makers.get(match.op) if backend == "triton" else None
    changes = maker(match) if maker is not None else [{}]
    made = [{**params, **{k: v for k, v in change.items() if k in params}} for change in changes]
    return tuple(choice for n, choice in enumerate(made) if choice not in made[:n])


def open_choices(match: Match, space: Mapping[str, list[Any]], firsts: Sequence[Choice]) -> dict[str, list[Any]]:
    """What a starter leaves open for this match: its own values and those tried first, without parameters that change nothing here."""
    idle = {"rows"} if match.op == "conv" and not whole_rows(match) else set()
    return {name: [*values, *dict.fromkeys(c[name] for c in firsts if c[name] not in values)]
            for name, values in space.items() if name not in idle}


def matmul(match: Match) -> list[Choice]:
    """Tiles by how many there are, bfloat16 parts by K, written apart where every element meets many."""
    a, b = match.inputs[0].shape, match.inputs[1].shape
    m, n, k = numel(a[:-1]) if len(b) == 2 else a[-2], b[-1], a[-1]
    batch = numel(a[:-2]) if len(b) > 2 else 1
    single = match.inputs[0].dtype == match.inputs[1].dtype == "float32"
    few = -(-m // 128) * -(-n // 128) * batch < PROCESSORS // 2 and k < 8 * LONG_K
    side = 64 if few else 128
    square: Choice = {"block_m": side, "block_n": side, "block_k": 64, "num_warps": 4 if few else 8, "num_stages": 3}
    broad = {**square, "block_n": 256}
    pad = "pad" if m * n * k * batch >= 1 << 30 else "none"
    precision, other, parts = ("bf16x3", "bf16x6", 3) if k >= EMULATED_K else ("bf16x6", "tf32x3", 6)
    steps = k * (parts if single else 1)  # a short sum leaves its tile's output to be hidden behind another tile's sum
    roomy = not has_long_chain(match)
    by_size = [broad, square] if roomy and -(-m // 128) * -(-n // 256) * batch >= PROCESSORS and steps >= LONG_K else [square, broad]
    if not single:
        return [{**tiles, "prepare": pad} for tiles in by_size]
    looped: Choice = {**square, "block_k": 32, "precision": precision, "prepare": pad}
    if match.shape["triangular_inputs"] or m * n / (m + n) < WORTH_SPLITTING:
        return [looped, {**looped, "precision": other}, {**looped, "precision": "ieee"}]
    flush = LONGEST_SUM if k > LONGEST_SUM else 0
    apart = [{**tiles, "precision": precision, "prepare": "split", "flush": flush} for tiles in by_size]
    return [apart[0], looped, apart[1], {**apart[0], "precision": "bf16x6"}]


def softmax(match: Match) -> list[Choice]:
    """A row in one tile where it fits; longer ones shared by programs, or in tiles of several sizes."""
    x: Value = match.inputs[0]
    n, inner = x.shape[match.shape["dim"]], numel(x.shape[match.shape["dim"] + 1:])
    if inner > 1 or n <= 8192:
        return [{}]
    if n <= 65536:
        tile = 1 << (n - 1).bit_length()
        return [*shared(n), {"tile": tile, "num_warps": min(32, tile // 1024)}, {}]
    return [*shared(n), {}, {"tile": 32768, "num_warps": 32}, {"tile": 16384, "num_warps": 16}]


def shared(n: int) -> list[Choice]:
    """Rows of n elements in the registers of several programs each: read once, where one program would read them twice."""
    return [{"tile": 8192, "num_warps": 8, "team": 4}, {"tile": 16384, "num_warps": 16, "team": 2}] if n > LONGEST_ROW else []


def layernorm(match: Match) -> list[Choice]:
    """Long rows shared first."""
    return [*shared(numel(match.inputs[0].shape[-match.shape["ndim"]:])), {}]


def groupnorm(match: Match) -> list[Choice]:
    """Long groups shared first; a batch's channels lie apart and are too long."""
    x: Value = match.inputs[0]
    if match.shape["kind"] == "batch":
        return [{"tile": 16384, "num_warps": 16}, {}]
    planes = x.shape[1] // match.shape["groups"] if match.shape["kind"] == "group" else 1
    return [*shared(planes * numel(x.shape[2:])), {}]


def reduction(match: Match) -> list[Choice]:
    """Larger tiles for the largest and the least element, which cost more than an addition, and fewer threads where their places go with
    them; long rows cut where they are many."""
    if match.shape["kind"] in ("argmax", "argmin"):
        return [{"num_warps": 4}, {"tile": 8192}, {}]
    if match.shape["kind"] not in ("sum", "mean"):
        return [{"tile": 8192}, {}]
    rows, last = numel(match.space[:-1]), match.space[-1]
    long = match.shape["dim"] == len(match.space) - 1 and rows >= PROCESSORS and last >= 65536
    return [{"tile": 2048, "splits": 4}, {}] if long else [{}]


def attention(match: Match) -> list[Choice]:
    """More bfloat16 parts where both its products are short sums."""
    keys, size = match.inputs[1].shape[-2:]
    if match.inputs[0].dtype != "float32" or min(keys, size) >= EMULATED_K:
        return [{}]
    return [{"precision": "bf16x6"}, {"precision": "tf32x3"}, {}]


def norm_scale(match: Match) -> list[Choice]:
    """Long rows shared first."""
    x, dim = match.inputs[0], match.shape["dim"]
    return [*(shared(x.shape[dim]) if dim is not None and numel(x.shape[dim:][1:]) == 1 else []), {}]


def windows(match: Match) -> list[Choice]:
    """Tiles no wider than the output's rows."""
    width = match.out_shape[-1]
    wide = max(32, min(512, 1 << (width - 1).bit_length()))
    return [{}, {"block_h": max(1, 2048 // wide), "block_w": wide, "num_warps": 8}]


def has_long_chain(match: Match) -> bool:
    """Whether an epilogue keeps many values alive for each place of a tile."""
    return any(sum(WEIGHTS.get(node.op, 1) for node in formula.program.nodes) > LONG_CHAIN for formula in match.hooks.values())


def whole_rows(match: Match) -> str:
    """Whether tiles of a transposed convolution can hold outputs side by side along the last dimension ("possible"), and whether that is
    the likelier choice ("better"): where multiplying by zeros costs less than writing a stride apart. Empty where it makes no difference.
    """
    if not match.shape["transposed"] or match.shape["pool"] or match.shape["stride"][-1] == 1:
        return ""
    x, weight, stride = match.inputs[0], match.inputs[1], match.shape["stride"]
    zeros = 2 * numel(x.shape) * numel(weight.shape[1:]) * (stride[-1] - 1)
    written = numel(match.out_shape) * 4
    return "better" if zeros / MULTIPLIED < written / WRITTEN_APART - written / WRITTEN else "possible"


def convolution(match: Match) -> list[Choice]:
    """Tiles by the channels; TF32 first where the library uses it, then what is right where it did not."""
    x, weight = match.inputs[0], match.inputs[1]
    groups = match.shape["groups"]
    inner, outer = x.shape[1] // groups, weight.shape[1 if match.shape["transposed"] else 0] // (1 if match.shape["transposed"] else groups)
    block_n = max(16, 1 << (outer - 1).bit_length())
    block_n = block_n if match.shape["across"] else min(block_n, 128)
    block_m = 64 if block_n > 128 else 128
    held = block_m * block_n * (2 if match.shape["pool"] else 1)  # a pooled tile is held beside the one that is summed
    long = has_long_chain(match)
    depth = inner * numel(weight.shape[2:])
    single = depth == inner <= SHORT_SUM
    if single or (long and held > 64 * 128 and not match.shape["across"]):  # many tiles at once hide each other's loads; registers run out
        block_m, held = 64, held * 64 // block_m
    warps = 8 if held > 64 * 128 or (long and held > 64 * 64) else 4
    tiles: Choice = {"block_m": block_m, "block_n": block_n, "block_k": 32, "num_warps": warps, "num_stages": 2 if single else 3,
                     "rows": "whole" if whole_rows(match) == "better" else "by stride"}
    if x.dtype != "float32":
        return [{**tiles, "layout": layout} for layout in ("channels last", "as it is")]
    transposed = match.shape["transposed"]
    exact: Choice = {**tiles, "precision": "bf16x3" if depth >= EMULATED_K else "tf32x3"}
    layouts = [*(["channels last"] if inner >= 16 else []), "as it is"]
    layouts = layouts[::-1] if depth == inner else layouts  # one tap: every input is read once, and turning it would be twice more
    quick, exact_ones = ([{**made, "layout": layout} for layout in layouts] for made in ({**tiles, "precision": "tf32"}, exact))
    plain = groups > 1 if transposed else (depth < SHALLOW and inner < FEW_CHANNELS) or (len(weight.shape) == 5 and inner < 8)
    made = [*exact_ones, *quick] if plain else [quick[0], exact_ones[0], *quick[1:]]
    other = [{**made[0], "rows": "by stride" if made[0]["rows"] == "whole" else "whole"}] if whole_rows(match) else []
    return [made[0], *other, *made[1:]]
