"""Makes the `native` module that a candidate imports: one checked Python function for each launcher of a shared library.

The functions are generated, so that a call costs little more than its checks: with a loop over arguments the same checks take twice as
long (docs/decisions/0002-native-binding.md).
"""

from __future__ import annotations

import ctypes
import keyword
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from autokernel.builders.signatures import Argument, Signature

_DTYPES = {
    "f32*": "float32", "f16*": "float16", "bf16*": "bfloat16", "f64*": "float64", "i64*": "int64", "i32*": "int32", "i8*": "int8",
    "u8*": "uint8", "bool*": "bool", "void*": None,
}  # fmt: skip
_C_SCALARS: dict[str, Any] = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}
_INT_RANGES = {"i32": (-(1 << 31), (1 << 31) - 1), "i64": (-(1 << 63), (1 << 63) - 1)}


def native_module(library: Path, signatures: tuple[Signature, ...], kind: str) -> ModuleType:
    """The module `native` over `library`, for `kind` "cuda" or "cpp", with a function for each signature.

    A function takes its signature's arguments, by position or name: torch tensors for pointers (dtype as declared, contiguous, on the
    CPU or on the current CUDA device), numbers for scalars. TypeError or ValueError names the argument at fault and what to pass; a
    launcher that returns other than 0 raises RuntimeError with its name and code. CUDA launchers get torch's current stream last.
    Raises ImportError where the library cannot be loaded or does not export a function.
    """
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise ImportError(f"the compiled library cannot be loaded ({error}); check what it links against.") from error
    module = ModuleType("native", "Compiled launchers of this candidate.")
    for signature in signatures:
        try:
            launcher = getattr(loaded, signature.name)
        except AttributeError:
            raise ImportError(f"the compiled library does not export '{signature.name}'; it must be extern \"C\".") from None
        setattr(module, signature.name, _bind(launcher, signature, kind, _error_namer(loaded, kind)))
    return module


def _bind(launcher: Any, signature: Signature, kind: str, name_error: Callable[[int], str]) -> Callable[..., None]:
    """The checked function over one C function."""
    import torch

    launcher.restype = ctypes.c_int
    launcher.argtypes = [ctypes.c_void_p if a.is_pointer else _C_SCALARS[a.type] for a in signature.arguments]
    if kind == "cuda":
        launcher.argtypes = [*launcher.argtypes, ctypes.c_void_p]
    names = _argument_names(signature)

    def fail(status: int) -> None:
        raise RuntimeError(f"native.{signature.name} returned {status}{name_error(status)}; a launcher must return 0.")

    def refuse(position: int, value: object) -> None:
        raise _refusal(f"native.{signature.name}: argument {position + 1} '{names[position]}'", signature.arguments[position], value, kind)

    def number(position: int, value: object) -> int | float:
        return _number(f"native.{signature.name}: argument {position + 1} '{names[position]}'", signature.arguments[position].type, value)

    scope: dict[str, Any] = {
        "__name__": "native", "_launch": launcher, "_fail": fail, "_refuse": refuse, "_number": number, "_Tensor": torch.Tensor,
        **{f"_{name}": getattr(torch, name) for name in _DTYPES.values() if name},
    }  # fmt: skip
    if kind == "cuda":
        scope["_current_device"] = torch.cuda.current_device
        scope["_stream"] = getattr(torch._C, "_cuda_getCurrentRawStream", None) or _stream
    exec(wrapper_source(signature, kind), scope)
    function: Callable[..., None] = scope[signature.name]
    function.__doc__ = ", ".join(f"{a.type} {a.name}" for a in signature.arguments)
    return function


def _argument_names(signature: Signature) -> list[str]:
    return [a.name + "_" if keyword.iskeyword(a.name) else a.name for a in signature.arguments]


