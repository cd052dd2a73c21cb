"""The judge's end of one worker: lends it memory, asks it to call, reads its outputs from where they lie, holds the clock."""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autokernel.executor import cuda_driver, families, wire
from autokernel.executor.draws import map_tensors, tensors
from autokernel.executor.faults import CONTRACT, DEADLINE, DIED, PROTOCOL, RAISED, RESTLESS, UNREADABLE, LinkFailed
from autokernel.executor.placement import Placement
from autokernel.executor.snapshot import Snapshot

ALIGNMENT = 512
GRAIN = 2 << 20  # a CUDA handle opens a whole allocation; below this size the driver would pack ours with others


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
        self.sequence = 0
        self.lent: _Lent | None = None
        self.snapshot = Snapshot(pid, device)
        self.placement = Placement(pid) if device.type == "cpu" else None
        self.peak_bytes = 0
        self.waited_s = 0.0  # for all replies so far
        self._still: families.Still | None = None
        self._released = 0.0  # when it last stood still, before it was let run

    def freeze(self) -> None:
        """Stop the worker's whole family. Raises LinkFailed where it does not stand still."""
        try:
            self._still = families.freeze(self.keeper)
        except families.Restless as error:
            raise LinkFailed(RESTLESS, str(error)) from error

    def thaw(self) -> None:
        """Let it run again, where it was stopped. Raises LinkFailed where somebody of it ran meanwhile."""
        still, self._still = self._still, None
        if still is None:
            return
        try:
            self._released = families.thaw(self.keeper, still)
        except families.Restless as error:
            raise LinkFailed(RESTLESS, str(error)) from error

    def request(self, kind: int, *, calls: int = 0, seed: int = 0, body: Any = None, timeout_s: float, fd: int | None = None,
                placed: Placement | None = None) -> wire.Reply:
        """Send one request and wait for its reply. Raises LinkFailed unless the status is OK."""
        self.sequence = secrets.randbits(63)  # not to be foreseen: a reply must wait for its request
        start = time.monotonic()
        try:
            self.sock.settimeout(timeout_s)
            wire.send_request(self.sock, wire.Request(kind, calls, self.sequence, seed, b"" if body is None else pickle.dumps(body)))
            if fd is not None:
                socket.send_fds(self.sock, [b"F"], [fd])
            if placed is not None:
                placed.release_first()
            reply = wire.receive_reply(self.sock, self.sequence)
        except (wire.WireClosed, ConnectionError) as error:
            raise LinkFailed(DIED, "its process ended before it answered; it must not exit or crash") from error
        except wire.WireBroken as error:
            raise LinkFailed(PROTOCOL, str(error)) from error
        except TimeoutError as error:
            raise LinkFailed(DEADLINE, f"a call must answer within {timeout_s:.0f} s") from error
        finally:
            self.waited_s += time.monotonic() - start
        self.peak_bytes = max(self.peak_bytes, reply.peak_bytes)
        if reply.status == wire.RAISED:
            said = wire.CODE_TEXT[reply.code] or "it raised an exception"
            raise LinkFailed(RAISED, said, out_of_memory=reply.code == wire.OUT_OF_MEMORY)
        if reply.status == wire.BROKE_CONTRACT:
            raise LinkFailed(CONTRACT, wire.CODE_TEXT[reply.code])
        return reply

    def construct(self, seed: int, arguments: list[Any], timeout_s: float, *, dtype: torch.dtype | None = None, moved: bool = False,
                  state: dict[str, Tensor] | None = None) -> None:
        """Have the worker build its model, cast to `dtype` if one is given: with neutral parameters `moved`, or those of `state` loaded
        by name afterwards."""
        terms = {"arguments": map_tensors(arguments, lambda t: t.cpu()), "moved": moved, "dtype": dtype,
                 "state": None if state is None else {name: tensor.detach().cpu() for name, tensor in state.items()}}
        self.request(wire.CONSTRUCT, seed=seed, body=terms, timeout_s=timeout_s)

    def window(self, sets: list[tuple[Any, ...]], expected: list[Tensor], signature: bytes, *, seed: int, timeout_s: float,
               clone_aliases: bool = False, order: int = wire.GO) -> Window:
        """One window: lend the sets' inputs, have forward called once for each, copy the outputs here.

        `expected` and `signature` describe one call's outputs; another structure, shape, dtype or device is a broken contract.
        On a GPU the clock runs from before the inputs are readable until the copies are complete: its work cannot be stopped, and takes
        its turns with the judge's. On the CPU the worker's family is stopped while inputs come in and outputs are read, with proof that
        it stood still, and the clock runs from before it is let run until it stands still again: whoever keeps this process off the
        processors between the two, or delays the stop, is timed meanwhile.
        """
        layout, plan_calls = self._lay_out(sets)
        poison = [leaf.numel() * leaf.element_size() for leaf in expected for _ in sets]
        plan = {"calls": plan_calls, "poison": poison, "keep_outputs": order != wire.GO, "clone_aliases": clone_aliases}
        self.request(wire.PREPARE, body=plan, timeout_s=timeout_s)
        copies = [[torch.empty_like(leaf) for leaf in expected] for _ in sets]
        for target in (target for call in copies for target in call if self.device.type == "cpu"):
            target.zero_()  # the first touch of a page can take longer than copying it, and not always the same time
        opened = self.snapshot.openings
        start = self._lend_inputs(layout)
        reply = self.request(order, calls=len(sets), seed=seed, timeout_s=timeout_s, placed=self.placement)
        wanted = [target for call in copies for target in call]
        if self.placement is None:
            self._read(reply, expected, signature, wanted)
            ms = (time.perf_counter() - start) * 1e3
        else:
            with self._stopped():
                ms = (time.perf_counter() - start) * 1e3
                self._read(reply, expected, signature, wanted)
        return Window(ms, reply.event_ms, copies, reopened=self.snapshot.openings > opened)

    def _read(self, reply: wire.Reply, expected: list[Tensor], signature: bytes, targets: list[Tensor]) -> None:
        """Check what the worker says of its outputs, and copy them here."""
        self._check_structure(reply, expected, signature, len(targets) // len(expected))
        self.snapshot.take(list(zip(reply.tensors, targets, strict=True)))

    def _lend_inputs(self, layout: list[tuple[int, Tensor]]) -> float:
        """Copy the inputs into the lent memory, on the CPU with the worker's family stopped; the time.perf_counter() from which they can
        be read: on a GPU the first of them, on the CPU all."""
        lent = self._lent_bytes()
        self._synchronise()
        with self._stopped():
            if self.placement is not None:
                self.placement.spread()
            start = time.perf_counter()
            for offset, flat in layout:
                lent[offset:offset + flat.numel() * flat.element_size()].view(flat.dtype).copy_(flat)
            self._synchronise()
        return start if self.placement is None else self._released

    @contextmanager
    def _stopped(self) -> Iterator[None]:
        """On the CPU: with the worker's family stopped, and proof that it was. Everybody runs again afterwards."""
        if self.device.type != "cpu":
            yield
            return
        try:
            self.freeze()
            yield
        finally:
            self.thaw()

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
        self.snapshot.take([(reply.tensors[0], target)])
        if not torch.equal(target, expected):
            raise LinkFailed(UNREADABLE, "its memory does not hold what it says")

    def probe(self) -> None:
        """Lend a little memory and read a little; raises LinkFailed where either does not work."""
        self._lend(1)

    def release(self) -> None:
        """Have an idle worker give its memory back, and take back what was lent; the next window lends anew."""
        if self.lent is None:
            return
        self.snapshot.close()
        self.request(wire.RELEASE, timeout_s=30)
        self._take_back()

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

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def close(self) -> None:
        """Wait for copies, close mappings, free the lent memory, hang up. Before the worker is killed."""
        self.snapshot.close()
        self._take_back()
        self.sock.close()


def _flat(tensor: Tensor) -> Tensor:
    """The tensor's extent in memory as a 1-D tensor: covers any strides, expanded ones included."""
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    return tensor.as_strided((elements,), (1,), tensor.storage_offset())


def input_bytes(given: tuple[Any, ...]) -> int:
    """Bytes of all tensors of one input set."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(given))
