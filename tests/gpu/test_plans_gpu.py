"""Plans of several stages on an NVIDIA GPU: every template of the small problems, each choice that it is tried with first."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU and a CUDA build of torch; none here"),
]
ROOT = Path(__file__).resolve().parents[2]


def module_at(path: Path, name: str) -> Any:
    """Import a file that belongs to no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


PROBLEMS = module_at(ROOT / "tests" / "proposers" / "problems.py", "search_problems")


def on_gpu(text: str, path: Path, what: str) -> Any:
    """A text's model on the GPU, after one seed."""
    path.write_text(text)
    module = module_at(path, path.stem)
    torch.manual_seed(3)
    with torch.device("cuda"):
        return module, getattr(module, what)()


@pytest.mark.parametrize("name", PROBLEMS.STAGED)
def test_every_choice_of_a_plan_is_right(name: str, tmp_path: Path) -> None:
    from autokernel.proposers.templates import templates

    source = PROBLEMS.STAGED[name]
    problem, model = on_gpu(source, tmp_path / f"{name}_reference.py", "Model")
    with torch.device("cuda"), torch.no_grad():
        inputs = problem.get_inputs()
        torch.manual_seed(4)
        eager = model(*inputs)
        torch.manual_seed(4)
        exact = model.double()(*[i.double() if isinstance(i, torch.Tensor) and i.is_floating_point() else i for i in inputs])
        number = 0
        for template in templates(source, "triton", "cuda:0"):
            for params in template.firsts:
                number += 1
                _, candidate = on_gpu(template.render(params), tmp_path / f"{name}_{number}.py", "ModelNew")
                torch.manual_seed(4)
                ours = candidate(*inputs)
                assert ours.shape == eager.shape and ours.dtype == eager.dtype
                # TF32 keeps ten bits: what cuDNN does where it chooses to, which for problems as small as these it may not
                tf32 = any(k.endswith(".precision") and v == "tf32" for k, v in params.items())
                bound = 4e-3 * exact.abs().max() if tf32 else 32 * (eager - exact).abs().max() + 1e-6 * exact.abs().max()
                assert float((ours - exact).abs().max()) <= float(bound), f"{template.name} {params}"
