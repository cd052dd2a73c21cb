"""One worker process as the broker sees it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from autokernel.executor.text_pipe import TextPipe
from autokernel.sandbox import cgroups


class WorkerHandle:
    """A worker and its family, from its birth to its burial."""

    def __init__(self, name: str, keeper: int, pid: int, sock: socket.socket, text: TextPipe, folder: Path, group: cgroups.Group, *,
                 shut_in: bool) -> None:
        self.name, self.keeper, self.pid, self.sock, self.text, self.folder = name, keeper, pid, sock, text, folder
        self.group = group
        self.shut_in = shut_in  # its files are its own, in memory
        self.kept: tuple[Path, ...] = ()  # folders in its memory whose content outlives it, resolved
        self.attached = False
        self.started = False
        self.loaded = False

    def keep(self, folders: Sequence[Path]) -> None:
        """What it adds to these folders is to outlive it; without files of its own that is so anyway."""
        self.kept = tuple(folder.resolve() for folder in folders) if self.shut_in else ()
