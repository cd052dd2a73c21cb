"""Candidates whose launches are recorded as a CUDA graph: their texts, and what they do without a GPU (tests/gpu has the rest)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from autokernel.proposers.emit import model_class, reference
from autokernel.proposers.graph import Unmatchable
from autokernel.proposers.library import library_template
from autokernel.proposers.match_conv import MEASURED
from autokernel.proposers.recorded import recorded, reference_template
from autokernel.proposers.templates import templates
from autokernel.proposers.tracer import TRACER

_spec = importlib.util.spec_from_file_location("search_problems", Path(__file__).with_name("problems.py"))
assert _spec is not None and _spec.loader is not None
problems: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)
MANY = problems.problem("x: return torch.linalg.eigvalsh(x @ x.t() + torch.eye(5)).exp().sin().cos().tan().sum() + self.w",
                        "torch.randn(5, 7)", "self.w = nn.Parameter(torch.randn(3))")
FEW = problems.problem("x: return torch.linalg.eigvalsh(x)", "torch.randn(5, 5)")


def executed(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(compile(text, "candidate", "exec"), namespace)
    return namespace


def test_without_a_gpu_it_does_what_it_would_have_recorded() -> None:
    module = executed(reference_template(MANY, "").render({"recorded": True}))
    torch.manual_seed(0)
    plain = module["Model"]()
    torch.manual_seed(0)
    model = module["ModelNew"]()
    x = torch.randn(5, 7)
    assert torch.equal(model(x), plain(x))
    assert [name for name, _ in model.named_parameters()] == ["w"]  # as in the reference: weights can be loaded by name


def test_a_candidates_own_class_becomes_the_one_that_is_recorded() -> None:
    text = ("from torch import nn\n\n\nclass ModelNew(nn.Module):\n    def __init__(self, n):\n        super(ModelNew, self).__init__()\n"
            "        self.n = n\n\n    def forward(self, x, y):\n        return {'sum': [x + y, self.n]}\n")
    module = executed(recorded(text, "Direct"))
    assert issubclass(module["ModelNew"], module["Direct"])
    made = module["ModelNew"](4)(torch.ones(2), torch.ones(2))
    assert torch.equal(made["sum"][0], torch.full((2,), 2.0)) and made["sum"][1] == 4


def test_outputs_are_copied_whatever_holds_them() -> None:
    copied = executed(reference_template(MANY, "").render({"recorded": True}))["copied"]
    x = torch.ones(2)
    made = copied({"a": (x, [x]), "b": 3})
    assert made["b"] == 3 and isinstance(made["a"], tuple) and torch.equal(made["a"][1][0], x)
    assert made["a"][0].data_ptr() != x.data_ptr() != made["a"][1][0].data_ptr()


@pytest.mark.parametrize(("source", "launches"), [(MANY, "many"), (FEW, "few")])
def test_where_nothing_fits_the_reference_is_recorded_and_tried_as_it_is(source: str, launches: str) -> None:
    found = templates(source, "auto", "cuda:0", seeds=False)
    assert [t.name for t in found] == ["reference"] and found[0].idea.startswith("no starter: ")
    texts = [found[0].render(choice) for choice in found[0].firsts]
    assert ["CUDAGraph" in text for text in texts] == [True, False]


@pytest.mark.parametrize(("source", "device", "offered"), [
    (problems.problem("x: return (x + 1) * 2", "torch.randn(5)"), "cuda:0", False),
    (problems.problem("x: return x.sin().cos().tan().exp().relu().sum(1)", "torch.randn(5, 7)"), "cuda:0", True),
    (problems.problem("x: return x.sin().cos().tan().exp().relu().sum(1)", "torch.randn(5, 7)"), "cpu", False),
])
def test_it_is_offered_beside_a_plan_where_the_reference_is_many_launches(source: str, device: str, offered: bool) -> None:
    pytest.importorskip("triton")
    try:
        found = templates(source, "auto", device, seeds=False)
    except Unmatchable:  # no builder for a GPU here
        found = []
    assert ("reference" in [t.name for t in found]) == offered
    assert not offered or found[-1].name == "reference"


def test_a_constructors_own_methods_come_along() -> None:
    source = problems.HEAD + """class Block(nn.Module):
    pass


