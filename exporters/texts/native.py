"""The kernel's compiled launchers, called through ctypes: no torch or Python symbol is in the library, so it loads beside any torch."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import torch

_DTYPES = {"f32*": "float32", "f16*": "float16", "bf16*": "bfloat16", "f64*": "float64", "i64*": "int64", "i32*": "int32", "i8*": "int8",
           "u8*": "uint8", "bool*": "bool", "void*": None}
_SCALARS: dict[str, Any] = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}
_RANGES = {"i32": (-(1 << 31), (1 << 31) - 1), "i64": (-(1 << 63), (1 << 63) - 1)}


def check_processor(needs: tuple[str, ...]) -> None:
    """Raise ImportError where this processor lacks what the library was compiled for."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    has = {word for line in text.splitlines() if line.partition(":")[0].strip() in ("flags", "Features") for word in line.split()}
    missing = [name for name in needs if name not in has]
    if missing:
        raise ImportError(f"this kernel was compiled for a processor with {', '.join(missing)}, which this one lacks. "
                          "Run the export again on a machine of this kind.")


def load(library: str) -> ctypes.CDLL:
    """The shared library that lies beside this file."""
    try:
        return ctypes.CDLL(str(Path(__file__).with_name(library)))
    except OSError as error:
        raise ImportError(f"this kernel's library cannot be loaded: {error}. See its card for the glibc and CUDA that it needs.") from error


class Launcher:
    """One exported function: its C types, and what to say where a call is wrong."""

    def __init__(self, library: ctypes.CDLL, name: str, arguments: tuple[tuple[str, str], ...], cuda: bool) -> None:
        self.name, self.arguments, self.cuda, self.library = name, arguments, cuda, library
        self.function = getattr(library, name)
        self.function.restype = ctypes.c_int
        types = [ctypes.c_void_p if kind.endswith("*") else _SCALARS[kind] for kind, _ in arguments]
        self.function.argtypes = [*types, ctypes.c_void_p] if cuda else types

    def fail(self, status: int) -> None:
        """Raise for a launcher that did not return 0."""
        said = ""
        if self.cuda:
            ask = self.library.autokernel_error_name
            ask.restype, ask.argtypes = ctypes.c_char_p, [ctypes.c_int]
            said = f" ({(ask(status) or b'unknown').decode('ascii', 'replace')})"
        raise RuntimeError(f"{self.name} returned {status}{said}; a launcher must return 0.")

    def refuse(self, position: int, value: Any) -> None:
        """Raise for a value that cannot be passed for a pointer argument."""
        kind, name = self.arguments[position]
        where = f"{self.name}: argument '{name}'"
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{where} is a {type(value).__name__}; pass a tensor.")
        wanted = _DTYPES[kind]
        if wanted and value.dtype is not getattr(torch, wanted):
            raise TypeError(f"{where} is {value.dtype}; pass a torch.{wanted} tensor.")
        place = f"the current CUDA device, cuda:{torch.cuda.current_device()}" if self.cuda else "the CPU"
        raise ValueError(f"{where} is on {value.device} with strides {value.stride()}; pass a contiguous tensor on {place}.")

    def number(self, position: int, value: Any) -> int | float:
        """`value` as ctypes may pass it; ctypes itself would cut an int that does not fit."""
        kind, name = self.arguments[position]
        where = f"{self.name}: argument '{name}'"
        if hasattr(value, "data_ptr"):
            raise TypeError(f"{where} is a tensor; pass a number.")
        if kind in _RANGES:
            if not hasattr(value, "__index__"):
                raise TypeError(f"{where} is a {type(value).__name__}; pass an int.")
            low, high = _RANGES[kind]
            if not low <= int(value) <= high:
                raise ValueError(f"{where} is {value}, which {kind} cannot hold.")
            return int(value)
        if not hasattr(value, "__float__"):
            raise TypeError(f"{where} is a {type(value).__name__}; pass a number.")
        return float(value) if not isinstance(value, int) or abs(value) < 1 << 1023 else math.copysign(math.inf, value)


def scope(launcher: Launcher) -> dict[str, Any]:
    """The names that a generated function's text uses."""
    names: dict[str, Any] = {"_launch": launcher.function, "_fail": launcher.fail, "_refuse": launcher.refuse, "_number": launcher.number,
                             "_Tensor": torch.Tensor, **{f"_{name}": getattr(torch, name) for name in _DTYPES.values() if name}}
    if launcher.cuda:
        names["_current_device"] = torch.cuda.current_device
        names["_stream"] = getattr(torch._C, "_cuda_getCurrentRawStream", None) or _stream
    return names


def _stream(device: int) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)
