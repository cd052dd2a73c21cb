"""Starters on an NVIDIA GPU: the small cases of the CPU tests, and sweeps of real sizes, odd ones among them, in three types."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU and a CUDA build of torch; none here"),
]
ROOT = Path(__file__).resolve().parents[2]
TYPES = (torch.float32, torch.float16, torch.bfloat16)


def module_at(path: Path) -> ModuleType:
    """Import a file that belongs to no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


bench = module_at(ROOT / "benchmarks" / "starters.py")
cases = module_at(ROOT / "tests" / "starter_cases.py")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: a native starter's text is built once."""
    return tmp_path_factory.mktemp("starters")


def within(actual: torch.Tensor, eager: torch.Tensor, truth: torch.Tensor, times: float = 8.0) -> None:
    """Error against float64 at most `times` eager's own largest, plus four units in the last place of the result."""
    assert actual.shape == eager.shape and actual.dtype == eager.dtype
    allowed = times * (eager.double() - truth).abs().max() + 4 * torch.finfo(actual.dtype).eps * truth.abs()
    worst = ((actual.double() - truth).abs() / allowed.clamp_min(1e-300)).max().item()
    assert worst <= 1.0, f"{worst:.1f} times the bound"


def judge(starter: str, inputs: list[Any], eager: Any, shape: dict[str, Any], scratch: Path, folder: str = "triton_kernels",
          params: dict[str, Any] | None = None, times: int = 1) -> None:
    """One starter against eager and against eager in float64; the same bits each of so many times."""
    doubled = [x.double() if x.is_floating_point() else x for x in inputs]
    run = bench.load(folder, starter, scratch, shape, params).run
    answer = run(*inputs)
    within(answer, eager(*inputs), eager(*doubled))
    assert all(torch.equal(answer, run(*inputs)) for _ in range(times - 1))


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.label)
def test_small_case(case: Any, scratch: Path) -> None:
    scale = 4.0 if case.starter in ("matmul", "fused_mlp", "flash_attention") else 1.0  # products of bfloat16 parts
    wider = dataclasses.replace(case, scale=case.scale * scale)
    run = bench.load("triton_kernels", case.starter, scratch, case.shape, case.params, case.chain).run
    for _ in range(2):  # the second time without Triton's look-up
        cases.check(wider, run, "cuda")


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("rows, columns", [(32, 128), (1023, 1023), (4097, 4097), (1024, 32768), (32768, 128), (256, 50257), (64, 400000)])
def test_row_starters_over_a_sweep(rows: int, columns: int, dtype: torch.dtype, scratch: Path) -> None:
    x = torch.randn(rows, columns, device="cuda").to(dtype)
    w, b = torch.randn(2, columns, device="cuda").to(dtype)
    target = torch.randint(columns, (rows,), device="cuda")
    judge("softmax", [x], lambda x: x.softmax(-1), {"dim": -1}, scratch)
    judge("softmax", [x], lambda x: x.log_softmax(-1), {"dim": -1, "log": True}, scratch)
    judge("layernorm", [x, w, b], lambda x, w, b: F.layer_norm(x, [columns], w, b), {"ndim": 1}, scratch)
    judge("rmsnorm", [x, w], lambda x, w: F.rms_norm(x, [columns], w, 1e-5), {"dim": -1}, scratch)
    judge("cross_entropy", [x, target], F.cross_entropy, {}, scratch)
    judge("reduce", [x], lambda x: x.sum(-1), {"dim": -1}, scratch)
    judge("scan", [x], lambda x: x.cumsum(-1), {"dim": -1}, scratch)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("tile, team, warps", [(16384, 2, 16), (8192, 4, 8), (32768, 1, 32)])
