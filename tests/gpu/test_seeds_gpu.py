"""Seeds and the configured library on a device: our own products beside the compiler's kernels, convolutions in both layouts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from autokernel.proposers.library import library_template
from autokernel.proposers.seed import seed_template
from autokernel.proposers.tracer import TRACER

pytestmark = pytest.mark.gpu
MLP = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(1024, 1536), nn.Linear(1536, 768)

    def forward(self, x):
        return self.second(torch.relu(self.first(x))) - 0.5

def get_inputs():
    return [torch.randn(512, 1024)]

def get_init_inputs():
    return []
"""
NET = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(32, 24, 3, stride=2)

    def forward(self, x):
        return torch.relu(self.b(torch.relu(self.a(x))))

def get_inputs():
    return [torch.randn(8, 16, 33, 47)]

def get_init_inputs():
    return []
"""


def pair(source: str, text: str, folder: Path) -> tuple[Any, Any]:
    """The reference and the candidate on the device, with the same weights; the candidate from a file, as Triton needs it."""
    made = []
    for name, written in (("reference", source), ("candidate", text)):
        path = folder / f"{name}.py"
        path.write_text(written, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"{folder.name}_{name}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with torch.device("cuda"):
            torch.manual_seed(0)
            made.append(getattr(module, "Model" if name == "reference" else "ModelNew")())
    return made[0], made[1]


def test_a_seeds_own_products_are_right_recorded_or_not(tmp_path: Path) -> None:
    template = seed_template(MLP, TRACER.trace(MLP))
    assert template.firsts[0]["products"] == "own"
    for number, choice in enumerate((template.firsts[0], {**template.firsts[0], "recorded": not template.firsts[0]["recorded"]})):
        folder = tmp_path / f"way{number}"
        folder.mkdir()
        plain, model = pair(MLP, template.render(choice), folder)
        with torch.no_grad():
            for _ in range(3):
                x = torch.randn(512, 1024, device="cuda")
                exact = plain.double()(x.double())
                plain.float()
                eager = (plain(x) - exact).pow(2).mean().sqrt()
                ours = (model(x) - exact).pow(2).mean().sqrt()
                assert ours <= 8 * eager, (float(ours), float(eager))


def test_a_configured_library_is_right_in_both_layouts(tmp_path: Path) -> None:
    template = library_template(NET, TRACER.trace(NET))
    assert template is not None
    for number, layout in enumerate(template.space["layout"]):
        folder = tmp_path / f"layout{number}"
        folder.mkdir()
        plain, model = pair(NET, template.render({"layout": layout, "recorded": bool(number)}), folder)
        x = torch.randn(8, 16, 33, 47, device="cuda")
        with torch.no_grad():
            y = model(x)
            torch.testing.assert_close(y, plain(x), rtol=5e-3, atol=5e-3)  # TF32 on both sides, in whatever order
            assert y.is_contiguous()
    torch.backends.cudnn.benchmark = False
