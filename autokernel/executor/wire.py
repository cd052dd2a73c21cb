"""Fixed binary frames between a trusted process and a worker.

Requests go to the worker: a fixed header and a body (pickled by us, so safe for the worker to read). Replies come back: a fixed
header and fixed descriptors, nothing else. Nothing that a worker sends is unpickled, evaluated or used as a path.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import time
from dataclasses import dataclass

MAGIC = 0x414B5731  # "AKW1"
REQUEST = struct.Struct("<IHHQQQ")  # magic, kind, calls, sequence, seed, body bytes
REPLY = struct.Struct("<IHHQdQI96sI")  # magic, status, code, sequence, event ms, peak bytes, signature bytes, signature, descriptors
TENSOR = struct.Struct("<BBBBIQQQ10q10q64s")  # dtype, on device, plain, dims, pad, offset, address, storage bytes, shape, strides, handle
MAX_DIMS = 10
MAX_TENSORS = 4096
MAX_SIGNATURE = 96
BEACON_SIZE, BEACON_VALUE = 8, 7.0  # float32 values that a worker shows when it is lent memory

# kinds of request
LOAD, CONSTRUCT, LEND, PREPARE, GO, GO_NULL, GO_LEAST, STOP, WARM, RELEASE, COMPAT, AHEAD = range(1, 13)
# status of a reply
OK, RAISED, BROKE_CONTRACT = range(3)
# codes beside a status that is not OK
NO_CODE, NO_CLASS, NOT_A_TENSOR, BAD_LAYOUT, TOO_MANY, TOO_DEEP, OUT_OF_MEMORY, SYNTAX, MISSING_PACKAGE, ALIASES, NOT_SHARED = range(11)
CODE_TEXT = {
    NO_CODE: "",
    NO_CLASS: "the file defines no class ModelNew",
    NOT_A_TENSOR: "an output is not a plain torch.Tensor",
    BAD_LAYOUT: "an output is not a dense strided tensor of at most 10 dimensions",
    TOO_MANY: "too many output tensors",
    TOO_DEEP: "the outputs are nested too deeply or use other containers than tuple, list and dict",
    OUT_OF_MEMORY: "out of memory",
    SYNTAX: "syntax error",
    MISSING_PACKAGE: "a package that the file imports is not installed",
    NOT_SHARED: "an output's memory cannot be shared with the judge; allocate outputs with torch's own allocator",
    ALIASES: "an output lies in an input's memory; return a tensor of its own",
}
DTYPES = (
    "float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2",
)


class WireClosed(Exception):
    """The other end is gone."""


class WireBroken(Exception):
    """The other end sent something that is no frame of this protocol."""


@dataclass(frozen=True)
class Request:
    """One order to a worker."""

    kind: int
    calls: int
    sequence: int
    seed: int
    body: bytes


@dataclass(frozen=True)
class TensorSpec:
    """Stands for one tensor in an argument tree: where in the lent memory it lies. Sizes in elements, offset in bytes."""

    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    elements: int


@dataclass(frozen=True)
class TensorFrame:
    """Where an output lies in the worker's memory: strides in elements, offset in bytes from the handle's allocation."""

    dtype: str
    on_device: bool
    plain: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    address: int
    storage_bytes: int
    handle: bytes


@dataclass(frozen=True)
class Reply:
    """A worker's answer. `signature` spells the nesting of its outputs, `event_ms` is its own clock (advisory)."""

    status: int
    code: int
    sequence: int
    event_ms: float
    peak_bytes: int
    signature: bytes
    tensors: tuple[TensorFrame, ...]


def send_request(sock: socket.socket, request: Request) -> None:
    """Send one request. Raises WireClosed if the worker is gone."""
    header = REQUEST.pack(MAGIC, request.kind, request.calls, request.sequence, request.seed, len(request.body))
    try:
        sock.sendall(header + request.body)
    except OSError as error:
        raise WireClosed(str(error)) from error


def receive_request(sock: socket.socket) -> Request:
    """The next request, in the worker. Raises WireClosed at the end."""
    magic, kind, calls, sequence, seed, size = REQUEST.unpack(receive_exactly(sock, REQUEST.size))
    if magic != MAGIC:
        raise WireBroken("a request must begin with the protocol's magic")
    return Request(kind, calls, sequence, seed, receive_exactly(sock, size))


def pack_reply(reply: Reply) -> bytes:
    """A reply's frame, in the worker."""
    parts = [REPLY.pack(MAGIC, reply.status, reply.code, reply.sequence, reply.event_ms, reply.peak_bytes, len(reply.signature),
                        reply.signature, len(reply.tensors))]
    for t in reply.tensors:
        pad = [0] * (MAX_DIMS - len(t.shape))
        parts.append(TENSOR.pack(DTYPES.index(t.dtype), t.on_device, t.plain, len(t.shape), 0, t.offset, t.address, t.storage_bytes,
                                 *t.shape, *pad, *t.strides, *pad, t.handle))
    return b"".join(parts)


