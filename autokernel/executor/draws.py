"""A problem's own code in the judge: its module, models from a seed, inputs from a seed, inputs beyond its range.

Trusted code (the problem's author is the user's choice); everything is drawn on the judge's device where the problem allows it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from autokernel.executor import neutral
from autokernel.executor.faults import out_of_memory
from autokernel.executor.precision import cast_model
from autokernel.executor.seeding import seed_generators

OUTLIERS = 8  # elements of a tensor that lie far out, at secret places

class ProblemFailed(Exception):
    """The problem's own code failed or its answer is none that can be judged; the message says where."""


def map_tensors(tree: Any, change: Callable[[Tensor], Any]) -> Any:
    """The argument tree with every tensor replaced by `change(tensor)`."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_tensors(item, change) for item in tree)
    if isinstance(tree, dict):
        return {key: map_tensors(item, change) for key, item in tree.items()}
    return tree


def tensors(tree: Any) -> list[Tensor]:
    """All tensors of the tree, in order."""
    found: list[Tensor] = []
    map_tensors(tree, found.append)
    return found


class ProblemCode:
    """The problem's module, executed once."""

    def __init__(self, source: str, name: str, device: torch.device, dtype: torch.dtype | None = None) -> None:
        self.device = device
        self.dtype = dtype  # what weights and floating inputs are cast to, None leaves them
        self.moved = False  # True: inputs could not be drawn on the device and were moved there
        module = ModuleType("autokernel_problem")
        module.__file__ = name
        sys.modules[module.__name__] = module
        try:
            exec(compile(source, name, "exec"), module.__dict__)
            self.model_class = module.Model
            self.get_inputs = module.get_inputs
            self.get_init_inputs = module.get_init_inputs
        except Exception as error:
            raise ProblemFailed(f"its file does not load: {type(error).__name__}: {error}") from error

    def init_arguments(self, seed: int) -> list[Any]:
        """What `Model` is constructed with."""
        seed_generators(self.device, seed)
        return list(map_tensors(self.get_init_inputs(), self._here))

    def _here(self, tensor: Tensor) -> Tensor:
        """The tensor on the device, floating ones in the run's precision; integers are left alone, which KernelBench does not."""
        return tensor.to(self.device, self.dtype if tensor.is_floating_point() else None)

    def model(self, seed: int) -> torch.nn.Module:
        """A new Model with weights from `seed`, constructed under the device, in train mode."""
        arguments = self.init_arguments(seed)
        seed_generators(self.device, seed)
        with torch.device(self.device):
            model = self.model_class(*arguments)
        return cast_model(model, self.device, self.dtype)

    def moved_model(self, seed: int) -> tuple[torch.nn.Module, int]:
        """As `model`, with neutral parameters moved; and how many were."""
        plain = dict(self.model(seed).named_parameters())
        with neutral.moved(seed):
            model = self.model(seed)
        return model, sum(name in plain and not torch.equal(plain[name], values) for name, values in model.named_parameters())

    def draw(self, seed: int) -> tuple[Any, ...]:
        """One set of the problem's own inputs."""
        seed_generators(self.device, seed)
        if not self.moved:
            try:
                with torch.device(self.device):
                    inputs = self.get_inputs()
                return tuple(map_tensors(inputs, self._here))
            except Exception as error:  # a problem that names the CPU itself; drawn there and moved, which facts() reports
                if out_of_memory(error):
                    raise
                self.moved = True
                seed_generators(self.device, seed)
        return tuple(map_tensors(self.get_inputs(), self._here))

    def draw_kind(self, kind: str, seed: int) -> tuple[Any, ...]:
        """A set of the problem's own inputs ("own") or one beyond its range, made from its draws alone.

        Floating tensors change, all else is kept; so are zeros in place, integral values and tensors that every draw repeats.
        """
        first = self.draw(seed)
        if kind == "own":
            return first
        second = iter(tensors(self.draw(seed ^ 0x5DEECE66D)))
        generator = torch.Generator(device=self.device).manual_seed(seed)
        return tuple(map_tensors(first, lambda tensor: _beyond(kind, tensor, next(second), generator)))


def _beyond(kind: str, first: Tensor, second: Tensor, generator: torch.Generator) -> Tensor:
    if not first.is_floating_point() or first.shape != second.shape or _is_fixed(first, second):
        return first
    if kind == "negated":
        return -first
    if kind == "scaled":
        return first * 2.5
    if kind == "difference":
        return first - second
    if kind == "sparse":
        mask = torch.rand(first.shape, generator=generator, device=first.device) < 0.01
        return torch.where(_symmetric_as(first, mask), second, first)
    if kind == "outliers":
        mask = torch.zeros(first.shape, dtype=torch.bool, device=first.device)
        mask.view(-1)[torch.randint(first.numel(), (OUTLIERS,), generator=generator, device=first.device)] = True
        return torch.where(_symmetric_as(first, mask), first * 1e3, first)
    zeros = (first == 0) & (second == 0)
    if kind == "zeros":
        return torch.zeros_like(first)
    if kind == "constant":
        value = first.reshape(-1)[first.numel() // 2]
        return torch.where(zeros, first, value.expand_as(first)).contiguous()
    if kind == "large":
        return first * 1e3
    if kind == "denormal":
        return first * math.ldexp(1.0, -130)
    raise ProblemFailed(f"no kind of inputs named '{kind}'; use one of the gate's")


def _symmetric_as(first: Tensor, mask: Tensor) -> Tensor:
    """The mask, symmetric where the tensor's matrices are."""
    if first.dim() >= 2 and first.shape[-1] == first.shape[-2] and torch.equal(first, first.mT):
        return mask | mask.mT
    return mask


def _is_fixed(first: Tensor, second: Tensor) -> bool:
    """Every draw repeats it, or its values are codes (integers in a floating tensor)."""
    if first.numel() == 0 or torch.equal(first, second):
        return True
    head = first.reshape(-1)[:65536]
    return bool((head == head.round()).all()) and bool((first == first.round()).all())
