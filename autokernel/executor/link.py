"""The judge's end of one worker: lends it memory, asks it to call, reads its outputs from where they lie, holds the clock."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import pickle
import socket
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autokernel.executor import cuda_driver, wire
from autokernel.executor.draws import map_tensors, tensors
from autokernel.executor.faults import CONTRACT, DEADLINE, DIED, PROTOCOL, RAISED, UNREADABLE

ALIGNMENT = 512
GRAIN = 2 << 20  # a CUDA handle opens a whole allocation; below this size the driver would pack ours with others


class LinkFailed(Exception):
    """A request to a worker did not end well. `kind`: died, deadline, protocol, raised, contract, unreadable."""

    def __init__(self, kind: str, message: str, *, out_of_memory: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.out_of_memory = out_of_memory


@dataclass
class Window:
    """What one window gave: its time, the worker's own (advisory) time, and the judge's copies of the outputs, a list a call."""

    ms: float
    event_ms: float
    outputs: list[list[Tensor]]
    reopened: bool = False  # a mapping had to be opened inside the window


@dataclass
class _Lent:
    """Memory lent to one worker, as bytes here."""

    size: int
    bytes: Tensor
    pointer: int = 0  # CUDA
    keep: list[Any] = field(default_factory=list)


class WorkerLink:
    """One attached worker."""

    def __init__(self, sock: socket.socket, pid: int, keeper: int, device: torch.device) -> None:
        self.sock, self.pid, self.keeper, self.device = sock, pid, keeper, device
        self.sequence = 15  # the broker used smaller ones
        self.lent: _Lent | None = None
        self.opened: dict[bytes, tuple[int, int, Tensor]] = {}
        self.peak_bytes = 0

    def request(self, kind: int, *, calls: int = 0, seed: int = 0, body: Any = None, timeout_s: float, fd: int | None = None) -> wire.Reply:
        """Send one request and wait for its reply. Raises LinkFailed unless the status is OK."""
        self.sequence += 1
        try:
            self.sock.settimeout(timeout_s)
            wire.send_request(self.sock, wire.Request(kind, calls, self.sequence, seed, b"" if body is None else pickle.dumps(body)))
            if fd is not None:
                socket.send_fds(self.sock, [b"F"], [fd])
            reply = wire.receive_reply(self.sock, self.sequence)
        except (wire.WireClosed, ConnectionError) as error:
            raise LinkFailed(DIED, "its process ended before it answered; it must not exit or crash") from error
        except wire.WireBroken as error:
            raise LinkFailed(PROTOCOL, str(error)) from error
        except TimeoutError as error:
            raise LinkFailed(DEADLINE, f"a call must answer within {timeout_s:.0f} s") from error
        self.peak_bytes = max(self.peak_bytes, reply.peak_bytes)
        if reply.status == wire.RAISED:
            said = wire.CODE_TEXT[reply.code] or "it raised an exception"
            raise LinkFailed(RAISED, said, out_of_memory=reply.code == wire.OUT_OF_MEMORY)
        if reply.status == wire.BROKE_CONTRACT:
            raise LinkFailed(CONTRACT, wire.CODE_TEXT[reply.code])
        return reply

    def construct(self, seed: int, arguments: list[Any], timeout_s: float, dtype: torch.dtype | None = None) -> None:
        """Have the worker build its model, cast to `dtype` if one is given."""
        body = {"arguments": map_tensors(arguments, lambda t: t.cpu()), "dtype": dtype}
        self.request(wire.CONSTRUCT, seed=seed, body=body, timeout_s=timeout_s)

    def window(self, sets: list[tuple[Any, ...]], expected: list[Tensor], signature: bytes, *, seed: int, timeout_s: float,
               clone_aliases: bool = False, null: bool = False) -> Window:
        """One window: lend the sets' inputs, have forward called once for each, copy the outputs here.

        `expected` and `signature` describe one call's outputs; another structure, shape, dtype or device is a broken contract.
        The clock runs from before the inputs are readable until the copies are complete.
        """
        layout, plan_calls = self._lay_out(sets)
        poison = [leaf.numel() * leaf.element_size() for leaf in expected for _ in sets]
        plan = {"calls": plan_calls, "poison": poison, "keep_outputs": null, "clone_aliases": clone_aliases}
        self.request(wire.PREPARE, body=plan, timeout_s=timeout_s)
        copies = [[torch.empty_like(leaf) for leaf in expected] for _ in sets]
        lent = self._lent_bytes()
        opened = len(self.opened)
        self._synchronise()
        start = time.perf_counter()
        for offset, flat in layout:
            lent[offset:offset + flat.numel() * flat.element_size()].view(flat.dtype).copy_(flat)
        self._synchronise()
        reply = self.request(wire.GO_NULL if null else wire.GO, calls=len(sets), seed=seed, timeout_s=timeout_s)
        self._check_structure(reply, expected, signature, len(sets))
        frames = iter(reply.tensors)
        for call in copies:
            for target in call:
                self._copy(next(frames), target)
        self._synchronise()
        ms = (time.perf_counter() - start) * 1e3
        return Window(ms, reply.event_ms, copies, reopened=len(self.opened) > opened)

    def unchanged(self, sets: list[tuple[Any, ...]]) -> int | None:
        """Position of the first input (counting tensors of all sets) that no longer holds what was lent, or None."""
        layout, _ = self._lay_out(sets)
        lent = self._lent_bytes()
        for position, (offset, flat) in enumerate(layout):
            held = lent[offset:offset + flat.numel() * flat.element_size()]
            word = torch.int64 if held.numel() % 8 == 0 and flat.data_ptr() % 8 == 0 else torch.uint8
            if not torch.equal(held.view(word), flat.view(torch.uint8).view(word)):
                return position
        return None

    def _lay_out(self, sets: list[tuple[Any, ...]]) -> tuple[list[tuple[int, Tensor]], list[Any]]:
        layout: list[tuple[int, Tensor]] = []
        position = 0

        def place(tensor: Tensor) -> wire.TensorSpec:
            nonlocal position
            flat = _flat(tensor)
            layout.append((position, flat))
            dtype = str(tensor.dtype).removeprefix("torch.")
            spec = wire.TensorSpec(position, dtype, tuple(tensor.shape), tuple(tensor.stride()), flat.numel())
            position += -(-flat.numel() * flat.element_size() // ALIGNMENT) * ALIGNMENT
            return spec

        calls = [map_tensors(given, place) for given in sets]
        if self.lent is None or self.lent.size < position:
            self._lend(position)
        return layout, calls

    def _lend(self, size: int) -> None:
        self._take_back()
        size = max(-(-size // GRAIN) * GRAIN, GRAIN)
        if self.device.type == "cuda":
            pointer = cuda_driver.allocate(size)
            view = torch.as_tensor(cuda_driver.ArrayView(pointer, size), device=self.device)
            self.lent = _Lent(size, view, pointer)
            reply = self.request(wire.LEND, body={"bytes": size, "handle": cuda_driver.export(pointer)}, timeout_s=30)
            self._read_beacon(reply)
            return
        fd = os.memfd_create("autokernel-lent", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        # whoever holds the descriptor could shrink the file under our mapping and end this process
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        memory = mmap.mmap(fd, size)
        self.lent = _Lent(size, torch.frombuffer(memory, dtype=torch.uint8), keep=[memory])
        try:
            self._read_beacon(self.request(wire.LEND, body={"bytes": size}, timeout_s=30, fd=fd))
        finally:
            os.close(fd)

    def _read_beacon(self, reply: wire.Reply) -> None:
        """Whether this worker's memory can be read: it has just said where a few known values lie."""
        target = torch.zeros(wire.BEACON_SIZE, device=self.device)
        expected = torch.full_like(target, wire.BEACON_VALUE)
        self._check_structure(wire.Reply(reply.status, 0, 0, 0.0, 0, wire.signature(b"[T]"), reply.tensors), [target], b"T", 1)
        self._copy(reply.tensors[0], target)
        if not torch.equal(target, expected):
            raise LinkFailed(UNREADABLE, "its memory does not hold what it says")

    def probe(self) -> None:
        """Lend a little memory and read a little; raises LinkFailed where either does not work."""
        self._lend(1)

    def release(self) -> None:
        """Have an idle worker give its memory back, and take back what was lent; the next window lends anew."""
        if self.lent is None:
            return
        self._close_mappings()
        self.request(wire.RELEASE, timeout_s=30)
        self._take_back()

    def _close_mappings(self) -> None:
        self._synchronise()
        for pointer, _, _ in self.opened.values():
            cuda_driver.close_handle(pointer)
        self.opened = {}

    def _take_back(self) -> None:
        if self.lent is not None and self.lent.pointer:
            self._synchronise()
            cuda_driver.free(self.lent.pointer)
        self.lent = None

    def _lent_bytes(self) -> Tensor:
        if self.lent is None:
            raise LinkFailed(PROTOCOL, "memory must be lent first")
        return self.lent.bytes

    def _check_structure(self, reply: wire.Reply, expected: list[Tensor], signature: bytes, calls: int) -> None:
        whole = wire.signature(b"[" + signature * calls + b"]")
        if reply.signature != whole:
            given = reply.signature.decode(errors="replace")
            raise LinkFailed(CONTRACT, f"{calls} calls' outputs are nested as {given} and must be as {whole.decode()} (T: tensor)")
        if len(reply.tensors) != calls * len(expected):
            raise LinkFailed(CONTRACT, f"{len(reply.tensors)} output tensors, and there must be {calls * len(expected)}")
        for number, frame in enumerate(reply.tensors):
            which = number % len(expected)
            leaf = expected[which]
            dtype = str(leaf.dtype).removeprefix("torch.")
            if frame.shape != tuple(leaf.shape):
                raise LinkFailed(CONTRACT, f"output {which} has shape {frame.shape} and must have the reference's, {tuple(leaf.shape)}")
            if frame.dtype != dtype:
                raise LinkFailed(CONTRACT, f"output {which} is {frame.dtype} and must be {dtype}, as the reference's")
            if frame.on_device != (self.device.type == "cuda"):
                raise LinkFailed(CONTRACT, f"output {which} must be on {self.device}")

    def _copy(self, frame: wire.TensorFrame, target: Tensor) -> None:
        if target.numel() == 0:
            return
        elements = 1 + sum((size - 1) * stride for size, stride in zip(frame.shape, frame.strides, strict=True))
        size = elements * target.element_size()
        if self.device.type == "cuda":
            base = self._mapping(frame.handle)
            if frame.offset + size > base.numel() or frame.offset % target.element_size():
                raise LinkFailed(UNREADABLE, "an output must lie inside the allocation that its handle opens")
            target.copy_(base[frame.offset:frame.offset + size].view(target.dtype).as_strided(frame.shape, frame.strides))
        elif frame.strides == tuple(target.stride()):
            _read_process(self.pid, frame.address, target.data_ptr(), size)
        else:
            if size > max(64 * target.numel() * target.element_size(), GRAIN):
                raise LinkFailed(UNREADABLE, "an output must not span far more memory than its elements")
            flat = torch.empty(elements, dtype=target.dtype)
            _read_process(self.pid, frame.address, flat.data_ptr(), size)
            target.copy_(flat.as_strided(frame.shape, frame.strides))

    def _mapping(self, handle: bytes) -> Tensor:
        if handle not in self.opened:
            try:
                pointer = cuda_driver.open_handle(handle)
                base, size = cuda_driver.extent(pointer)
            except cuda_driver.DriverError as error:
                raise LinkFailed(UNREADABLE, f"an output's memory cannot be opened ({error})") from error
            view = torch.as_tensor(cuda_driver.ArrayView(base, size), device=self.device)
            self.opened[handle] = (pointer, size, view)
        return self.opened[handle][2]

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def close(self) -> None:
        """Wait for copies, close mappings, free the lent memory, hang up. Before the worker is killed."""
        self._close_mappings()
        self._take_back()
        self.sock.close()


def _flat(tensor: Tensor) -> Tensor:
    """The tensor's extent in memory as a 1-D tensor: covers any strides, expanded ones included."""
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    return tensor.as_strided((elements,), (1,), tensor.storage_offset())


class _Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def _read_process(pid: int, address: int, target: int, size: int) -> None:
    """Copy `size` bytes from another process's memory to ours. A short read raises LinkFailed(UNREADABLE)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    done = 0
    while done < size:
        step = min(size - done, 1 << 30)
        local, remote = _Span(target + done, step), _Span(address + done, step)
        got = libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        if got <= 0:
            raise LinkFailed(UNREADABLE, f"an output cannot be read where it should be ({os.strerror(ctypes.get_errno())})")
        done += got


def input_bytes(given: tuple[Any, ...]) -> int:
    """Bytes of all tensors of one input set."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(given))