def send_reply(sock: socket.socket, reply: Reply) -> bytes:
    """Send one reply, in the worker; its frame."""
    frame = pack_reply(reply)
    sock.sendall(frame)
    return frame


def repeated(frame: bytes, sequence: int) -> bytes:
    """A reply's frame once more, as the answer to another request."""
    magic, status, code, _, *rest = REPLY.unpack_from(frame)
    return REPLY.pack(magic, status, code, sequence, *rest) + frame[REPLY.size:]


def receive_reply(sock: socket.socket, sequence: int) -> Reply:
    """The reply to request `sequence`. Raises WireClosed, WireBroken, or TimeoutError if the socket has a timeout.

    The timeout is for the whole reply, however many pieces it comes in.
    """
    timeout_s = sock.gettimeout()
    until = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        return _receive_reply(sock, sequence, until)
    finally:
        sock.settimeout(timeout_s)


def _receive_reply(sock: socket.socket, sequence: int, until: float | None) -> Reply:
    magic, status, code, seq, event_ms, peak, signed, signature, count = REPLY.unpack(receive_exactly(sock, REPLY.size, until))
    if magic != MAGIC or seq != sequence or status > BROKE_CONTRACT or count > MAX_TENSORS or signed > MAX_SIGNATURE:
        raise WireBroken("a reply must be a frame of this protocol")
    tensors = tuple(_tensor(receive_exactly(sock, TENSOR.size, until)) for _ in range(count))
    return Reply(status, code if code in CODE_TEXT else NO_CODE, seq, event_ms, peak, signature[:signed], tensors)


def _tensor(data: bytes) -> TensorFrame:
    dtype, on_device, plain, dims, _, offset, address, storage, *rest = TENSOR.unpack(data)
    if dtype >= len(DTYPES) or dims > MAX_DIMS:
        raise WireBroken("a tensor descriptor must be in range")
    shape, strides, handle = rest[:MAX_DIMS], rest[MAX_DIMS:2 * MAX_DIMS], rest[-1]
    if any(size < 0 for size in shape[:dims]) or any(stride < 0 for stride in strides[:dims]):
        raise WireBroken("a tensor descriptor must be in range")
    return TensorFrame(DTYPES[dtype], bool(on_device), bool(plain), tuple(shape[:dims]), tuple(strides[:dims]), offset, address,
                       storage, handle)


def receive_exactly(sock: socket.socket, size: int, until: float | None = None) -> bytes:
    """`size` bytes from the socket, all before the clock says `until` where that is given (else TimeoutError, as by the socket's timeout).

    Raises WireClosed if it ends before.
    """
    parts: list[bytes] = []
    while size > 0:
        if until is not None:
            sock.settimeout(max(until - time.monotonic(), 1e-6))  # 0 would mean: do not wait at all, another error
        try:
            part = sock.recv(min(size, 1 << 20))
        except TimeoutError:
            raise
        except OSError as error:
            raise WireClosed(str(error)) from error
        if not part:
            raise WireClosed("the other end closed")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def flatten(value: object, is_tensor: type) -> tuple[list[object], bytes]:
    """Tensors of a nest of tuples, lists and dicts in order, and the nest's spelling: "T", "(TT)", "{a:T}".

    Both sides spell alike, so equal spellings mean equal structure. Raises ValueError for anything else in the nest.
    """
    leaves: list[object] = []
    return leaves, _spell(value, is_tensor, leaves, 0).encode()


def _spell(node: object, is_tensor: type, leaves: list[object], depth: int) -> str:
    # a function of its own: a closure that calls itself is a reference cycle and would keep every output until a collection
    if depth > 16:
        raise ValueError("is nested too deeply")
    if isinstance(node, is_tensor):
        leaves.append(node)
        return "T"
    if node is None:
        return "N"
    if isinstance(node, (tuple, list)):
        inside = "".join(_spell(item, is_tensor, leaves, depth + 1) for item in node)
        return f"({inside})" if isinstance(node, tuple) else f"[{inside}]"
    if isinstance(node, dict):
        return "{" + ",".join(f"{key}:{_spell(item, is_tensor, leaves, depth + 1)}" for key, item in node.items()) + "}"
    raise ValueError(f"holds a {type(node).__name__}")


def signature(spelling: bytes) -> bytes:
    """The spelling as a frame carries it: itself, or its hash where it is too long."""
    return spelling if len(spelling) <= MAX_SIGNATURE else hashlib.sha256(spelling).hexdigest().encode()
