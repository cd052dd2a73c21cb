"""Reads a worker's outputs from where they lie: by its CUDA handles, or from its process's memory on the CPU.

Nothing is asked of the worker: what it says of an output is checked against what the driver or the kernel says.
"""

from __future__ import annotations

import ctypes
import os
import random
import secrets

import torch
from torch import Tensor

from autokernel.executor import cuda_driver, wire
from autokernel.executor.faults import UNREADABLE, LinkFailed

PIECES = 8  # a window's outputs are read in about this many pieces, none below PIECE_BYTES
PIECE_BYTES = 1 << 20
WIDE = 64  # an output that spans this many times its own bytes is read run by run
VECTORS = 1024  # the kernel's limit of one vectored read


class Snapshot:
    """The judge's eyes in one worker. `openings` counts the CUDA mappings made so far."""

    def __init__(self, pid: int, device: torch.device) -> None:
        self.pid, self.device = pid, device
        self.openings = 0
        self._opened: dict[bytes, tuple[int, Tensor]] = {}  # handle -> pointer, its whole allocation as bytes
        self._random = random.Random(secrets.randbits(64))

    def take(self, wanted: list[tuple[wire.TensorFrame, Tensor]]) -> None:
        """Copy outputs (frame, contiguous target of its shape and dtype) here; returns when all have arrived.

        In pieces, in an order that nobody can foresee: whoever replies before all is computed does not know what will be read first.
        Raises LinkFailed(UNREADABLE) where a frame does not hold.
        """
        pieces = [piece for frame, target in wanted if target.numel()
                  for piece in _pieces(frame, target, max(PIECES // len(wanted), 1))]
        self._random.shuffle(pieces)
        for frame, target in pieces:
            if self.device.type == "cuda":
                self._copy_mapped(frame, target)
            else:
                self._copy_process(frame, target)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def close(self) -> None:
        """Wait for copies and close the mappings; before the worker frees what they show, or is killed."""
        if self._opened:
            torch.cuda.synchronize(self.device)
        for pointer, _ in self._opened.values():
            cuda_driver.close_handle(pointer)
        self._opened = {}

    def _copy_mapped(self, frame: wire.TensorFrame, target: Tensor) -> None:
        base = self._mapping(frame.handle)
        size = _extent(frame) * target.element_size()
        if frame.offset + size > base.numel() or frame.offset % target.element_size():
            raise LinkFailed(UNREADABLE, "an output must lie inside the allocation that its handle opens")
        target.copy_(base[frame.offset:frame.offset + size].view(target.dtype).as_strided(frame.shape, frame.strides))

    def _mapping(self, handle: bytes) -> Tensor:
        if handle not in self._opened:
            try:
                pointer = cuda_driver.open_handle(handle)
                base, size = cuda_driver.extent(pointer)
            except cuda_driver.DriverError as error:
                raise LinkFailed(UNREADABLE, f"an output's memory cannot be opened ({error})") from error
            self._opened[handle] = (pointer, torch.as_tensor(cuda_driver.ArrayView(base, size), device=self.device))
            self.openings += 1
        return self._opened[handle][1]

    def _copy_process(self, frame: wire.TensorFrame, target: Tensor) -> None:
        width, elements = target.element_size(), _extent(frame)
        if frame.strides == tuple(target.stride()):
            self._read([(frame.address, elements * width)], target)
        elif elements <= WIDE * target.numel():
            flat = torch.empty(elements, dtype=target.dtype)
            self._read([(frame.address, elements * width)], flat)
            target.copy_(flat.as_strided(frame.shape, frame.strides))
        else:
            inner = frame.shape[-1] if frame.strides[-1] == 1 else 1
            starts = torch.zeros((), dtype=torch.int64)
            for size, stride in zip(frame.shape, frame.strides, strict=True):
                starts = starts.unsqueeze(-1) + torch.arange(size) * stride
            runs = starts.reshape(-1)[::inner].tolist()
            self._read([(frame.address + start * width, inner * width) for start in runs], target)

    def _read(self, runs: list[tuple[int, int]], target: Tensor) -> None:
        """Copy runs of (address, bytes) of the worker's memory into `target`, one after the other. A short read is a refusal."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.process_vm_readv.restype = ctypes.c_ssize_t
        place, limit = target.data_ptr(), 1 << 30  # one call moves less than 2 GiB
        split = [(address + start, min(limit, size - start)) for address, size in runs for start in range(0, size, limit)]
        step = VECTORS if len(split) == len(runs) else 1
        for first in range(0, len(split), step):
            part = split[first:first + step]
            size = sum(length for _, length in part)
            remote = (_Span * len(part))(*(_Span(*run) for run in part))
            got = libc.process_vm_readv(self.pid, ctypes.byref(_Span(place, size)), 1, remote, len(part), 0)
            if got != size:
                raise LinkFailed(UNREADABLE, f"an output cannot be read where it should be ({os.strerror(ctypes.get_errno())})")
            place += size


class _Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def _extent(frame: wire.TensorFrame) -> int:
    """Elements from the first to behind the last."""
    return 1 + sum((size - 1) * stride for size, stride in zip(frame.shape, frame.strides, strict=True))


def _pieces(frame: wire.TensorFrame, target: Tensor, parts: int) -> list[tuple[wire.TensorFrame, Tensor]]:
    """A contiguous output cut into at most `parts`; any other as it is."""
    width, total = target.element_size(), target.numel()
    step = max(-(-total // parts), PIECE_BYTES // width)
    if frame.strides != tuple(target.stride()) or step >= total:
        return [(frame, target)]
    flat = target.view(-1)
    cut = []
    for start in range(0, total, step):
        count, shift = min(step, total - start), start * width
        cut.append((wire.TensorFrame(frame.dtype, frame.on_device, frame.plain, (count,), (1,), frame.offset + shift,
                                     frame.address + shift, frame.storage_bytes, frame.handle), flat[start:start + count]))
    return cut