@pytest.mark.parametrize("rows, columns", [(5, 40000), (3000, 65535), (211, 393216), (3, 1 << 22)])
def test_rows_shared_by_programs(rows: int, columns: int, tile: int, team: int, warps: int, dtype: torch.dtype, scratch: Path) -> None:
    x = torch.randn(rows, columns, device="cuda").to(dtype)
    w, b = torch.randn(2, columns, device="cuda").to(dtype)
    more = {"scratch": scratch, "params": {"tile": tile, "team": team, "num_warps": warps}, "times": 20}  # many turns for a race to show
    judge("softmax", [x], lambda x: x.softmax(-1), {"dim": -1}, **more)
    judge("softmax", [x], lambda x: x.log_softmax(-1), {"dim": -1, "log": True}, **more)
    judge("layernorm", [x, w, b], lambda x, w, b: F.layer_norm(x, [columns], w, b), {"ndim": 1}, **more)
    judge("norm_scale", [x], lambda x: x / x.norm(2, -1, True), {"dim": -1}, **more)
    planes = x[:, :columns // 8 * 8].reshape(rows, 8, -1)
    judge("groupnorm", [planes, w[:8], b[:8]], lambda x, w, b: F.group_norm(x, 1, w, b), {"groups": 1}, **more)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    "m, n, k", [(128, 128, 128), (1023, 1023, 1023), (4097, 4097, 512), (1537, 1537, 1537), (64, 48, 65536), (2048, 11008, 4096)]
)
def test_products_over_a_sweep(m: int, n: int, k: int, dtype: torch.dtype, scratch: Path) -> None:
    a, b, c = (torch.randn(*size, device="cuda").to(dtype) for size in ((m, k), (k, n), (k, n)))
    judge("matmul", [a, b], torch.matmul, {}, scratch)
    judge("matmul", [a.t().contiguous().t(), b.t().contiguous().t()], torch.matmul, {}, scratch)
    judge("fused_mlp", [a, b / 64, c / 64], lambda x, g, u: F.silu(x @ g) * (x @ u), {}, scratch)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("size", [(1, 4, 64, 64), (2, 8, 127, 64), (2, 8, 1023, 64), (1, 8, 2048, 128), (1, 2, 300, 80)])
def test_attention_and_rotary_over_a_sweep(size: tuple[int, ...], dtype: torch.dtype, scratch: Path) -> None:
    q, k, v = torch.randn(3, *size, device="cuda").to(dtype)
    cos, sin = torch.randn(2, size[2], size[3] // 2, device="cuda").to(dtype)
    attention = F.scaled_dot_product_attention
    judge("flash_attention", [q, k, v], attention, {}, scratch)
    judge("flash_attention", [q, k, v], lambda q, k, v: attention(q, k, v, is_causal=True), {"causal": True}, scratch)
    judge("rotary_embedding", [q, cos, sin], bench.rotate, {}, scratch)


@pytest.mark.parametrize("columns", [7, 128, 1023, 4097, 50257, 393216, 500000])
def test_cuda_rows(columns: int, scratch: Path) -> None:
    x = torch.randn(33, columns, device="cuda")
    for view in (x, torch.randn(33 * columns + 1, device="cuda")[1:].view(33, columns)):  # the second is not 16-byte aligned
        judge("softmax", [view], lambda x: x.softmax(-1), {"dim": -1}, scratch, "cuda")
        judge("softmax", [view], lambda x: x.log_softmax(-1), {"dim": -1, "log": True}, scratch, "cuda")
        judge("rmsnorm", [view, x[0]], lambda x, w: F.rms_norm(x, [columns], w, 1e-5), {"dim": -1}, scratch, "cuda")
        judge("elementwise", [view], F.silu, {}, scratch, "cuda")
        for kind in ("sum", "mean"):
            judge("reduce", [view], lambda x, k=kind: getattr(x, k)(), {"kind": kind, "dim": None}, scratch, "cuda")
        for kind in ("amax", "amin"):
            judge("reduce", [view], lambda x, k=kind: getattr(x, k)(1), {"kind": kind[1:], "dim": 1}, scratch, "cuda")


@pytest.mark.parametrize("size", [(3, 64, 33, 5), (2, 5, 1023, 1), (4, 300, 64, 4), (1, 4096, 4095, 1)])
def test_cuda_columns(size: tuple[int, ...], scratch: Path) -> None:
    x, w = torch.randn(*size, device="cuda"), torch.randn(size[1], device="cuda")
    judge("rmsnorm", [x], bench.rms, {"dim": 1}, scratch, "cuda")
    judge("rmsnorm", [x, w], lambda x, w: bench.rms(x) * w[:, None, None], {"dim": 1}, scratch, "cuda")
    judge("reduce", [x], lambda x: x.sum(1, True), {"dim": 1, "keepdim": True}, scratch, "cuda")
    judge("softmax", [x], lambda x: x.softmax(1), {"dim": 1}, scratch, "cuda")


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (128, 128, 128), (1023, 777, 65), (2048, 2048, 2048)])
def test_cuda_matmul(m: int, n: int, k: int, scratch: Path) -> None:
    judge("matmul", [torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")], torch.matmul, {}, scratch, "cuda")
