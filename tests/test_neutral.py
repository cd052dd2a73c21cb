"""Neutral parameters are moved alike wherever a model of the same shapes is built, and everything else is left alone."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402  needs torch

from autokernel.executor.neutral import moved  # noqa: E402


def model(first: int = 0) -> nn.Module:
    torch.manual_seed(3)
    parts = [nn.LayerNorm(8), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.MultiheadAttention(8, 2)]
    return nn.ModuleList(parts[first:] + parts[:first])


def test_only_constants_move_and_they_move_alike() -> None:
    plain = dict(model().named_parameters())
    with moved(5):
        once = dict(model().named_parameters())
    with moved(5):
        again, turned = dict(model().named_parameters()), dict(model(2).named_parameters())
    with moved(6):
        other = dict(model().named_parameters())
    changed = {name for name in plain if not torch.equal(plain[name], once[name])}
    assert changed == {"0.weight", "0.bias", "2.weight", "2.bias", "3.in_proj_bias", "3.out_proj.bias"}
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert torch.equal(once["0.weight"], turned["2.weight"])  # whatever was built before
    assert not torch.equal(once["0.weight"], other["0.weight"])
    assert (once["0.weight"] - 1).abs().max() <= 0.5 < (once["0.weight"] - 0).abs().max()


def test_parameters_of_constant_tensors_move_and_what_is_patched_is_put_back() -> None:
    before = (nn.init.ones_, nn.init.constant_, nn.Parameter.__new__)
    with moved(1):
        scale, drawn = nn.Parameter(torch.full((4,), 3.0)), nn.Parameter(torch.arange(4.0))
        with pytest.raises(RuntimeError), moved(2):
            raise RuntimeError
    assert not torch.equal(scale, torch.full((4,), 3.0)) and (scale - 3).abs().max() <= 1.5
    assert torch.equal(drawn, torch.arange(4.0)) and isinstance(scale, nn.Parameter)
    assert (nn.init.ones_, nn.init.constant_, nn.Parameter.__new__) == before
    assert torch.equal(nn.Parameter(torch.ones(2)), torch.ones(2))
