# L1/100 100_HingeLoss: 5.637x eager (5.163 to 6.845); 0.9285x compile (0.8692 to 0.992)
# Rules strict/5, precision ieee-grade, candidate eeb8186d481d76195f0d16235feb271b3b4190df74e920174daa4cc4c2ffd9cc
# Machine: capability 9.0, cpus 16, cuda 13.0, device cuda:0 NVIDIA H200, device_name NVIDIA H200, driver 580.159.04, freeze group, l2_bytes 62914560, memory_bytes 150109880320, python 3.12.3, sandbox namespaces, hiding, seccomp, groups, limits; no group for memory, pids, cpuset (no control group hands it down to this process), threads 16, torch 2.11.0+cu130, triton 3.6.0
# Judged 2026-12-01T14:04:23+00:00 by AutoKernel 0.1.0. Repeat with:
#   autokernel kb eval L1/100 runs/L1-h200-h/winners/L1_100.py --source kernelbench/data

"""Sum of a chain, split over the device."""

from __future__ import annotations

import functools
import math

import torch
import triton
import triton.language as tl
from torch import nn

SHAPE = {'kind': 'sum', 'dim': None, 'keepdim': False, 'divide': None}
PARAMS = {'tile': 4096, 'lanes': 0, 'splits': 0, 'num_warps': 8}


class DirectKernel:
    """A kernel whose launches, from the second with like arguments on, go straight to what was compiled for the first."""

    def __init__(self, kernel):
        self.kernel, self.compiled = kernel, {}
        self.given = 1 + max(n for n, parameter in enumerate(kernel.params) if not parameter.is_constexpr)  # constants alone from there on

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.launch((*grid, 1, 1)[:3], arguments, options)

    def launch(self, grid, arguments, options):
        """All arguments by position. Triton compiles for constants, types, integers and whether pointers are multiples of 16."""
        key = (torch.cuda.current_device(), arguments[self.given:], *options.values(), *[
            (x.dtype, x.data_ptr() % 16) if isinstance(x, torch.Tensor) else float if isinstance(x, float) else x for x in arguments[:self.given]
        ])
        compiled = self.compiled.get(key)
        if compiled is None:
            self.compiled[key] = self.kernel[grid](*arguments, **options)
        else:
            compiled[grid](*arguments)


def direct(kernel):
    """Direct launches for a compiled kernel; an interpreted one stays as it is."""
    return DirectKernel(kernel) if isinstance(kernel, triton.JITFunction) else kernel


@triton.jit
def greater(a, b):
    return tl.where((a > b) | (a != a), a, b)  # NaN wins, as in torch


@triton.jit
def chain(x0, x1):
    t3 = x0 * x1
    t4 = 1.0 - t3
    t6 = greater(t4, 0.0)
    return t6


@triton.jit
def finish(x0):
    t9 = x0 / 1073741824.0
    return t9


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def first_larger(a, i, b, j):
    """The larger of (a, i) and (b, j); NaN is larger than all, and of equals the lower index stays: torch's rule."""
    keep = (a > b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i < j))
    return tl.where(keep, a, b), tl.where(keep, i, j)