def wrapper_source(signature: Signature, kind: str) -> str:
    """Python text of the checked function; every name in it comes from a parsed signature or from here, and ours start with _.

    The names that it needs from outside are those of `scope` in `_bind`; exported kernels carry the same text.
    """
    names = _argument_names(signature)
    lines = [f"def {signature.name}({', '.join(names)}):"]
    if kind == "cuda":
        lines.append("    _device = _current_device()")
    passed = []
    for position, (argument, name) in enumerate(zip(signature.arguments, names)):  # noqa: B905 (made from each other)
        if argument.is_pointer:
            place = f"not {name}.is_cpu" if kind == "cpp" else f"{name}.get_device() != _device"
            dtype = _DTYPES[argument.type]
            wrong = f"not isinstance({name}, _Tensor) or {place} or not {name}.is_contiguous()"
            lines.append(f"    if {wrong}{f' or {name}.dtype is not _{dtype}' if dtype else ''}: _refuse({position}, {name})")
            passed.append(f"{name}.data_ptr()")
        elif argument.type in _INT_RANGES:
            low, high = _INT_RANGES[argument.type]
            lines.append(f"    if type({name}) is not int or not {low} <= {name} <= {high}: {name} = _number({position}, {name})")
            passed.append(name)
        else:
            lines.append(f"    if type({name}) is not float: {name} = _number({position}, {name})")
            passed.append(name)
    if kind == "cuda":
        passed.append("_stream(_device)")
    lines += [f"    _status = _launch({', '.join(passed)})", "    if _status: _fail(_status)"]
    return "\n".join(lines)


def _refusal(where: str, argument: Argument, value: Any, kind: str) -> Exception:
    """Why `value` cannot be passed for a pointer argument."""
    import torch

    if not isinstance(value, torch.Tensor):
        return TypeError(f"{where} is a {type(value).__name__}; pass a torch tensor.")
    wanted = _DTYPES[argument.type]
    if wanted and value.dtype is not getattr(torch, wanted):
        return TypeError(f"{where} is {value.dtype}, but SIGNATURES says {argument.type}; pass a torch.{wanted} tensor.")
    if kind == "cpp" and not value.is_cpu:
        return ValueError(f"{where} is on {value.device}; pass a tensor on the CPU.")
    if kind == "cuda" and (not value.is_cuda or value.get_device() != torch.cuda.current_device()):
        return ValueError(f"{where} is on {value.device}; pass a tensor on the current CUDA device, cuda:{torch.cuda.current_device()}.")
    strided = f"shape {tuple(value.shape)}, strides {value.stride()}"
    return ValueError(f"{where} is not contiguous ({strided}); pass {argument.name}.contiguous().")


def _number(where: str, kind: str, value: Any) -> int | float:
    """`value` as what ctypes passes for a scalar; ctypes itself would cut an int that is too large to fit."""
    if hasattr(value, "data_ptr"):
        raise TypeError(f"{where} is a tensor, but SIGNATURES says {kind}; pass a number, for example from .item().")
    if kind in _INT_RANGES:
        if not hasattr(value, "__index__"):
            raise TypeError(f"{where} is a {type(value).__name__}, but SIGNATURES says {kind}; pass an int.")
        low, high = _INT_RANGES[kind]
        if not low <= int(value) <= high:
            raise ValueError(f"{where} is {value}, which {kind} cannot hold; use a wider type in SIGNATURES and in C++.")
        return int(value)
    if not hasattr(value, "__float__"):
        raise TypeError(f"{where} is a {type(value).__name__}, but SIGNATURES says {kind}; pass a float.")
    return float(value) if not isinstance(value, int) or abs(value) < 1 << 1023 else math.copysign(math.inf, value)


def _error_namer(loaded: ctypes.CDLL, kind: str) -> Callable[[int], str]:
    """What to write after a launcher's code: for CUDA the runtime's name of the error, asked of the library itself."""
    if kind != "cuda":
        return lambda code: ""
    ask = loaded.autokernel_error_name
    ask.restype, ask.argtypes = ctypes.c_char_p, [ctypes.c_int]
    return lambda code: f" ({(ask(code) or b'unknown').decode('ascii', 'replace')})"


def _stream(device: int) -> int:
    """torch's current stream on `device` as a raw handle, by the public way: slower, for a torch without the other."""
    import torch

    return int(torch.cuda.current_stream(device).cuda_stream)
