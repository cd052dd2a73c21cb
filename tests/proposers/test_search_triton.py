"""Filled Triton starters, run by Triton's interpreter in a process of its own, against the problem in float64."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# what the interpreter runs quickly; the starters themselves have tests of their own
NAMES = (
    "chain", "activations", "scalar", "softmax", "log_softmax_middle", "layer_norm", "layer_norm_formula", "rms_norm_channels",
    "batch_norm", "batch_norm_inside", "instance_norm", "group_norm", "frobenius", "l1_mean", "sum_middle", "argmax_middle", "hinge",
    "huber", "kl", "cross_entropy", "triplet", "matmul", "matrix_vector", "vector_matrix", "linear_relu", "lower", "einsum", "diagonal",
    "max_pool1d", "avg_pool3d", "depthwise",
    "cumsum_reverse", "cumsum_exclusive", "masked_cumsum", "cumprod", "attention",
)


def load(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def verdict(name: str, source: str, folder: Path) -> str:
    """"right", or how the candidate for this problem is wrong."""
    import torch

    from autokernel.proposers.graph import read
    from autokernel.proposers.templates import starter_templates
    from autokernel.proposers.trace import trace

    template = starter_templates(source, read(trace(source)), "triton")[0]
    paths = folder / f"{name}_reference.py", folder / f"{name}_candidate.py"
    for path, text in zip(paths, (source, template.render(template.params)), strict=True):
        path.write_text(text)
    problem, made = load(paths[0], f"{name}_reference"), load(paths[1], f"{name}_candidate")
    torch.manual_seed(3)
    model = problem.Model()
    torch.manual_seed(3)
    new = made.ModelNew()
    inputs = problem.get_inputs()
    with torch.no_grad():
        eager, ours = model(*inputs), new(*inputs)
        exact = model.double()(*[i.double() if isinstance(i, torch.Tensor) and i.is_floating_point() else i for i in inputs])
    if ours.shape != eager.shape or ours.dtype != eager.dtype:
        return f"{ours.shape} {ours.dtype} for {eager.shape} {eager.dtype}"
    if not eager.is_floating_point():
        return "right" if torch.equal(ours, eager) else "other indices"
    over = (ours - exact).abs() - (16 * (eager - exact).abs().max() + 5e-7 * exact.abs())
    return "right" if float(over.max()) <= 0 else f"off by {float((ours - exact).abs().max()):.2e}"


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    pytest.importorskip("triton")
    folder = tmp_path_factory.mktemp("triton")
    done = subprocess.run([sys.executable, __file__, str(folder)], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(line.split("\t") for line in done.stdout.splitlines() if "\t" in line)


@pytest.mark.parametrize("name", NAMES)
def test_a_filled_starter_is_right(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts.get(name) == "right"


if __name__ == "__main__":
    texts = load(Path(__file__).with_name("problems.py"), "search_problems")
    for each in NAMES:
        try:
            answer = verdict(each, {**texts.ROWS, **texts.OTHERS}[each], Path(sys.argv[1]))
        except Exception as error:  # noqa: BLE001 - every case gets its line
            answer = f"{type(error).__name__}: {str(error)[:300]}".replace("\n", " ").replace("\t", " ")
        print(f"{each}\t{answer}", flush=True)
