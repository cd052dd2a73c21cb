"""Emitted C++ candidates are built by the cpp builder and held against the problem in float64."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from autokernel import builders
from autokernel.proposers.graph import Unmatchable, read
from autokernel.proposers.templates import Template, row_templates, starter_templates
from autokernel.proposers.trace import trace

_spec = importlib.util.spec_from_file_location("search_problems", Path(__file__).with_name("problems.py"))
assert _spec is not None and _spec.loader is not None
problems: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)
BUILDER = builders.get("cpp")
NATIVE = ("max_pool1d", "avg_pool3d", "cumsum_reverse", "cumsum_exclusive", "masked_cumsum", "cumprod")
SOURCES = {**problems.ROWS, "diagonal": problems.OTHERS["diagonal"],
           **{name: problems.OTHERS[name] for name in NATIVE},
           "max_pool_ceil": problems.problem("x: return self.p(x)", "torch.randn(2, 3, 12, 9)",
                                             "self.p = nn.MaxPool2d(3, 2, 1, ceil_mode=True)"),
           "cumsum_middle": problems.problem("x: return x.cumsum(1)", "torch.randn(2, 19, 21)"),
           "full_split": problems.problem("x: return x / x.norm()", "torch.randn(3, 40000)"),
           "strided": problems.problem("x, y: return x.t() * y + x.t().sum(0)", "torch.randn(9, 9), torch.randn(9, 9)")}
pytestmark = pytest.mark.skipif(BUILDER.unavailable("cpu") is not None, reason=str(BUILDER.unavailable("cpu")))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


def template_of(source: str) -> Template:
    graph = read(trace(source))
    try:
        return row_templates(source, graph)[0]
    except Unmatchable:
        return starter_templates(source, graph, "cpp")[0]


def reference(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(source, "problem.py", "exec"), names)
    return names


def candidate(text: str, store: Path) -> Any:
    built = BUILDER.build(text, store, None, 120.0)
    assert built.ok, built.digest
    path = store / f"candidate_{abs(hash(text))}.py"
    path.write_text(text)
    return BUILDER.load(path, built.artifact).ModelNew


def check(source: str, text: str, store: Path) -> None:
    names = reference(source)
    made = candidate(text, store)
    torch.manual_seed(3)
    model = names["Model"]()
    torch.manual_seed(3)
    new = made()
    assert [(k, v.shape) for k, v in new.named_parameters()] == [(k, v.shape) for k, v in model.named_parameters()]
    inputs = names["get_inputs"]()
    with torch.no_grad():
        eager, ours = model(*inputs), new(*inputs)
        exact = model.double()(*[i.double() if isinstance(i, torch.Tensor) and i.is_floating_point() else i for i in inputs])
    assert ours.shape == eager.shape and ours.dtype == eager.dtype
    if not eager.is_floating_point():
        assert torch.equal(ours, eager)
        return
    limit = 8 * (eager - exact).abs().max() + 2e-7 * exact.abs()
    assert ((ours - exact).abs() <= limit).all(), f"off by {(ours - exact).abs().max():.2e}, eager by {(eager - exact).abs().max():.2e}"


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_an_emitted_kernel_is_as_right_as_eager(name: str, store: Path) -> None:
    template = template_of(SOURCES[name])
    check(SOURCES[name], template.render(template.params), store)


@pytest.mark.parametrize(("name", "params"), [
    ("softmax", {"chunk": 100, "keep": False}), ("log_softmax_middle", {"block": 64, "keep": True}), ("cumprod", {"lanes": 2}),
])
def test_other_parameters_change_no_answer(name: str, params: dict[str, Any], store: Path) -> None:
    template = template_of(SOURCES[name])
    check(SOURCES[name], template.render({**template.params, **params}), store)


def test_another_shape_than_the_traced_one_is_refused(store: Path) -> None:
    template = template_of(SOURCES["softmax"])
    made = candidate(template.render(template.params), store)
    with pytest.raises(AssertionError):
        made()(torch.randn(37, 128))
