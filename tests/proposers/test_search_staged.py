"""Plans of several stages, run by Triton's interpreter in a process of its own, against the problem in float64: odd shapes, three types.

Every template of a problem is run as it is tried first, and again with other launch parameters that lead to other kernels.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ALL_PLANS = os.environ.get("AUTOKERNEL_ALL_PLANS") == "1"
HALF = ("conv2d_odd", "turned_softmax", "linear_extras", "logsumexp")  # once more in the small types
# the rest where AUTOKERNEL_ALL_PLANS is 1
QUICK = ("logsumexp", "turned_copy", "conv1d", "conv3d_minimum", "conv_pool_chain", "turned2d_grouped", "turned3d_pooled", "linear_extras",
         "linear_batch_norm", "linear_pool", "same_linears", "summed_linear", "constant", "conv2d_odd:bfloat16", "linear_extras:float16")
pytestmark = [pytest.mark.timeout(1600), pytest.mark.slow]


def load(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def choices(params: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The first choice, one that walks rows and turns convolutions' inputs, and one that splits rows."""
    yield params
    others = [{"tile": 64, "lanes": 4, "splits": 1, "layout": "channels last", "block_m": 32, "block_n": 16, "block_k": 16}]
    rows = any(k.startswith("rows") for k in params)
    others += [{"tile": 16, "lanes": 1, "splits": 3}] if rows else []
    for other in others:
        changed = {k: other.get(k.partition(".")[2], v) if k.startswith(("rows", "conv")) else v for k, v in params.items()}
        if changed != params:
            yield changed


def verdicts_of(name: str, source: str, folder: Path, dtype: str) -> Iterator[str]:
    """"right" or what is wrong, for each text that the problem's templates give; parameters and inputs are of `dtype`."""
    import torch

    torch.set_default_dtype(getattr(torch, dtype))

    from autokernel.proposers.graph import read
    from autokernel.proposers.templates import starter_templates
    from autokernel.proposers.trace import trace

    path = folder / f"{name}_reference.py"
    path.write_text(source)
    problem = load(path, f"{name}_reference")
    torch.manual_seed(3)
    model = problem.Model()
    inputs = problem.get_inputs()
    texts: dict[str, str] = {}
    for place, template in enumerate(starter_templates(source, read(trace(source)), "triton")):
        for params in choices(dict(template.params)) if place == 0 or ALL_PLANS else [template.params]:
            texts.setdefault(template.render(params), f"{template.name} {params}")
    with torch.no_grad():
        eager = model(*inputs)
        exact = model.double()(*[i.double() if isinstance(i, torch.Tensor) and i.is_floating_point() else i for i in inputs])
    bound = 16 * (eager - exact).abs().max() + 4 * torch.finfo(eager.dtype).eps * exact.abs()
    for number, (text, label) in enumerate(texts.items()):
        made = folder / f"{name}_{number}.py"
        made.write_text(text)
        torch.manual_seed(3)
        try:
            with torch.no_grad():
                ours = load(made, made.stem).ModelNew()(*inputs)
        except Exception as error:
            yield f"{label}: {type(error).__name__}: {str(error)[:600]}"
            continue
        if ours.shape != eager.shape or ours.dtype != eager.dtype or not ours.is_contiguous():
            yield f"{label}: {ours.shape} {ours.dtype} for {eager.shape} {eager.dtype}"
            continue
        over = ((ours - exact).abs() / bound).max()
        yield "right" if float(over) <= 1.0 else f"{label}: {float(over):.1f} times the bound"


STAGED = load(Path(__file__).with_name("problems.py"), "search_problems").STAGED
ALL = (*STAGED, *(f"{name}:{dtype}" for name in HALF for dtype in ("float16", "bfloat16")))
NAMES = ALL if ALL_PLANS else QUICK


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    pytest.importorskip("triton")
    folder = tmp_path_factory.mktemp("staged")
    done = subprocess.run([sys.executable, __file__, str(folder)], capture_output=True, text=True, timeout=1500, check=False,
                          env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(line.split("\t") for line in done.stdout.splitlines() if "\t" in line)


@pytest.mark.parametrize("name", NAMES)
def test_every_way_of_a_plan_is_right(name: str, verdicts: dict[str, str]) -> None:
    said = verdicts.get(name, "nothing was said")
    assert set(said.split(" | ")) == {"right"}, said


if __name__ == "__main__":
    for each in sys.argv[2:] or NAMES:
        base, _, dtype = each.partition(":")
        try:
            said = list(verdicts_of(each.replace(":", "_"), STAGED[base], Path(sys.argv[1]), dtype or "float32"))
        except Exception as error:
            said = [f"{type(error).__name__}: {str(error)[:300]}"]
        print(f"{each}\t{' | '.join(said)}".replace("\n", " "), flush=True)
