"""The untrusted process: holds one candidate, calls it on lent memory, says where its outputs lie.

Everything here may be patched by the candidate; no verdict rests on it. The judge draws inputs, reads outputs from this process's
memory itself and holds the clock.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import os
import pickle
import socket
import sys
import tempfile
import time
import traceback
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from autokernel import builders
from autokernel.executor import ahead, cuda_driver, neutral, wire

PR_SET_PTRACER, PR_SET_DUMPABLE = 0x59616D61, 4
PTRACER_ANY = ctypes.c_ulong(-1)


class ContractError(Exception):
    """The candidate's output is not what any judge could read; carries the wire's code."""

    def __init__(self, code: int) -> None:
        super().__init__(wire.CODE_TEXT[code])
        self.code = code


class Worker:
    """Answers requests until it is told to stop or the socket closes."""

    def __init__(self, sock: socket.socket, device: str) -> None:
        import torch

        from autokernel.executor import precision, seeding

        self.torch, self.precision, self.seed_generators = torch, precision, seeding.seed_generators
        self.sock = sock
        self.device = torch.device(device)
        self.on_cuda = self.device.type == "cuda"
        self.module: ModuleType | None = None
        self.orders: dict[str, Any] = {}
        self.model: Any = None
        self.dtype: Any = None
        self.lent: Any = None  # uint8 tensor over the lent memory
        self.arguments: list[tuple[Any, ...]] = []
        self.outputs: list[Any] = []
        self.clone_aliases = False
        self.beacon: Any = None
        self.mapped = 0  # address of the lent memory's mapping, on CUDA
        if self.on_cuda:
            torch.cuda.set_device(self.device)
            torch.empty(1, device=self.device)  # makes the context, so that no call pays for it

    def serve(self) -> None:
        """Say that this process is up, then answer until the end."""
        wire.send_reply(self.sock, wire.Reply(wire.OK, wire.NO_CODE, 0, 0.0, 0, b"", ()))
        null = b""
        while True:
            request = wire.receive_request(self.sock)
            if request.kind == wire.STOP:
                return
            if request.kind == wire.COMPAT:
                from autokernel.executor import compat_wire, compat_worker

                compat_wire.send(self.sock, compat_worker.answer(self.sock, pickle.loads(request.body), self.device))
                continue
            if request.kind == wire.GO_LEAST:  # the last null's answer again, with none of the work that makes an answer
                self.touch()
                self.sock.sendall(wire.repeated(null, request.sequence))
                continue
            frame = wire.send_reply(self.sock, self.answer(request))
            null = frame if request.kind == wire.GO_NULL else null

    def answer(self, request: wire.Request) -> wire.Reply:
        """The reply to one request; whatever the candidate raises goes to the text pipe and into the status."""
        event_ms, signature = 0.0, b""
        frames: tuple[wire.TensorFrame, ...] = ()
        status, code = wire.OK, wire.NO_CODE
        try:
            if request.kind == wire.LOAD:
                self.load(pickle.loads(request.body))
            elif request.kind == wire.CONSTRUCT:
                self.construct(request.seed, pickle.loads(request.body))
            elif request.kind == wire.LEND:
                frames = self.lend(pickle.loads(request.body))
            elif request.kind == wire.PREPARE:
                self.prepare(pickle.loads(request.body))
            elif request.kind == wire.WARM:
                os.environ.update(pickle.loads(request.body))
                importlib.import_module("torch._inductor.compile_fx")
            elif request.kind == wire.RELEASE:
                self.release()
            elif request.kind == wire.AHEAD:
                ahead.compile_kernels(getattr(self.module, self.orders["class_name"]), pickle.loads(request.body))
            else:
                event_ms = self.call(request)
                signature, frames = self.describe()
        except ContractError as error:
            status, code = wire.BROKE_CONTRACT, error.code
        except BaseException as error:  # the candidate may raise anything, SystemExit and KeyboardInterrupt included
            status, code = wire.RAISED, self.report(error)
            self.outputs = []
        peak = self.torch.cuda.max_memory_allocated(self.device) if self.on_cuda else 0
        return wire.Reply(status, code, request.sequence, event_ms, peak, signature, frames)

    def report(self, error: BaseException) -> int:
        """Print the error for people; the code that fits it."""
        try:
            traceback.print_exception(type(error), error, self.own_frames(error))
            short = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)  # torch's allocator for the CPU
        except BaseException as second:  # an exception whose own text raises
            print(f"{type(error).__name__} (its text raised {type(second).__name__})", file=sys.stderr)
            short = False
        sys.stderr.flush()
        if isinstance(error, SyntaxError):
            return wire.SYNTAX
        if isinstance(error, ModuleNotFoundError):
            return wire.MISSING_PACKAGE
        return wire.OUT_OF_MEMORY if short or isinstance(error, (MemoryError, self.torch.cuda.OutOfMemoryError)) else wire.NO_CODE

    def own_frames(self, error: BaseException) -> TracebackType | None:
        """The error's traceback from the first frame in the candidate's file on; the frames before are this process's."""
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != self.orders.get("path"):
            frames = frames.tb_next
        return frames

    def load(self, orders: dict[str, Any]) -> None:
        """Import the candidate's file. `orders`: path, files, builder, artifact, class_name, env, compile, threads.

        `files` are written first, by absolute path, where nothing lies yet: the candidate's own text, its library, seeds of caches.
        """
        self.orders = orders
        os.environ.update(orders["env"])
        for name, content in orders["files"].items():
            if not os.path.exists(name):
                os.makedirs(os.path.dirname(name), exist_ok=True)
                Path(name).write_bytes(content)
        if orders["threads"]:
            self.torch.set_num_threads(orders["threads"])
        artifact = Path(orders["artifact"]) if orders["artifact"] else None
        self.module = builders.get(orders["builder"]).load(Path(orders["path"]), artifact)
        if not isinstance(getattr(self.module, orders["class_name"], None), type):
            raise ContractError(wire.NO_CLASS)

    def construct(self, seed: int, terms: dict[str, Any]) -> None:
        """Build the model as the judge builds the reference: same seed, under the device, train mode, cast to a `dtype` if given.

        `terms`: the arguments; `moved`: neutral parameters are moved; `state`: parameters by name to be loaded where there are such.
        """
        torch = self.torch
        self.model, self.outputs, self.arguments = None, [], []
        arguments = [a.to(self.device) if isinstance(a, torch.Tensor) else a for a in terms["arguments"]]
        self.seed_generators(self.device, seed)
        with torch.device(self.device), neutral.moved(seed) if terms["moved"] else nullcontext():
            model = getattr(self.module, self.orders["class_name"])(*arguments)
        self.dtype = terms["dtype"]
        model = self.precision.cast_model(model, self.device, self.dtype)
        own = dict(model.named_parameters()) if terms["state"] else {}
        with torch.no_grad():
            for name, values in (terms["state"] or {}).items():
                if name in own and own[name].shape == values.shape:
                    own[name].copy_(values)
        self.model = torch.compile(model, dynamic=False) if self.orders["compile"] else model

    def lend(self, terms: dict[str, Any]) -> tuple[wire.TensorFrame, ...]:
        """Map the memory that the judge lends: a CUDA handle, or a file descriptor that follows on the socket.

        Says where a few sevens lie, by which the judge sees whether it can read this process.
        """
        self.release()
        size = terms["bytes"]
        if self.on_cuda:
            self.mapped = cuda_driver.open_handle(terms["handle"])
            self.lent = self.torch.as_tensor(cuda_driver.ArrayView(self.mapped, size), device=self.device)
        else:
            _, fds, _, _ = socket.recv_fds(self.sock, 1, 1)
            self.lent = self.torch.frombuffer(mmap.mmap(fds[0], size), dtype=self.torch.uint8)
            os.close(fds[0])
        self.beacon = self.torch.full((wire.BEACON_SIZE,), wire.BEACON_VALUE, device=self.device)
        self.synchronise()
        return (self.frame(self.beacon),)

    def release(self) -> None:
        """Give back what no window needs: outputs, views, the mapping of lent memory, the allocator's unused blocks."""
        self.arguments, self.outputs, self.lent = [], [], None
        if self.on_cuda:
            self.synchronise()
            if self.mapped:
                cuda_driver.close_handle(self.mapped)
                self.mapped = 0
            self.torch.cuda.empty_cache()

    def prepare(self, plan: dict[str, Any]) -> None:
        """Off the clock: views for the next window's calls, and blocks of the outputs' sizes filled with NaN and given back."""
        self.arguments = [tuple(self.view(item) for item in call) for call in plan["calls"]]
        self.clone_aliases = plan["clone_aliases"]
        if plan["keep_outputs"]:
            return
        self.outputs = []
        blocks = [self.torch.empty(max(size // 4, 1), dtype=self.torch.float32, device=self.device).fill_(float("nan"))
                  for size in plan["poison"]]
        del blocks
        self.synchronise()

    def view(self, item: Any) -> Any:
        """An argument with each TensorSpec in it replaced by a tensor over the lent memory."""
        if isinstance(item, wire.TensorSpec):
            dtype = getattr(self.torch, item.dtype)
            size = item.elements * self.torch.empty(0, dtype=dtype).element_size()
            return self.lent[item.offset:item.offset + size].view(dtype).as_strided(item.shape, item.strides)
        if isinstance(item, (list, tuple)):
            return type(item)(self.view(inner) for inner in item)
        if isinstance(item, dict):
            return {key: self.view(inner) for key, inner in item.items()}
        return item

    def synchronise(self) -> None:
        """Wait for the device."""
        if self.on_cuda:
            self.torch.cuda.synchronize(self.device)

    def touch(self) -> None:
        """One least launch, so that the device's switch to this process counts as in a real window."""
        self.torch.zeros(1, device=self.device)
        self.synchronise()

    def call(self, request: wire.Request) -> float:
        """Call forward once for each prepared argument list; all outputs are kept. Own clock's time in ms (advisory)."""
        if request.kind == wire.GO_NULL:
            self.touch()
            return 0.0
        torch, model, outputs = self.torch, self.model, self.outputs
        start = time.perf_counter()
        with torch.no_grad(), self.precision.default_dtype(self.dtype):
            if self.on_cuda:
                first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                first.record()
            for number in range(request.calls):
                if request.seed:
                    self.seed_generators(self.device, request.seed + number)
                outputs.append(model(*self.arguments[number]))
            if self.on_cuda:
                last.record()
        self.synchronise()
        return first.elapsed_time(last) if self.on_cuda else (time.perf_counter() - start) * 1e3

    def describe(self) -> tuple[bytes, tuple[wire.TensorFrame, ...]]:
        """The outputs' spelling and where each lies."""
        try:
            leaves, spelling = wire.flatten(self.outputs, self.torch.Tensor)
        except ValueError as error:
            print(f"an output {error}", file=sys.stderr, flush=True)
            raise ContractError(wire.TOO_DEEP) from error
        if len(leaves) > wire.MAX_TENSORS:
            raise ContractError(wire.TOO_MANY)
        frames = tuple(self.frame(leaf) for leaf in leaves)
        if self.clone_aliases:
            self.synchronise()
        return wire.signature(spelling), frames

    def frame(self, tensor: Any) -> wire.TensorFrame:
        """Descriptor of one output."""
        if type(tensor) not in (self.torch.Tensor, self.torch.nn.Parameter):
            raise ContractError(wire.NOT_A_TENSOR)
        if tensor.layout is not self.torch.strided or tensor.dim() > wire.MAX_DIMS:
            raise ContractError(wire.BAD_LAYOUT)
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        first = self.lent.data_ptr()
        if tensor.numel() and first <= tensor.data_ptr() < first + self.lent.numel():
            if not self.clone_aliases:
                raise ContractError(wire.ALIASES)
            tensor = tensor.clone()
            self.outputs.append(tensor)  # keeps the copy alive until the judge has read it
        address, offset, handle = tensor.data_ptr(), 0, bytes(cuda_driver.HANDLE_BYTES)
        if tensor.is_cuda and tensor.numel():
            try:
                handle = cuda_driver.export(address)
                offset = address - cuda_driver.extent(address)[0]
            except cuda_driver.DriverError as error:
                print(error, file=sys.stderr, flush=True)
                raise ContractError(wire.NOT_SHARED) from error
        return wire.TensorFrame(str(tensor.dtype).removeprefix("torch."), tensor.is_cuda, type(tensor) is self.torch.Tensor,
                                tuple(tensor.shape), tuple(tensor.stride()), offset, address,
                                tensor.untyped_storage().nbytes(), handle)


def main(sock: socket.socket, text_fd: int, device: str, home: Path) -> None:
    """Run as a worker in this (just forked) process, at home in its private folder; returns when the judge is done with it."""
    os.dup2(text_fd, 1)
    os.dup2(text_fd, 2)
    os.close(text_fd)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    libc.prctl(PR_SET_PTRACER, PTRACER_ANY, 0, 0, 0)  # the judge reads outputs with process_vm_readv
    os.environ.update({"HOME": str(home), "TMPDIR": str(home)})
    tempfile.tempdir = None  # whoever asked before the fork was told another
    sys.dont_write_bytecode = True
    try:
        Worker(sock, device).serve()
    except wire.WireClosed:
        return
