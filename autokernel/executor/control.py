"""Messages between the broker and its trusted helpers: JSON behind a length, file descriptors beside it."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

from autokernel.executor.wire import WireClosed, receive_exactly

LENGTH = struct.Struct("<I")
TIMED = ("null", "alone", "pairs")  # the judge's orders that hold the clock


def send(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one message. Raises WireClosed if the other end is gone."""
    body = json.dumps(message).encode()
    try:
        socket.send_fds(sock, [LENGTH.pack(len(body))], list(fds))
        sock.sendall(body)
    except OSError as error:
        raise WireClosed(str(error)) from error


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next message and its descriptors. Raises WireClosed at the end, TimeoutError if the socket has a timeout."""
    try:
        head, fds, _, _ = socket.recv_fds(sock, LENGTH.size, 8)
    except TimeoutError:
        raise
    except OSError as error:
        raise WireClosed(str(error)) from error
    if not head:
        raise WireClosed("the other end closed")
    head += receive_exactly(sock, LENGTH.size - len(head))
    message: dict[str, Any] = json.loads(receive_exactly(sock, LENGTH.unpack(head)[0]))
    return message, list(fds)
