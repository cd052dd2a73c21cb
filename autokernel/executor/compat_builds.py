"""Each candidate that compiles on import is built once, whoever asks, and a failure is remembered for as long as the command runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Once(Generic[Result]):
    """Results by key, each made by the first who asks while the others wait."""

    def __init__(self) -> None:
        self._locks: dict[str, threading.Lock] = {}
        self._made: dict[str, Result] = {}
        self._all = threading.Lock()

    def get(self, key: str, make: Callable[[], Result]) -> Result:
        """The key's result, made now where nobody has made it. What `make` raises is raised, and the next one tries again."""
        with self._all:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]
