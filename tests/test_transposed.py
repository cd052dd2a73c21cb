"""Transposed convolutions as products: what torch's own float64 gives, for every kind of argument."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from autokernel.executor.transposed import ByProducts, has_any


@pytest.mark.parametrize(("dims", "given"), [
    (1, {"kernel_size": 5}),
    (1, {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2, "bias": False}),
    (2, {"kernel_size": (3, 7), "padding": (1, 0)}),
    (2, {"kernel_size": (2, 4), "stride": (3, 2), "output_padding": (2, 1), "groups": 2}),
    (2, {"kernel_size": 3, "stride": 2, "padding": 2, "dilation": (2, 1), "groups": 4, "bias": False}),
    (3, {"kernel_size": (3, 2, 4), "stride": (1, 2, 3), "padding": (1, 0, 1), "output_padding": (0, 1, 2)}),
])
def test_the_same_as_the_librarys(dims: int, given: dict[str, object]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(getattr(nn, f"ConvTranspose{dims}d")(4, 8, **given), nn.Conv1d(8, 3, 1) if dims == 1 else nn.ReLU()).double()
    x = torch.randn(2, 4, *(5, 6, 7)[:dims], dtype=torch.float64)
    with torch.no_grad():
        expected = model(x)
        with ByProducts():
            got = model(x)
    assert has_any(model) and got.is_contiguous() and got.dtype == torch.float64
    assert got.shape == expected.shape and torch.allclose(got, expected, rtol=1e-13, atol=1e-13)


def test_whoever_has_none_is_told_so() -> None:
    assert not has_any(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()))