@triton.jit
def value(x, offsets, mask, INNER: tl.constexpr, SIZE: tl.constexpr):
    """Input `x` at linear `offsets` of the broadcast shape. SIZE 0: full; -1: a scalar; else element (offset // INNER) % SIZE."""
    if SIZE == -1:
        return x
    elif SIZE == 0:
        return tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32)
    else:
        return tl.load(x + (offsets // INNER) % SIZE, mask=mask, other=0.0).to(tl.float32)


@direct
@triton.jit
def reduce_kernel(
    x0, x1, x2, x3, y, index,
    LANES: tl.constexpr, N: tl.constexpr, INNER: tl.constexpr, CHUNK: tl.constexpr, SPLITS: tl.constexpr, DIVIDE: tl.constexpr,
    KIND: tl.constexpr, INPUTS: tl.constexpr, WIDE: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_N: tl.constexpr,
    I0: tl.constexpr, S0: tl.constexpr, I1: tl.constexpr, S1: tl.constexpr,
    I2: tl.constexpr, S2: tl.constexpr, I3: tl.constexpr, S3: tl.constexpr,
):
    """One tile of lanes (rows, or neighbouring columns if INNER > 1) over one split of N; reads (outer, N, INNER) contiguous inputs."""
    pid = tl.program_id(0)
    split = tl.program_id(1)
    if WIDE:
        pid = pid.to(tl.int64)
        split = split.to(tl.int64)
    if INNER == 1:
        lane = pid * BLOCK_L + tl.arange(0, BLOCK_L)
        lane_mask = lane < LANES
        base = lane * N
    else:
        TILES: tl.constexpr = (INNER + BLOCK_L - 1) // BLOCK_L
        inside = (pid % TILES) * BLOCK_L + tl.arange(0, BLOCK_L)
        lane_mask = inside < INNER
        lane = (pid // TILES) * INNER + inside
        base = (pid // TILES) * (N * INNER) + inside
    if KIND == "sum":
        best = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)
    elif KIND == "prod":
        best = tl.full([BLOCK_L, BLOCK_N], 1.0, tl.float32)
    else:
        best = tl.full([BLOCK_L, BLOCK_N], float("-inf"), tl.float32)
    lost = tl.zeros([BLOCK_L, BLOCK_N], tl.float32)  # Kahan's carry
    where = tl.full([BLOCK_L, BLOCK_N], 2147483647, tl.int32)
    for start in range(0, CHUNK, BLOCK_N):
        n = split * CHUNK + start + tl.arange(0, BLOCK_N)
        mask = lane_mask[:, None] & (n < N)[None, :]
        offsets = base[:, None] + n[None, :] * INNER
        a = value(x0, offsets, mask, I0, S0)
        if INPUTS == 1:
            v = chain(a)
        elif INPUTS == 2:
            v = chain(a, value(x1, offsets, mask, I1, S1))
        elif INPUTS == 3:
            v = chain(a, value(x1, offsets, mask, I1, S1), value(x2, offsets, mask, I2, S2))
        else:
            v = chain(a, value(x1, offsets, mask, I1, S1), value(x2, offsets, mask, I2, S2), value(x3, offsets, mask, I3, S3))
        if KIND == "sum":
            term = tl.where(mask, v, 0.0) - lost
            total = best + term
            lost = (total - best) - term
            best = total
        elif KIND == "prod":
            best = best * tl.where(mask, v, 1.0)
        elif KIND == "max":
            best = larger(best, tl.where(mask, v, float("-inf")))
        elif KIND == "min":
            best = larger(best, tl.where(mask, -v, float("-inf")))
        else:
            v = tl.where(mask, -v if KIND == "argmin" else v, float("-inf"))
            position = tl.where(mask, tl.broadcast_to(n.to(tl.int32)[None, :], [BLOCK_L, BLOCK_N]), 2147483647)
            best, where = first_larger(best, where, v, position)
    slot = lane if SPLITS == 1 else split * LANES + lane
    if KIND == "argmax" or KIND == "argmin":
        r, i = tl.reduce((best, where), 1, first_larger)
        tl.store(index + slot, i.to(index.dtype.element_ty), mask=lane_mask)
        if SPLITS > 1:
            tl.store(y + slot, r, mask=lane_mask)
    else:
        if KIND == "sum":
            r = tl.sum(best - lost, 1)
        elif KIND == "prod":
            r = tl.reduce(best, 1, multiply)
        else:
            r = tl.reduce(best, 1, larger)
        if SPLITS == 1:
            r = -r if KIND == "min" else r
            r = finish(r / DIVIDE if DIVIDE != 1.0 else r)
        tl.store(y + slot, r.to(y.dtype.element_ty), mask=lane_mask)


@direct
@triton.jit
def combine_kernel(
    parts, part_index, y, index,
    LANES: tl.constexpr, SPLITS: tl.constexpr, DIVIDE: tl.constexpr, KIND: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_L: tl.constexpr,
):
    """Reduce (SPLITS, LANES) parts over SPLITS; the whole of SPLITS is one block."""
    lane = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    s = tl.arange(0, BLOCK_S)
    mask = (s < SPLITS)[:, None] & (lane < LANES)[None, :]
    offsets = s[:, None].to(tl.int64) * LANES + lane[None, :]
    if KIND == "argmax" or KIND == "argmin":
        v = tl.load(parts + offsets, mask=mask, other=float("-inf"))
        i = tl.load(part_index + offsets, mask=mask, other=2147483647)
        r, i = tl.reduce((v, i), 0, first_larger)
        tl.store(index + lane, i.to(index.dtype.element_ty), mask=lane < LANES)
    else:
        if KIND == "sum":
            r = tl.sum(tl.load(parts + offsets, mask=mask, other=0.0), 0)
        elif KIND == "prod":
            r = tl.reduce(tl.load(parts + offsets, mask=mask, other=1.0), 0, multiply)
        else:
            r = tl.reduce(tl.load(parts + offsets, mask=mask, other=float("-inf")), 0, larger)
        r = -r if KIND == "min" else r
        r = finish(r / DIVIDE if DIVIDE != 1.0 else r)
        tl.store(y + lane, r.to(y.dtype.element_ty), mask=lane < LANES)


def place(x: torch.Tensor | float, shape: torch.Size) -> tuple[torch.Tensor | float, int, int]:
    """(`x` ready to be read, INNER, SIZE) so that `value` finds `x` broadcast to `shape`; copies only where no formula fits."""
    if not isinstance(x, torch.Tensor):
        return float(x), 1, -1
    if x.shape == shape:
        return x.contiguous(), 1, 0
    sizes = [1] * (len(shape) - x.dim()) + list(x.shape)
    own = [i for i, size in enumerate(sizes) if size != 1]
    if not own:
        return x.contiguous(), 1, 1
    first, last = own[0], own[-1]
    if sizes[first : last + 1] != list(shape[first : last + 1]):
        return x.expand(shape).contiguous(), 1, 0
    return x.contiguous(), math.prod(shape[last + 1 :]), x.numel()


@functools.lru_cache
def reduced(shape: torch.Size) -> tuple[int, int, int, list[int]]:
    """(outer, n, inner, output shape) of SHAPE["dim"] over `shape`; the dims must be adjacent."""
    dims = range(len(shape)) if SHAPE["dim"] is None else [SHAPE["dim"]] if isinstance(SHAPE["dim"], int) else SHAPE["dim"]
    ordered = sorted(d % len(shape) for d in dims) if len(shape) else []
    first, end = (ordered[0], ordered[-1] + 1) if ordered else (0, 0)
    kept = [1] * (end - first) if SHAPE["keepdim"] else []
    outer, n, inner = (math.prod(part) for part in (shape[:first], shape[first:end], shape[end:]))
    return outer, n, inner, [*shape[:first], *kept, *shape[end:]]


@functools.lru_cache
def common(shapes: tuple[torch.Size, ...], dtypes: tuple[torch.dtype, ...]) -> tuple[torch.Size, torch.dtype]:
    """The shape and the type that torch gives such tensors together; it takes longer to say so than small kernels run."""
    return torch.broadcast_shapes(*shapes), functools.reduce(torch.promote_types, dtypes)


def run(*inputs: torch.Tensor | float) -> torch.Tensor:
    """`finish(reduction(chain(inputs)))` over SHAPE["dim"] of the inputs' broadcast shape.

    1 to 4 tensors or Python scalars. Result in the tensors' promoted dtype (float32 if that is no floating type); argmax and
    argmin give int64. "sum" is divided by SHAPE["divide"] if given, "mean" by n.
    """
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    shape, promoted = common(tuple([x.shape for x in tensors]), tuple([x.dtype for x in tensors]))
    device = tensors[0].device
    outer, n, inner, out_shape = reduced(shape)
    kind = "sum" if SHAPE["kind"] == "mean" else SHAPE["kind"]
    arg = kind in ("argmax", "argmin")
    divide = float(n) if SHAPE["kind"] == "mean" else float(SHAPE["divide"] or 1.0)
    y = torch.empty(out_shape, dtype=torch.int64 if arg else promoted if promoted.is_floating_point else torch.float32, device=device)
    lanes = outer * inner
    auto = 128 if inner > 1 else max(1, min(16, PARAMS["tile"] // (1 << (n - 1).bit_length())))
    block_l = min(PARAMS["lanes"] or auto, PARAMS["tile"], 1 << ((inner if inner > 1 else lanes) - 1).bit_length())
    block_n = min(PARAMS["tile"] // block_l, 1 << (n - 1).bit_length())
    tiles = -(-lanes // block_l) if inner == 1 else outer * -(-inner // block_l)
    splits = PARAMS["splits"] or max(1, min(-(-n // (4 * block_n)), 1056 // tiles))
    chunk = -(-n // splits // block_n) * block_n
    splits = -(-n // chunk)
    parts = torch.empty(splits * lanes if splits > 1 else 0, dtype=torch.float32, device=device)
    part_index = torch.empty(splits * lanes if splits > 1 and arg else 0, dtype=torch.int32, device=device)
    placed = [place(x, shape) for x in inputs]
    placed += [(tensors[0], 1, 0)] * (4 - len(placed))  # unused arguments
    reduce_kernel[(tiles, splits)](
        *[x for x, _, _ in placed], parts if splits > 1 else y, part_index if splits > 1 else y,
        lanes, n, inner, chunk, splits, divide, kind, len(inputs), (outer * n + chunk) * inner > 2**31 - 2**20, block_l, block_n,
        *[number for _, size_inner, size in placed for number in (size_inner, size)],
        num_warps=PARAMS["num_warps"],
    )
    if splits > 1:
        block_s = 1 << (splits - 1).bit_length()
        width = max(1, min(1 << (lanes - 1).bit_length(), 2048 // block_s))
        combine_kernel[(-(-lanes // width),)](parts, part_index, y, y, lanes, splits, divide, kind, block_s, width, num_warps=4)
    return y


class ModelNew(nn.Module):
    """Sum of a chain, split over the device."""

    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, predictions, targets):
        return run(predictions, targets.view((1, 32768)))
