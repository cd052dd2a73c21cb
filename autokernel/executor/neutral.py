"""Parameters that a model is born with at a neutral value (ones, zeros), moved away from it: law 6's second process.

A kernel that leaves out a scale of one or a bias of zero is right until somebody trains the model. Judge and worker construct their
models under `moved` with the same seed; values depend on seed, neutral value and shape alone, so neither the order of construction
nor the default random stream matters. Hostile code can undo it in its own process, and is then wrong.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SPAN = 0.5  # moved values lie within this share of the neutral value (of one, where that is zero)


def moved_values(like: Any, value: float, seed: int) -> Any:
    """A tensor of `like`'s shape, dtype and device with values around `value`, the same for the same seed, value and shape."""
    import torch

    key = hashlib.sha256(f"{seed}:{value!r}:{tuple(like.shape)}".encode()).digest()
    generator = torch.Generator(device="cpu").manual_seed(int.from_bytes(key[:8], "little") >> 1)
    drawn = torch.rand(tuple(like.shape), generator=generator, dtype=torch.float32, device="cpu").mul_(2 * SPAN).sub_(SPAN)
    return drawn.mul_(abs(value) or 1.0).add_(value).to(dtype=like.dtype, device=like.device)


@contextmanager
def moved(seed: int) -> Iterator[None]:
    """While it lasts, `nn.init.ones_`, `zeros_` and `constant_`, and `nn.Parameter` of a constant tensor, give moved values."""
    import torch
    from torch import nn

    def fill(tensor: Any, value: float) -> Any:
        if not tensor.is_floating_point() or tensor.is_meta or not math.isfinite(value):
            return plain["constant_"](tensor, value)
        with torch.no_grad():
            return tensor.copy_(moved_values(tensor, float(value), seed))

    def parameter(cls: type, data: Any = None, requires_grad: bool = True) -> Any:
        if type(data) is torch.Tensor and data.is_floating_point() and data.numel() and not data.is_meta:
            value = float(data.reshape(-1)[0])
            if math.isfinite(value) and bool((data == value).all()):
                data = moved_values(data, value, seed)
        return born(cls, data, requires_grad)

    plain = {name: getattr(nn.init, name) for name in ("ones_", "zeros_", "constant_")}
    moving = {"ones_": lambda tensor: fill(tensor, 1.0), "zeros_": lambda tensor: fill(tensor, 0.0), "constant_": fill}
    # also where a module imported them by name, as torch's own attention does
    places = [(module, name) for module in list(sys.modules.values()) for name, function in plain.items()
              if getattr(module, "__dict__", {}).get(name) is function]
    born = nn.Parameter.__new__
    for module, name in places:
        setattr(module, name, moving[name])
    nn.Parameter.__new__ = parameter  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, plain[name])
        nn.Parameter.__new__ = born  # type: ignore[method-assign]
