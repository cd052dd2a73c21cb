"""Traces a problem's forward into a list of aten operations with shapes, without allocating its tensors.

Run as a process of its own, `python -m autokernel.proposers.trace`: reads the problem's source on stdin, prints one JSON object on
stdout. The broker process never imports torch; this process does, and it executes the problem's (trusted) code. All tensors are
fake: a problem with 17 GB of inputs traces on a small machine. Operations are recorded below autograd, where composite operations
are already taken apart, on fake CPU tensors, so that a problem looks the same on every machine.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

FORMAT = "trace/1"
_FIRST = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
    def forward(self, x):
        return torch.softmax(torch.nn.functional.gelu(self.layer(x)), dim=1)
def get_inputs():
    return [torch.rand(8, 8)]
def get_init_inputs():
    return []
"""


class Untraceable(Exception):
    """The problem holds something that the recorder has no words for; the message says what."""


class Recorder(TorchDispatchMode):
    """Records every aten call on fake tensors as {op, args, kwargs, outs}, with tensors named by node number.

    A node is one value with shape, stride, offset (elements) and the node that owns its storage, and its value where that is a constant
    number that no call gave. An in-place call gives its target a
    new node when the target owns its whole storage; in-place calls through views raise Untraceable.
    """

    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake = fake
        self.nodes: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        self._ids: dict[int, int] = {}  # id(tensor) -> node; tensors are kept alive below, so ids stay unique
        self._owners: dict[int, int] = {}  # id(storage) -> node that owns it
        self._alive: list[Any] = []

    def node_of(self, tensor: torch.Tensor) -> int:
        """The node number of a tensor, made on first sight (a constant that no recorded call produced)."""
        if id(tensor) not in self._ids:
            self._add(tensor)
        return self._ids[id(tensor)]

    def _add(self, tensor: torch.Tensor) -> int:
        number = len(self.nodes)
        storage = tensor.untyped_storage()
        self._alive += [tensor, storage]
        owner = self._owners.setdefault(storage._cdata, number)
        self.nodes.append({"shape": list(tensor.shape), "stride": list(tensor.stride()), "offset": int(tensor.storage_offset()),
                           "dtype": str(tensor.dtype).removeprefix("torch."), "base": owner})
        value = _value_of(tensor)
        if value is not None:
            self.nodes[-1]["value"] = self.encode(value)
        self._ids[id(tensor)] = number
        return number

    def encode(self, value: Any) -> Any:
        """A JSON value for one argument: {"node": n} for tensors, tagged objects for what JSON lacks."""
        if isinstance(value, torch.Tensor):
            return {"node": self.node_of(value)}
        if isinstance(value, (list, tuple)):
            return [self.encode(v) for v in value]
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if value == value and abs(value) != float("inf") else {"float": repr(value)}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return {"const": str(value)}
        raise Untraceable(f"an argument of type {type(value).__name__} is not supported")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one aten call on fake tensors and write it down."""
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:  # asks where a tensor lies; no arithmetic
            return func(*args, **kwargs)
        encoded = [self.encode(a) for a in args], {k: self.encode(v) for k, v in kwargs.items()}
        with self.fake:
            result = func(*args, **kwargs)
        results = [r for r in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(r, torch.Tensor)]
        outs = []
        for tensor in results:
            if id(tensor) in self._ids:  # an in-place call hands back its target
                known = self.nodes[self._ids[id(tensor)]]
                if func._schema.is_mutable and known["base"] != self._ids[id(tensor)]:
                    raise Untraceable(f"{func} writes through a view, which is not supported")
                if func._schema.is_mutable:
                    self._owners.pop(tensor.untyped_storage()._cdata, None)
            outs.append(self._add(tensor))
        written = func._schema.is_mutable and not results
        self.ops.append({"op": str(func), "args": encoded[0], "kwargs": encoded[1], "outs": outs, "mutates": bool(written)})
        return result


def _value_of(tensor: torch.Tensor) -> Any:
    """The number in a tensor of no dimensions that forward makes out of a constant; None for other tensors."""
    real = getattr(tensor, "constant", None) if isinstance(tensor, FakeTensor) else tensor if type(tensor) is torch.Tensor else None
    if real is None or real.dim() or real.device.type != "cpu" or real.is_complex():
        return None
    with _disable_current_modes():
        return real.item()


def trace(source: str) -> dict[str, Any]:
    """The traced problem as a dict of JSON values: nodes, ops, inputs, parameters, outputs; or {"error": why}.

    `inputs` follow forward's order; a tensor has its node and `structure` (operations that get_inputs applied last: "triu", "tril"),
    anything else its value. `parameters` are parameters and buffers by their dotted names.
    """
    try:
        first = _trace(source, _same)
        if not any(isinstance(i.get("value"), float) for i in first["inputs"]):
            return first
        return _with_scalars(first, _trace(source, _moved))
    except Exception as error:  # noqa: BLE001 - the problem's code may raise anything; the reason is the answer
        return {"format": FORMAT, "error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}


def _same(value: Any) -> Any:
    return value


def _moved(value: Any) -> Any:
    """A float input as another float, so that the constants which follow it can be told from those that do not."""
    return value * 1.0009765625 + 0.0001220703125 if isinstance(value, float) else value


def _with_scalars(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The first trace with every constant that follows a float input marked {"scalar": input number}.

    `second` is the same trace with all float inputs moved. Raises Untraceable where anything else than such a constant moved.
    """
    numbers = {(i["value"], j["value"]): n for n, (i, j) in enumerate(zip(first["inputs"], second["inputs"], strict=True))
               if isinstance(i.get("value"), float)}

    def merge(a: Any, b: Any) -> Any:
        if isinstance(a, float) and isinstance(b, float) and a != b:
            if (a, b) not in numbers:
                raise Untraceable("a float input must meet a tensor before forward computes with it")
            return {"scalar": numbers[a, b]}
        if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
            return {k: merge(a[k], b[k]) for k in a}
        if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            return [merge(x, y) for x, y in zip(a, b, strict=True)]
        if a != b:
            raise Untraceable("the operations must not depend on a float input's value")
        return a

    return {k: v if k == "inputs" else merge(v, second[k]) for k, v in first.items()}