class Model(nn.Module):
    def __init__(self, n):
        super(Model, self).__init__()
        self.layers = self.make(n)

    def make(self, n):
        return nn.Sequential(*(self.one() for _ in range(n)))

    def one(self):
        return Block()

    def unused(self):
        return None

    def forward(self, x):
        return self.layers(x)
"""
    seen = reference(source)
    assert [word in seen.constructor for word in ("def __init__", "def make", "def one", "def unused", "super(ModelNew")] == \
        [True, True, True, False, True]
    assert "class Block" in seen.before
    with pytest.raises(Unmatchable, match="must not call forward"):
        reference(source.replace("self.make(n)", "self.forward(n)"))


CONVOLUTIONS = {
    1: ("nn.Conv1d(3, 5, 3)", "torch.randn(2, 3, 9)", ["as it is"]),
    2: ("nn.ConvTranspose2d(3, 5, 3, stride=2)", "torch.randn(2, 3, 8, 9)", ["as it is", "channels last"]),
    3: ("nn.Conv3d(3, 5, 3)", "torch.randn(2, 3, 5, 6, 7)", ["as it is", "channels last"]),
}


@pytest.mark.parametrize("dimensions", CONVOLUTIONS)
def test_a_configured_library_gives_the_references_result_in_the_references_layout(dimensions: int) -> None:
    layer, inputs, layouts = CONVOLUTIONS[dimensions]
    source = problems.problem("x: return self.c(x).relu()", inputs, f"self.c = {layer}")
    template = library_template(source, TRACER.trace(source))
    assert template is not None and list(template.space["layout"]) == layouts
    for layout in layouts:
        text = template.render({"layout": layout, "recorded": True})
        module = executed(text)
        torch.manual_seed(0)
        plain = module["Model"]()
        torch.manual_seed(0)
        model = module["ModelNew"]()
        x, = module["get_inputs"]()
        torch.testing.assert_close(model(x), plain(x))
        assert model(x).is_contiguous() and MEASURED in text.splitlines()
        assert model.c.weight.is_contiguous() == (layout == "as it is")
    torch.backends.cudnn.benchmark = False


def test_a_problem_without_a_convolution_has_no_library_to_configure() -> None:
    assert library_template(FEW, TRACER.trace(FEW)) is None


def test_a_planned_convolution_of_the_librarys_is_measured_unless_told_otherwise() -> None:
    found = {t.name: t for t in templates(problems.STAGED["conv_pool_chain"], "triton", "cuda:0", seeds=False)}
    planned = found["triton library+rows+pooling+rows2"]
    assert planned.params["library.measured"] is True and MEASURED in planned.render(planned.params).splitlines()
    assert MEASURED not in planned.render({**planned.params, "library.measured": False})


def test_a_constructor_finds_the_classes_attributes_and_what_they_are_made_of() -> None:
    source = problems.HEAD + """BASE: int = 3
OTHER = 9


class Model(nn.Module):
    half = BASE
    growth = 2 * half
    unused = OTHER

    def __init__(self):
        super(Model, self).__init__()
        self.layer = nn.Linear(5, Model.growth * 2)

    def forward(self, x):
        return self.layer(x)


def get_inputs():
    return [torch.rand(2, 5)]
"""
    seen = reference(source)
    assert seen.constructor.startswith("half = BASE\n\ngrowth = 2 * half\n\ndef __init__(self):")
    assert "unused" not in seen.constructor and "OTHER" not in seen.before
    made = executed(seen.before + "\n\n" + model_class(seen, "self.layer(x)", "Itself."))
    assert made["ModelNew"]().layer.weight.shape == (12, 5)
