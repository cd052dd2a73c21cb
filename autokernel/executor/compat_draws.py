"""Inputs that KernelBench's seeds give, kept between candidates: drawing them on one core is most of an evaluation's time."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autokernel.errors import InternalError
from autokernel.executor import control, wire
from autokernel.executor.service import Service

SHARE_OF_DISK = 0.5  # of what is free, while a command runs
LEFT_BYTES = 4 << 30  # that stay when it ends
SHARE_OF_MEMORY = 0.5  # of what is available: files that are not in the page cache are slower than drawing anew
KEPT_PROBLEMS = 64
START_S = 180.0  # for a process to import torch on a slow machine
DRAW_S = 600.0  # for one set of a problem's inputs, drawn on one core

Draw = Callable[[dict[int, Path]], None]


class Drawer:
    """The process that draws, started when it is first needed and again when it was killed. Safe to use from several threads."""

    def __init__(self) -> None:
        self._service: Service | None = None
        self._seeds: dict[tuple[int, int], tuple[int, ...]] = {}
        self._lock = threading.Lock()

    def trial_seeds(self, seed: int, trials: int) -> tuple[int, ...]:
        """The seeds that torch's generator gives the correctness trials. Raises InternalError."""
        if (seed, trials) not in self._seeds:
            reply = self._ask({"seed": seed, "trials": trials}, START_S)
            if reply is None:
                raise InternalError("the process that draws inputs must answer, and did not; run again with --debug to see why.")
            self._seeds[seed, trials] = tuple(reply["seeds"])
        return self._seeds[seed, trials]

    def draw(self, reference: str, paths: dict[int, Path]) -> None:
        """Keep the inputs of these seeds, as far as it can be done: what fails here fails again in the evaluation, and is said there."""
        self._ask({"reference": reference, "paths": {seed: str(path) for seed, path in paths.items()}}, START_S + DRAW_S * len(paths))

    def start(self) -> None:
        """Have the process begin to import torch, which takes as long as other starts; nothing waits for it here."""
        with self._lock:
            self._running()

    def _running(self) -> Service:
        if self._service is not None and self._service.process.poll() is not None:
            self._end()  # it ends with the thread that started it
        if self._service is None:
            self._service = Service("autokernel.executor.compat_drawer", "cpu", {**os.environ, "CUDA_VISIBLE_DEVICES": ""}, START_S)
        return self._service

    def _ask(self, message: dict[str, Any], deadline_s: float) -> dict[str, Any] | None:
        """The reply, or None where the process died or took too long; it is then gone, and the next order starts another."""
        with self._lock:
            service = self._running()
            try:
                service.sock.settimeout(deadline_s)
                control.send(service.sock, message)
                return control.receive(service.sock)[0]
            except (wire.WireClosed, TimeoutError):
                self._end()
                return None

    def _end(self) -> None:
        if self._service is not None:
            self._service.end()
            self._service = None

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()


class Draws:
    """A folder with a folder a problem and a file a seed, under a budget of bytes. Safe to use from several threads."""

    def __init__(self, folder: Path, budget_bytes: int | None = None) -> None:
        self.folder, self.budget_bytes = folder, budget_bytes
        self.drawer = Drawer()
        self._locks: dict[str, threading.Lock] = {}
        self._all = threading.Lock()

    def paths(self, source: str, torch: str, seeds: Sequence[int], draw: Draw | None = None) -> dict[int, str]:
        """The file of each seed's inputs, by seed; `draw(paths by seed)` makes those that are missing, by default the drawer's process.

        Where a problem's sets do not all fit, as many are kept as do, and the evaluation draws the others itself.
        """
        key = hashlib.sha256(f"{torch}\n{source}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        with self._all:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            place = self.folder / key
            place.mkdir(parents=True, exist_ok=True)
            os.utime(place)
            draw = draw or (lambda paths: self.drawer.draw(source, paths))
            wanted = {seed: place / f"{seed}.inputs" for seed in seeds}
            there = {seed: path for seed, path in wanted.items() if path.exists()}
            missing = {seed: path for seed, path in wanted.items() if seed not in there}
            if missing and not there:  # one set alone, to learn how large they are
                first = next(iter(missing))
                draw({first: missing.pop(first)})
                there = {first: wanted[first]} if wanted[first].exists() else {}
            if not there:
                return {}
            largest = max(path.stat().st_size for path in there.values())
            if not self._room(0, key):  # that one is too much already
                shutil.rmtree(place, ignore_errors=True)
                return {}
            while missing and not self._room(largest * len(missing), key):
                missing.popitem()
            if missing:
                draw(missing)
            return {seed: str(path) for seed, path in wanted.items() if path.exists()}

    def close(self) -> None:
        """At the end of a command: end the drawer; leave the problems used last, and no more than a few GB of them."""
        self.drawer.close()
        if self.folder.is_dir():
            self._make_room(0, "", min(LEFT_BYTES, self._budget()))

    def _room(self, wanted: int, key: str) -> bool:
        """Whether that many bytes more may be kept; drops the problems used longest ago for it, never `key`'s."""
        return self._make_room(wanted, key, self._budget())

    def _make_room(self, wanted: int, key: str, budget: int) -> bool:
        with self._all:
            places = sorted((place for place in self.folder.iterdir() if place.is_dir()), key=lambda place: place.stat().st_mtime)
            sizes = {place: _size(place) for place in places}
            for place in places:
                if sum(sizes.values()) + wanted <= budget and len(sizes) <= KEPT_PROBLEMS:
                    return True
                if place.name != key:
                    shutil.rmtree(place, ignore_errors=True)
                    sizes.pop(place)
            return sum(sizes.values()) + wanted <= budget

    def _budget(self) -> int:
        if self.budget_bytes is not None:
            return self.budget_bytes
        used = sum(_size(place) for place in self.folder.iterdir() if place.is_dir())
        disk = int(SHARE_OF_DISK * (shutil.disk_usage(self.folder).free + used))
        return min(disk, int(SHARE_OF_MEMORY * _available_memory()))


def _size(place: Path) -> int:
    total = 0
    for entry in os.scandir(place):
        try:
            total += entry.stat().st_size
        except FileNotFoundError:
            continue  # a part that was just put in its place
    return total


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 4 << 30
