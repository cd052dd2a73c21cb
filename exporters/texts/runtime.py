"""What the operations of this kernel share: registration, the winner behind an operator, what is refused and why."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ._ops import add_op_namespace_prefix, ops

_library = torch.library.Library(add_op_namespace_prefix("").partition("::")[0], "FRAGMENT")


def register(schema: str, run: Callable[..., Any], fake: Callable[..., Any], dispatch_key: str) -> Any:
    """Define one operator and give it back; where the same content was loaded from another folder, the operator that is there."""
    name = schema.partition("(")[0]
    if not hasattr(ops, name):
        _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        _library.impl(name, run, dispatch_key)
        torch.library.register_fake(add_op_namespace_prefix(name), fake, lib=_library)
    return getattr(ops, name).default


class Skeleton(threading.local):
    """The winner's module with its parameters and buffers left open, one a thread and device; a call lends it the caller's tensors."""

    def __init__(self, model: type[nn.Module], init: tuple[Any, ...], paths: tuple[str, ...]) -> None:
        self.make, self.init, self.paths = model, init, paths
        self.opened: dict[torch.device, tuple[nn.Module, list[tuple[dict[str, Any], str]]]] = {}

    def _open(self, device: torch.device) -> tuple[nn.Module, list[tuple[dict[str, Any], str]]]:
        with torch.device("meta" if self.paths else device):
            module = self.make(*self.init)
        held = {name for group in (module.named_parameters, module.named_buffers) for name, _ in group(remove_duplicate=False)}
        if held != set(self.paths):
            raise RuntimeError(f"the kernel's module holds {sorted(held)} where {sorted(self.paths)} are passed; it cannot be a function.")
        places = []
        for path in self.paths:
            parent, _, name = path.rpartition(".")
            owner = module.get_submodule(parent)
            slots: dict[str, Any] = owner._parameters if name in owner._parameters else owner._buffers
            places.append((slots, name))
        self.opened[device] = module, places
        return module, places

    def call(self, device: torch.device, inputs: tuple[Any, ...], tensors: tuple[Tensor, ...]) -> Any:
        """forward(*inputs) with `tensors` as the parameters and buffers, in the order of `paths`; outputs are contiguous."""
        module, places = self.opened.get(device) or self._open(device)
        for (slots, name), tensor in zip(places, tensors):
            slots[name] = tensor
        try:
            with current(device):
                made = module.forward(*inputs)
        finally:
            for slots, name in places:
                slots[name] = None
        return made.contiguous() if isinstance(made, Tensor) else tuple(one.contiguous() for one in made)


def current(device: torch.device) -> Any:
    """A context in which launches go to `device`: Triton and the libraries launch on the current one, wherever the tensors lie."""
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        return torch.cuda.device(device)
    return contextlib.nullcontext()


def refusal(name: str, backend: str, wanted: Sequence[tuple[str, Any]], values: Sequence[Any]) -> Exception:
    """Why a call lies outside what was verified. `wanted`: each argument's name with (shape, dtype, strides or None), or its value."""
    for (argument, want), value in zip(wanted, values):
        where = f"{name}: argument '{argument}'"
        if want is ...:  # neither tensor nor plain value: not checked
            continue
        if not isinstance(want, tuple):
            if type(value) is not type(want) or value != want:
                return ValueError(f"{where} is {value!r}; this kernel was verified with {want!r} alone. Pass that, or use torch.")
            continue
        shape, dtype, stride = want
        if not isinstance(value, Tensor):
            return TypeError(f"{where} is a {type(value).__name__}; pass a tensor.")
        if value.dtype != dtype:
            return TypeError(f"{where} is {value.dtype}; this kernel was verified with {dtype} alone. Convert it, or use torch.")
        if tuple(value.shape) != shape:
            return ValueError(f"{where} has shape {tuple(value.shape)}; this kernel was verified with {shape} alone. "
                              "Pass that shape, or use torch.")
        if value.device.type != backend:
            return ValueError(f"{where} is on {value.device}; this kernel runs on {backend}. Move it there.")
        if (not value.is_contiguous()) if stride is None else value.stride() != stride:
            return ValueError(f"{where} has strides {value.stride()}; this kernel was verified with "
                              f"{'a contiguous tensor' if stride is None else stride} alone."
                              f"{f' Pass {argument}.contiguous().' if stride is None else ''}")
        if torch.is_grad_enabled() and value.requires_grad:
            return RuntimeError(f"{where} requires a gradient and this kernel has no backward. "
                                "Call it under torch.no_grad() or torch.inference_mode().")
    return ValueError(f"{name}: its tensors are on different devices; move them to one.")


def check_init(name: str, model: type[nn.Module], init: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise ValueError where a module is constructed with other values than those verified."""
    signature = inspect.signature(model.__init__)
    verified, given = signature.bind(None, *init), signature.bind(None, *args, **kwargs)
    verified.apply_defaults()
    given.apply_defaults()
    if verified.arguments != given.arguments:
        raise ValueError(f"{name} was verified with the arguments {init} alone and is constructed with {args or kwargs}. "
                         "Pass those, or use torch.")


def constant(module: nn.Module, attribute: str, value: Any, name: str) -> None:
    """Raise where the module whose forward is replaced does not hold the verified value."""
    if not hasattr(module, attribute):
        raise ValueError(f"{name}: {type(module).__name__} has no attribute '{attribute}'; this layer was verified with "
                         f"{attribute}={value!r} and can only replace a module that says so.")
    found = getattr(module, attribute)
    if found != value:
        raise ValueError(f"{name}: {type(module).__name__} has {attribute}={found!r}; this layer was verified with {value!r} alone. "
                         "Do not map it onto this module.")


def tensor(module: nn.Module, path: str) -> Any:
    """A parameter or buffer by its dotted path."""
    return functools.reduce(getattr, path.split("."), module)


class Reference:
    """The problem's own module in torch, for arguments outside what the kernel was verified with."""

    def __init__(self, model: type[nn.Module], init: tuple[Any, ...], paths: tuple[str, ...]) -> None:
        self.make, self.init, self.paths = model, init, paths
        self.modules: dict[str, nn.Module] = {}

    def call(self, inputs: tuple[Any, ...], tensors: tuple[Tensor, ...]) -> Any:
        """forward(*inputs) with `tensors` as the parameters and buffers, in the order of `paths`."""
        device = "meta" if self.paths else str(next(value.device for value in inputs if isinstance(value, Tensor)))
        if device not in self.modules:
            with torch.device(device):
                self.modules[device] = self.make(*self.init)
        return torch.func.functional_call(self.modules[device], dict(zip(self.paths, tensors)), inputs)
