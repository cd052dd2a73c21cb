"""The few calls of NVIDIA's driver that lending memory between processes needs, through ctypes; standard library only.

torch's own sharing of CUDA tensors pickles and trusts the other side; raw 64-byte handles do neither. The calls act on the context
that is current in the calling thread: torch must have initialised the device there.
"""

from __future__ import annotations

import ctypes

HANDLE_BYTES = 64
LAZY_ENABLE_PEER_ACCESS = 1


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


class DriverError(Exception):
    """A driver call failed; the message carries its name and CUDA's error name."""


def _library() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        _loaded = ctypes.CDLL("libcuda.so.1")
        _loaded.cuIpcOpenMemHandle_v2.argtypes = [ctypes.POINTER(ctypes.c_uint64), _Handle, ctypes.c_uint]
    return _loaded


_loaded: ctypes.CDLL | None = None


def _call(name: str, *arguments: object) -> None:
    library = _library()
    code = getattr(library, name)(*arguments)
    if code != 0:
        text = ctypes.c_char_p()
        library.cuGetErrorName(code, ctypes.byref(text))
        raise DriverError(f"{name}: {(text.value or b'?').decode()}")


def allocate(size: int) -> int:
    """Address of a new allocation of `size` bytes of device memory, of its own."""
    pointer = ctypes.c_uint64()
    _call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(size, 1)))
    return pointer.value


def free(pointer: int) -> None:
    """Give an allocation of `allocate` back."""
    _call("cuMemFree_v2", ctypes.c_uint64(pointer))


def export(pointer: int) -> bytes:
    """The 64-byte handle of the allocation that holds `pointer`."""
    handle = _Handle()
    _call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(pointer))
    return ctypes.string_at(ctypes.addressof(handle), HANDLE_BYTES)


def open_handle(handle: bytes) -> int:
    """Address here of another process's allocation."""
    raw = _Handle()
    ctypes.memmove(ctypes.addressof(raw), handle, HANDLE_BYTES)
    pointer = ctypes.c_uint64()
    _call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), raw, LAZY_ENABLE_PEER_ACCESS)
    return pointer.value


def close_handle(pointer: int) -> None:
    """Unmap what `open_handle` mapped."""
    _call("cuIpcCloseMemHandle", ctypes.c_uint64(pointer))


def extent(pointer: int) -> tuple[int, int]:
    """(base address, bytes) of the allocation or mapping that holds `pointer`, as the driver knows it."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    _call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(pointer))
    return base.value, size.value


class ArrayView:
    """Device memory as bytes, for `torch.as_tensor` through `__cuda_array_interface__`."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3, "strides": None}
