"""What a worker prints: drained always, kept up to a cap, shown and stored but never parsed."""

from __future__ import annotations

import os
import threading

HEAD_BYTES, TAIL_BYTES = 16 << 10, 48 << 10


class TextPipe:
    """Reads one pipe in a thread until it closes; keeps the beginning and the end of what came."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._head, self._tail, self._dropped = b"", b"", 0
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        while part := os.read(self._read_end, 1 << 16):
            room = HEAD_BYTES - len(self._head)
            self._head += part[:room]
            tail = self._tail + part[room:] if room < len(part) else self._tail
            self._dropped += max(len(tail) - TAIL_BYTES, 0)
            self._tail = tail[-TAIL_BYTES:]
        os.close(self._read_end)

    def close_write_end(self) -> None:
        """After the worker has its own copy."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def text(self, wait_s: float = 0.5) -> str:
        """What was kept so far; waits a moment for the end if the worker is gone."""
        self._thread.join(wait_s)
        middle = f"\n[{self._dropped} bytes left out]\n".encode() if self._dropped else b""
        return (self._head + middle + self._tail).decode("utf-8", "replace")
