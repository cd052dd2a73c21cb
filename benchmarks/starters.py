"""Run every starter on a GPU at a KernelBench-like size: error against float64 beside eager's, and time against eager's.

    python benchmarks/starters.py [--minutes 8] [--only matmul,softmax] [--params '{"tile": 16384, "team": 2}'] [--out starters.jsonl]

Prints a table; writes one JSON line a case. Times are triton.testing.do_bench medians with a cold L2, so they say which starter is
worth looking at; verdicts are `autokernel kb eval`'s business.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autokernel.proposers.launches import with_direct_launches

ROOT = Path(__file__).resolve().parent.parent
Draw = Callable[..., Tensor]


@dataclass(frozen=True)
class Case:
    """One starter at one size. `chain` is the arguments and the expression of its replaced `chain` function."""

    name: str
    starter: str
    inputs: Callable[[Draw], list[Any]]
    eager: Callable[..., Tensor]
    shape: dict[str, Any] = field(default_factory=dict)
    chain: tuple[str, str] | None = None
    folder: str = "triton_kernels"


def text_of(folder: str, starter: str, shape: dict[str, Any], params: dict[str, Any], chain: tuple[str, str] | None) -> str:
    """A starter's source with entries of SHAPE and PARAMS and the body of `chain` replaced, launched directly, much as the search's
    emitter does it."""
    text = (ROOT / folder / f"{starter}.py").read_text(encoding="utf-8")
    if chain:
        arguments, expression = chain
        text, count = re.subn(
            r"(@triton\.jit\ndef chain)\(.*?\):\n(.*?)\n    return .*?\n",
            rf"\1({arguments}):\n\2\n    return {expression}\n",
            text,
            count=1,
            flags=re.S,
        )
        assert count, f"{starter} has no chain"
    return with_direct_launches(text) + f"\nSHAPE.update({shape!r})\nPARAMS.update({params!r})\n"


def load(
    folder: str,
    starter: str,
    scratch: Path,
    shape: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    chain: tuple[str, str] | None = None,
) -> ModuleType:
    """The starter as a module; native ones are built by AutoKernel's own builder first. `scratch` must outlive the module."""
    text = text_of(folder, starter, shape or {}, params or {}, chain)
    path = scratch / f"{folder}_{starter}_{abs(hash(text))}.py"
    path.write_text(text, encoding="utf-8")
    if folder == "cuda":
        from autokernel import builders

        builder = builders.get("cuda")
        result = builder.build(text, scratch, None, 300.0)
        if not result.ok:
            raise RuntimeError(result.digest)
        return builder.load(path, result.artifact)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def square_error(x: Tensor, y: Tensor) -> Tensor:
    """Mean squared error as KernelBench-like references write it: several kernels in eager."""
    return torch.mean((x - y) ** 2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding on halves."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def gated(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """SwiGLU."""
    return (F.silu(x @ gate) * (x @ up)) @ down


def rms(x: Tensor) -> Tensor:
    """RMS normalisation over dim 1."""
    return x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-5)


H, I = torch.float16, torch.int64  # noqa: E741
CASES = [
    Case("swish", "elementwise", lambda r: [r(4096, 393216)], lambda x: x * torch.sigmoid(x)),
    Case(
        "new gelu",
        "elementwise",
        lambda r: [r(8192, 8192)],
        lambda x: F.gelu(x, approximate="tanh"),
        chain=("x0", "x0 / (1.0 + tl.exp(-1.5957691216057308 * (x0 + 0.044715 * x0 * x0 * x0)))"),
    ),
    Case("row times column", "elementwise", lambda r: [r(4096, 1), r(4096, 4096)], lambda x, y: x * y, chain=("x0, x1", "x0 * x1")),
    Case("sum dim 1", "reduce", lambda r: [r(128, 4096, 4095)], lambda x: x.sum(1)),
    Case("max dim 1", "reduce", lambda r: [r(128, 4096, 4095)], lambda x: x.max(1)[0], {"kind": "max"}),
    Case("argmax dim 1", "reduce", lambda r: [r(128, 4096, 4095)], lambda x: x.argmax(1), {"kind": "argmax"}),
    Case("sum last, fp16", "reduce", lambda r: [r(8192, 8192, dtype=H)], lambda x: x.sum(-1)),
    Case(
        "mean squared error",
        "reduce",
        lambda r: [r(32768, 32768), r(32768, 32768)],
        square_error,
        {"kind": "mean", "dim": None},
        ("x0, x1", "(x0 - x1) * (x0 - x1)"),
    ),
    Case(
        "hinge",
        "reduce",
        lambda r: [r(32768, 32768), r(32768)],
        lambda x, y: torch.mean(torch.clamp(1 - x * y, min=0)),
        {"kind": "mean", "dim": None},
        ("x0, x1", "tl.maximum(1.0 - x0 * x1, 0.0)"),
    ),
    Case("matrix vector", "reduce", lambda r: [r(2048, 1048576), r(1048576)], lambda x, y: x @ y, {"dim": -1}, ("x0, x1", "x0 * x1")),
    Case("rows of 393216", "softmax", lambda r: [r(4096, 393216)], lambda x: x.softmax(1)),
    Case("log, rows of 393216", "softmax", lambda r: [r(4096, 393216)], lambda x: x.log_softmax(1), {"log": True}),
    Case("rows of 4096, fp16", "softmax", lambda r: [r(4096, 4096, dtype=H)], lambda x: x.softmax(-1)),
    Case("odd rows, fp16", "softmax", lambda r: [r(4096, 50257, dtype=H)], lambda x: x.softmax(-1)),
    Case(
        "16 huge rows",
        "layernorm",
        lambda r: [r(16, 64, 256, 256), r(64, 256, 256), r(64, 256, 256)],
        lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b),
    ),
    Case(
        "rows of 4096, fp16",
        "layernorm",
        lambda r: [r(8192, 4096, dtype=H), r(4096, dtype=H), r(4096, dtype=H)],
        lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b),
        {"ndim": 1},
    ),
    Case("group", "groupnorm", lambda r: [r(112, 64, 512, 512), r(64), r(64)], lambda x, w, b: F.group_norm(x, 8, w, b)),
    Case("instance", "groupnorm", lambda r: [r(112, 64, 512, 512)], lambda x: F.instance_norm(x), {"kind": "instance"}),
    Case(
        "batch",
        "groupnorm",
        lambda r: [r(64, 64, 512, 512), r(64), r(64)],
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        {"kind": "batch"},
    ),
    Case("over channels", "rmsnorm", lambda r: [r(112, 64, 512, 512)], rms),
    Case(
        "rows of 4096, fp16",
        "rmsnorm",
        lambda r: [r(4096, 4096, dtype=H), r(4096, dtype=H)],
        lambda x, w: F.rms_norm(x, x.shape[1:], w, 1e-5),
        {"dim": -1},
    ),
    Case("l1 mean", "norm_scale", lambda r: [r(32768, 65535)], lambda x: x / x.abs().mean(1, True), {"kind": "l1", "mean": True}),
    Case("l2", "norm_scale", lambda r: [r(32768, 65535)], lambda x: x / x.norm(2, 1, True)),
    Case("frobenius", "norm_scale", lambda r: [r(112, 64, 512, 512)], lambda x: x / x.norm(), {"dim": None}),
    Case("cumsum", "scan", lambda r: [r(32768, 32768)], lambda x: x.cumsum(1)),
    Case("cumprod", "scan", lambda r: [r(32768, 32768)], lambda x: x.cumprod(1), {"kind": "prod"}),
    Case("reversed", "scan", lambda r: [r(32768, 32768)], lambda x: x.flip(1).cumsum(1).flip(1), {"reverse": True}),
    Case(
        "exclusive", "scan", lambda r: [r(32768, 32768)], lambda x: torch.cat((x[:, :1] * 0, x[:, :-1].cumsum(1)), 1), {"exclusive": True}
    ),
    Case("masked", "scan", lambda r: [r(32768, 32768), r(32768, 32768) > 0.5], lambda x, m: (x * m).cumsum(1)),
    Case("4096 classes", "cross_entropy", lambda r: [r(32768, 4096), r(32768, dtype=I, high=4096)], F.cross_entropy),
    Case("50257 classes, fp16", "cross_entropy", lambda r: [r(8192, 50257, dtype=H), r(8192, dtype=I, high=50257)], F.cross_entropy),
    Case("rows of 8192", "triplet_loss", lambda r: [r(32768, 8192), r(32768, 8192), r(32768, 8192)], F.triplet_margin_loss),
    Case("4096 cubed", "matmul", lambda r: [r(4096, 4096), r(4096, 4096)], torch.matmul),
    Case("both transposed", "matmul", lambda r: [r(8192, 2048).t(), r(4096, 8192).t()], torch.matmul),
    Case("odd sizes", "matmul", lambda r: [r(8205, 2949), r(2949, 5921)], torch.matmul),
    Case("batched", "matmul", lambda r: [r(128, 512, 1024), r(128, 1024, 2048)], torch.matmul),
    Case("small K", "matmul", lambda r: [r(32768, 64), r(64, 32768)], torch.matmul),
    Case(
        "lower",
        "matmul",
        lambda r: [r(4096, 4096).tril(), r(4096, 4096).tril()],
        lambda a, b: (a @ b).tril(),
        {"triangular": "lower", "triangular_inputs": True},
    ),
    Case(
        "upper",
        "matmul",
        lambda r: [r(4096, 4096).triu(), r(4096, 4096).triu()],
        lambda a, b: (a @ b).triu(),
        {"triangular": "upper", "triangular_inputs": True},
    ),
    Case("4096 cubed, fp16", "matmul", lambda r: [r(4096, 4096, dtype=H), r(4096, 4096, dtype=H)], torch.matmul),
    Case("diagonal", "diag_matmul", lambda r: [r(4096), r(4096, 4096)], lambda d, b: d[:, None] * b),
    Case("2048 x 4096 x 11008", "fused_mlp", lambda r: [r(2048, 4096), r(4096, 11008), r(4096, 11008), r(11008, 4096)], gated),
    Case(
        "fp16",
        "fused_mlp",
        lambda r: [x / 50 for x in (r(2048, 4096, dtype=H), r(4096, 11008, dtype=H), r(4096, 11008, dtype=H), r(11008, 4096, dtype=H))],
        gated,
    ),
    Case(
        "2 x 32 x 2048 x 64, fp16",
        "flash_attention",
        lambda r: [r(2, 32, 2048, 64, dtype=H) for _ in range(3)],
        F.scaled_dot_product_attention,
    ),
    Case(
        "causal, fp16",
        "flash_attention",
        lambda r: [r(2, 32, 2048, 128, dtype=H) for _ in range(3)],
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        {"causal": True},
    ),
    Case("heads of 1024", "flash_attention", lambda r: [r(32, 32, 512, 1024) for _ in range(3)], F.scaled_dot_product_attention),
    Case(
        "2 x 32 x 2048 x 128, fp16",
        "rotary_embedding",
        lambda r: [r(2, 32, 2048, 128, dtype=H), r(2048, 64, dtype=H), r(2048, 64, dtype=H)],
        rotate,
    ),
    Case(
        "max 1d",
        "pooling",
        lambda r: [r(64, 192, 65536)],
        lambda x: F.max_pool1d(x, 8, 1, 4, 3),
        {"kernel": [8], "stride": [1], "padding": [4], "dilation": [3]},
    ),
    Case("max 2d", "pooling", lambda r: [r(32, 64, 512, 512)], lambda x: F.max_pool2d(x, 4, 1, 1)),
    Case(
        "max 3d",
        "pooling",
        lambda r: [r(16, 32, 128, 128, 128)],
        lambda x: F.max_pool3d(x, 3, 2, 1, 3),
        {"kernel": [3] * 3, "stride": [2] * 3, "padding": [1] * 3, "dilation": [3] * 3},
    ),
    Case(
        "average 1d",
        "pooling",
        lambda r: [r(64, 128, 65536)],
        lambda x: F.avg_pool1d(x, 8, 1, 4),
        {"kind": "avg", "kernel": [8], "stride": [1], "padding": [4], "dilation": [1]},
    ),
    Case(
        "average 2d",
        "pooling",
        lambda r: [r(16, 64, 2048, 2048)],
        lambda x: F.avg_pool2d(x, 11),
        {"kind": "avg", "kernel": [11] * 2, "stride": [11] * 2, "padding": [0] * 2},
    ),
    Case(
        "average 3d",
        "pooling",
        lambda r: [r(16, 32, 128, 128, 256)],
        lambda x: F.avg_pool3d(x, 3, 2, 1),
        {"kind": "avg", "kernel": [3] * 3, "stride": [2] * 3, "padding": [1] * 3, "dilation": [1] * 3},
    ),
    Case("3 x 3", "depthwise_conv", lambda r: [r(16, 64, 512, 512), r(64, 1, 3, 3)], lambda x, w: F.conv2d(x, w, groups=64)),
    Case("3 x 7", "depthwise_conv", lambda r: [r(32, 128, 128, 256), r(128, 1, 3, 7)], lambda x, w: F.conv2d(x, w, groups=128)),
    Case("64 to 128, 3 x 3", "conv", lambda r: [r(128, 64, 128, 128), r(128, 64, 3, 3)], F.conv2d),
    Case("3 to 96, 11 x 11, stride 4", "conv", lambda r: [r(256, 3, 224, 224), r(96, 3, 11, 11)], lambda x, w: F.conv2d(x, w, None, 4, 2),
         {"stride": [4, 4], "padding": [2, 2]}),
    Case("pointwise", "conv", lambda r: [r(16, 64, 1024, 1024), r(128, 64, 1, 1)], F.conv2d),
    Case("3d, 8 to 32", "conv", lambda r: [r(64, 8, 32, 64, 64), r(32, 8, 3, 3, 3)], F.conv3d,
         {"stride": [1] * 3, "padding": [0] * 3, "dilation": [1] * 3}),
    Case("transposed, stride 2", "conv", lambda r: [r(128, 64, 128, 128), r(64, 64, 3, 3)],
         lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1),
         {"stride": [2, 2], "padding": [1, 1], "output_padding": [1, 1], "transposed": True}),
    Case("transposed 3d, stride 2", "conv", lambda r: [r(16, 32, 16, 32, 32), r(32, 64, 3, 3, 3)],
         lambda x, w: F.conv_transpose3d(x, w, None, 2, 1, 1),
         {"stride": [2] * 3, "padding": [1] * 3, "dilation": [1] * 3, "output_padding": [1] * 3, "transposed": True}),
    Case("3d, pooled", "conv", lambda r: [r(128, 3, 16, 32, 32), r(16, 3, 3, 3, 3)], lambda x, w: F.max_pool3d(F.conv3d(x, w), 4),
         {"stride": [1] * 3, "padding": [0] * 3, "dilation": [1] * 3, "pool": [4, 4, 4], "kind": "max"}),
    Case("rows of 393216", "softmax", lambda r: [r(4096, 393216)], lambda x: x.softmax(1), folder="cuda"),
    Case("over channels", "rmsnorm", lambda r: [r(112, 64, 512, 512)], rms, folder="cuda"),
    Case("sum of all", "reduce", lambda r: [r(32768, 32768)], lambda x: x.sum(), {"dim": None}, folder="cuda"),
    Case("sum dim 1", "reduce", lambda r: [r(128, 4096, 4095)], lambda x: x.sum(1), {"dim": 1}, folder="cuda"),
    Case("swish", "elementwise", lambda r: [r(4096, 393216)], lambda x: x * torch.sigmoid(x), folder="cuda"),
    Case("4096 cubed", "matmul", lambda r: [r(4096, 4096), r(4096, 4096)], torch.matmul, folder="cuda"),
]


def drawer(device: str) -> Draw:
    """Uniform numbers in [0, 1) as KernelBench draws them (integers below `high`), on `device`; "meta" gives shapes alone."""

    def draw(*sizes: int, dtype: torch.dtype = torch.float32, high: int = 0) -> Tensor:
        if dtype == torch.int64:
            return torch.randint(high, sizes, device=device)
        return torch.rand(*sizes, device=device, dtype=dtype)

    return draw


def largest(actual: Tensor, truth: Tensor) -> float:
    """Largest |actual - truth|, in slices: the difference of a 6 GB tensor in float64 is 13 GB."""
    pairs = zip(actual.reshape(-1).split(1 << 28), truth.reshape(-1).split(1 << 28), strict=True)
    return max(float((a.double() - t.double()).abs().max()) for a, t in pairs)


def measure(case: Case, scratch: Path, params: dict[str, Any]) -> dict[str, Any]:
    """Errors against float64 and times in ms of the starter and of eager."""
    from triton.testing import do_bench

    torch.manual_seed(0)
    inputs = case.inputs(drawer("cuda"))
    run = load(case.folder, case.starter, scratch, case.shape, params, case.chain).run
    mine, theirs = run(*inputs), case.eager(*inputs)
    assert mine.shape == theirs.shape and mine.dtype == theirs.dtype, f"{mine.shape} {mine.dtype} is not {theirs.shape} {theirs.dtype}"
    truth = case.eager(*(x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs))
    errors = {"error": largest(mine, truth), "eager_error": largest(theirs, truth)}
    repeated = torch.equal(mine, run(*inputs))
    del mine, theirs, truth
    torch.cuda.empty_cache()
    times = {
        "ms": do_bench(lambda: run(*inputs), warmup=20, rep=100, return_mode="median"),
        "eager_ms": do_bench(lambda: case.eager(*inputs), warmup=20, rep=100, return_mode="median"),
    }
    return {**errors, **times, "repeated": repeated}


def line(case: Case, scratch: Path, params: dict[str, Any]) -> dict[str, Any]:
    """Measure one case and print its row; {"failure": text} where the starter did not get through."""
    label = f"{('cuda/' if case.folder == 'cuda' else '') + case.starter:18} {case.name:26}"
    try:
        got = measure(case, scratch, params)
    except Exception as error:  # noqa: BLE001 (whatever one starter raises, the table goes on and counts it)
        failure = f"{type(error).__name__}: {error}"
        print(f"{label} {failure[:300]}", flush=True)
        return {"failure": failure[:2000]}
    note = "" if got["repeated"] else "  NOT REPEATABLE"
    times = f"{got['ms']:8.3f} {got['eager_ms']:8.3f} {got['eager_ms'] / got['ms']:6.2f}"
    print(f"{label} {times}  {got['error']:.2e} / {got['eager_error']:.2e}{note}", flush=True)
    return got


def main() -> int:
    """Run the cases until the minutes are spent; 1 if a starter failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--only", default="", help="comma separated starters")
    parser.add_argument("--params", type=json.loads, default={}, help="launch parameters in place of the starters' own, as JSON")
    parser.add_argument("--out", type=Path, default=Path("starters.jsonl"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("No GPU here: nothing to measure. Run this on a machine with one; tests/test_triton_starters.py checks the rest.")
        return 0
    end, failed = time.monotonic() + 60 * options.minutes, 0
    print(f"{torch.cuda.get_device_name()}  torch {torch.__version__}")
    print(f"{'starter':18} {'case':26} {'ms':>8} {'eager':>8} {'x':>6}  error / eager's")
    with tempfile.TemporaryDirectory() as folder, options.out.open("w", encoding="utf-8") as lines:
        for case in CASES:
            if options.only and case.starter not in options.only.split(","):
                continue
            if time.monotonic() > end:
                print(f"--minutes {options.minutes} spent; the rest was not run")
                break
            got = line(case, Path(folder), options.params)
            failed += "failure" in got
            named = {"folder": case.folder, "starter": case.starter, "case": case.name, "params": options.params}
            lines.write(json.dumps({**named, **got}) + "\n")
            lines.flush()
            torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
