"""A model in half precision: what `Module.to` leaves out. Used alike by judge and worker, so that both sides stay the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


def cast_model(model: torch.nn.Module, device: torch.device, dtype: torch.dtype | None) -> torch.nn.Module:
    """The model on the device and in `dtype` (None leaves it), floating tensors that are plain attributes included: KernelBench L3/33."""
    moved = model.to(device, dtype)
    if dtype is not None:
        for module in moved.modules():
            for name, value in list(vars(module).items()):
                if type(value) is torch.Tensor and value.is_floating_point():
                    setattr(module, name, value.to(device, dtype))
    return moved


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    """Inside, tensors made without a dtype are of this one: KernelBench L3/35 draws its states in forward. None changes nothing."""
    if dtype is None:
        yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
