"""torch.compile's kernels as a candidate: written without a GPU, run by Triton's interpreter in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autokernel.proposers import seed_products
from autokernel.proposers.graph import Unmatchable
from autokernel.proposers.seed import _kernel, seed_template
from autokernel.proposers.tracer import TRACER

pytestmark = pytest.mark.timeout(300)
_spec = importlib.util.spec_from_file_location("search_problems", Path(__file__).with_name("problems.py"))
assert _spec is not None and _spec.loader is not None
problems: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)
SOURCE = problems.problem("x: y = torch.relu(self.fc(x)) * self.s; return torch.sum(y - 0.5, dim=1, keepdim=True) + x",
                          "torch.randn(37, 33)", "self.fc = nn.Linear(33, 24); self.s = nn.Parameter(torch.randn(24))")
RUN = """
import sys, torch
import importlib.util
def load(name):
    spec = importlib.util.spec_from_file_location(name, f"{sys.argv[1]}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
reference, candidate = load("reference"), load("candidate")
torch.manual_seed(3)
model = reference.Model()
torch.manual_seed(3)
new = candidate.ModelNew()
inputs = reference.get_inputs()
with torch.no_grad():
    torch.testing.assert_close(new(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)
print("right")
"""


@pytest.mark.slow
def test_a_seed_is_a_candidate_of_its_own_and_right(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    template = seed_template(SOURCE)
    text = template.render(template.params)
    assert text.count("@triton.jit") >= 1 and "async_compile" not in text and "triton_heuristics" not in text
    assert "self.fc.weight" in text.split("def forward")[1] and "self.s" in text.split("def forward")[1]
    assert_right(SOURCE, text, tmp_path)


def assert_right(source: str, text: str, folder: Path) -> None:
    """In the interpreter, in a process of its own."""
    (folder / "reference.py").write_text(source)
    (folder / "candidate.py").write_text(text)
    done = subprocess.run([sys.executable, "-c", RUN, str(folder)], capture_output=True, text=True, timeout=200, check=False,
                          env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.stdout.strip() == "right", done.stderr[-2000:]


PRODUCTS = problems.problem("x: y = torch.relu(self.fc(x)); return torch.bmm(y, y.transpose(1, 2)) @ self.w + 0.5",
                            "torch.randn(3, 19, 33)", "self.fc = nn.Linear(33, 24); self.w = nn.Parameter(torch.randn(19, 21))")


@pytest.mark.slow
def test_a_seeds_products_are_our_own_where_they_are_worth_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    traced = TRACER.trace(PRODUCTS)
    small = seed_template(PRODUCTS, traced)
    assert small.space["products"] == ["library"] and "torch.bmm(" in small.render(small.params)
    monkeypatch.setattr(seed_products, "WORTH", 1)
    template = seed_template(PRODUCTS, traced)
    assert template.space["products"] == ["own", "library"] and "matmul.block_m" in template.space
    assert [choice["products"] for choice in template.firsts][:2] == ["own", "library"]
    assert template.render(template.firsts[1]) == small.render(small.params)
    text = template.render(template.firsts[0])
    assert text.count("    product(") == 3 and "torch.mm(" not in text and "torch.bmm(" not in text
    assert_right(PRODUCTS, text, tmp_path)


def test_a_product_that_is_scaled_or_has_no_place_to_go_stays_the_librarys() -> None:
    scaled, whole = "torch.addmm(c, a, b, alpha=2, beta=1, out=buf0)", "buf1 = torch.mm(a, b)"
    assert [seed_products._own(line) for line in (scaled, whole)] == [scaled, whole]
    assert seed_products._own("torch.addmm(c, a, b, alpha=1, beta=1, out=buf0)") == "product(a, b, c, out=buf0)"


def test_its_launch_parameters_can_be_chosen(tmp_path: Path) -> None:
    template = seed_template(SOURCE)
    name = next(n for n in template.params if n.endswith(".num_warps"))
    assert template.space[name] == [2, 4, 8, 16]
    assert template.render({**template.params, name: 16}) != template.render(template.params)


def test_what_a_seed_does_not_carry_is_said() -> None:
    text = ("@triton_heuristics.split_scan(size_hints={'x': 1}, inductor_meta={'grid_type': 'SplitScanGrid'})\n"
            "@triton.jit\ndef k(a):\n    pass\n")
    with pytest.raises(Unmatchable, match="split_scan"):
        _kernel("k", text)
    with pytest.raises(Unmatchable, match="gave no seed"):
        seed_template("import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        raise ValueError('no')\n"
                      "def get_inputs():\n    return [torch.rand(2)]\n")
