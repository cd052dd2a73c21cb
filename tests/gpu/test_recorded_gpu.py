"""Recorded candidates on a device: replays see new inputs, keep no output of an earlier call, and know shapes apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from autokernel.proposers.recorded import recorded, reference_template

pytestmark = pytest.mark.gpu
SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(6)])

    def forward(self, x, h):
        for layer in self.layers:
            x = torch.relu(layer(x)) + h
        return x, (h * 2, x.sum(1))
"""


@pytest.fixture
def models() -> tuple[Any, Any]:
    namespace: dict[str, Any] = {}
    exec(compile(reference_template(SOURCE, "").render({"recorded": True}), "candidate", "exec"), namespace)
    with torch.device("cuda"):
        torch.manual_seed(0)
        plain = namespace["Model"]()
        torch.manual_seed(0)
        return plain, namespace["ModelNew"]()


def test_every_call_answers_for_its_own_inputs_and_shapes(models: tuple[Any, Any]) -> None:
    plain, model = models
    with torch.no_grad():
        calls = [(torch.randn(n, 64, device="cuda"), torch.randn(n, 64, device="cuda")) for n in (8, 8, 3, 8)]
        given = [model(*call) for call in calls]
        for call, (y, (doubled, total)) in zip(calls, given, strict=True):
            wanted = plain(*call)
            torch.testing.assert_close(y, wanted[0])
            torch.testing.assert_close(doubled, wanted[1][0])
            torch.testing.assert_close(total, wanted[1][1])
    assert len(model.recordings) == 2


def test_weights_that_change_in_place_are_seen(models: tuple[Any, Any]) -> None:
    plain, model = models
    x, h = torch.randn(8, 64, device="cuda"), torch.randn(8, 64, device="cuda")
    with torch.no_grad():
        before = model(x, h)[0]
        for one in (plain, model):
            one.layers[0].weight.mul_(2)
        after = model(x, h)[0]
        torch.testing.assert_close(after, plain(x, h)[0])
    assert not torch.equal(before, after)


def test_a_candidate_of_another_class_name_is_recorded_too() -> None:
    text = "from torch import nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return (x + 1) * 2\n"
    namespace: dict[str, Any] = {}
    exec(compile(recorded(text, "Direct"), "candidate", "exec"), namespace)
    x = torch.randn(5, device="cuda")
    assert torch.equal(namespace["ModelNew"]()(x), (x + 1) * 2)