def _trace(source: str, adjust: Callable[[Any], Any]) -> dict[str, Any]:
    module = types.ModuleType("traced_problem")
    sys.modules[module.__name__] = module  # dataclasses and pickle look the module up by name
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    drawing = Recorder(fake)
    with torch.no_grad(), fake:
        exec(compile(source, "problem.py", "exec"), module.__dict__)
        model = module.__dict__["Model"](*module.__dict__["get_init_inputs"]()) if "get_init_inputs" in module.__dict__ \
            else module.__dict__["Model"]()
        with drawing:
            inputs = [adjust(value) for value in module.__dict__["get_inputs"]()]
    recorder = Recorder(fake)
    listed = [_input(value, recorder, drawing) for value in inputs]
    parameters = [
        {"name": name, "node": recorder.node_of(tensor), "buffer": buffer}
        for buffer, group in ((False, model.named_parameters(remove_duplicate=False)), (True, model.named_buffers(remove_duplicate=False)))
        for name, tensor in group
    ]
    with torch.no_grad(), fake, recorder:
        result = model(*inputs)
    flat = list(result) if isinstance(result, (tuple, list)) else [result]
    if not all(isinstance(r, torch.Tensor) for r in flat):
        raise Untraceable("the output must be a tensor or a flat tuple of tensors")
    return {
        "format": FORMAT, "nodes": recorder.nodes, "ops": recorder.ops, "inputs": listed, "parameters": parameters,
        "outputs": [recorder.node_of(r) for r in flat], "single": isinstance(result, torch.Tensor),
    }


def _input(value: Any, recorder: Recorder, drawing: Recorder) -> dict[str, Any]:
    if not isinstance(value, torch.Tensor):
        return {"value": recorder.encode(value)}
    return {"node": recorder.node_of(value), "structure": list(_structure(value, drawing))}


def _structure(value: torch.Tensor, drawing: Recorder) -> Iterator[str]:
    """"triu" or "tril" where that was the last operation that made this input, with the main diagonal kept."""
    node = drawing.node_of(value)
    for op in drawing.ops:
        if node in op["outs"] and op["op"] in ("aten.triu.default", "aten.tril.default") and op["args"][1:] in ([], [0]):
            yield op["op"].split(".")[1]


def main() -> None:
    """Answer requests on stdin (a line with "trace" or "seed" and a length in bytes, then the source) by a line with a length and JSON.

    Each problem is traced in a fork of this process, which has imported torch and done nothing with it: what one problem's code changes
    or breaks, the next does not see.
    """
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    trace(_FIRST)  # torch imports parts of itself at the first trace: here they are shared by every fork
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while line := requests.readline():
        verb, length = line.split()
        answer = _forked(verb.decode(), requests.read(int(length)).decode("utf-8", "surrogatepass"))
        replies.write(f"{len(answer)}\n".encode() + answer)
        replies.flush()


def _answer(verb: str, source: str) -> dict[str, Any]:
    if verb == "seed":
        from autokernel.proposers.inductor import generate

        return generate(source)
    return trace(source)


def _forked(verb: str, source: str) -> bytes:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            with contextlib.redirect_stdout(io.StringIO()), os.fdopen(write_end, "wb") as out:
                out.write(json.dumps(_answer(verb, source)).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(pid, 0)
    return text or json.dumps({"error": f"the tracer ended with code {os.waitstatus_to_exitcode(status)}"}).encode()


if __name__ == "__main__":
    main()
