"""Control groups, version 1 and 2 alike: a group for each worker's family that limits memory, processes and processors, and freezes it.

Made by the broker beside its own groups where that is allowed; what is not allowed is left out, and `Group.without` says why.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PREFIX = f"autokernel-{os.stat('/proc/self/ns/pid').st_ino}-"  # pids mean something in their own namespace only
WANTED = ("freezer", "memory", "pids", "cpuset")
MEMORY_SHARE = 0.9  # of this machine's memory: a hog dies before the judge does
PROCESSES = 1024  # and 16 for each processor: pools of threads count here too
REMOVAL_S = 2.0  # the dead leave their group a little later


@dataclass(frozen=True)
class Hierarchy:
    """One mounted hierarchy: where this process's own group lies in it, and what it controls ("" stands for version 2)."""

    folder: Path
    controllers: tuple[str, ...]

    @property
    def unified(self) -> bool:
        """Whether it is version 2's."""
        return self.controllers == ("",)


@functools.lru_cache(maxsize=1)
def hierarchies() -> tuple[Hierarchy, ...]:
    """Those that this process is in and can see."""
    mounted: dict[tuple[str, ...], tuple[str, str]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        front, _, back = line.partition(" - ")
        kind, _, options = back.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            named = tuple(options.split(",")) if kind == "cgroup" else ("",)
            mounted[named] = (front.split()[3], front.split()[4])
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, own = line.split(":", 2)
        controllers = tuple(names.split(","))
        for settings, (root, point) in mounted.items():
            if set(controllers) <= set(settings):
                inside = own.removeprefix(root.rstrip("/")).lstrip("/") if own.startswith(root.rstrip("/")) else ""
                found.append(Hierarchy(Path(point) / inside, controllers))
                break
    return tuple(found)


@dataclass
class Group:
    """One family's groups, by what they are good for ("freezer", "memory", "pids", "cpuset"), and why what is not there is not."""

    folders: dict[str, Path] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)

    @property
    def entries(self) -> list[str]:
        """Files into which a process writes "0" to join."""
        return [str(folder / "cgroup.procs") for folder in dict.fromkeys(self.folders.values())]

    def remove(self) -> None:
        """After the family is dead. A group that still holds someone stays, for the next sweep."""
        until = time.monotonic() + REMOVAL_S
        for folder in dict.fromkeys(self.folders.values()):
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() > until:
                        break
                    time.sleep(0.005)


def make(name: str, cpus: Sequence[int]) -> Group:
    """A new group for one family, limited: memory to a share of the machine's, processes, processors to `cpus`."""
    group = Group()
    for wanted in WANTED:
        try:
            group.folders[wanted] = _made(wanted, f"{PREFIX}{os.getpid()}-{name}", cpus)
        except FileNotFoundError as error:
            group.without[wanted] = str(error) if error.errno is None else "no control group hands it down to this process"
        except OSError as error:
            group.without[wanted] = error.strerror or str(error)
    return group


def _made(wanted: str, name: str, cpus: Sequence[int]) -> Path:
    tried: OSError = FileNotFoundError("no hierarchy of control groups is mounted for it")
    for hierarchy in sorted(hierarchies(), key=lambda one: not one.unified):  # version 2 first: its frozen processes can be killed
        if not (hierarchy.unified or wanted in hierarchy.controllers):
            continue
        folder = hierarchy.folder / name
        fresh = not folder.exists()
        try:
            folder.mkdir(exist_ok=True)
            _limit(wanted, folder, hierarchy, cpus)
            return folder
        except OSError as error:
            tried = error
            if fresh and folder.exists():
                folder.rmdir()
    raise tried


def _limit(wanted: str, folder: Path, hierarchy: Hierarchy, cpus: Sequence[int]) -> None:
    """Set what the group is for. Raises OSError where its file is not there (version 2: a controller that is not handed down)."""
    if wanted == "freezer":
        os.stat(folder / ("cgroup.freeze" if hierarchy.unified else "freezer.state"))
    elif wanted == "memory":
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        _write(folder / ("memory.max" if hierarchy.unified else "memory.limit_in_bytes"), str(int(machine * MEMORY_SHARE)))
    elif wanted == "pids":
        _write(folder / "pids.max", str(PROCESSES + 16 * (os.cpu_count() or 1)))
    elif wanted == "cpuset":
        if not hierarchy.unified:
            _write(folder / "cpuset.mems", (hierarchy.folder / "cpuset.effective_mems").read_text().strip())
        _write(folder / "cpuset.cpus", ",".join(map(str, cpus)))


def _write(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY), "w") as file:  # never made: a folder of another file system would take any name
        file.write(text)


def examine(cpus: Sequence[int]) -> dict[str, str]:
    """Which of WANTED cannot be had here, with the reason: a group is made and removed."""
    group = make("examined", cpus)
    group.remove()
    return group.without


def sweep() -> None:
    """Remove the groups of brokers that were killed. Their families died with them, but for those that were frozen just then."""
    for hierarchy in hierarchies():
        for folder in hierarchy.folder.glob(f"{PREFIX}*"):
            maker = re.match(rf"{PREFIX}(\d+)-", folder.name)
            if maker and not Path(f"/proc/{maker[1]}").exists():
                try:
                    _end(folder)
                    folder.rmdir()
                except OSError:
                    continue  # someone is still in it, or it is not ours to remove


def _end(folder: Path) -> None:
    """Let go and kill whoever is left in a group of ours."""
    for name, off in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        if (folder / name).exists():
            _write(folder / name, off)
    until = time.monotonic() + REMOVAL_S
    while (left := (folder / "cgroup.procs").read_text().split()) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.005)


@dataclass(frozen=True)
class Freezer:
    """The switch that stops a family as the kernel's own doing: no signal, timer or fork of the family's gets round it."""

    switch: Path
    state: Path
    on: str
    off: str
    frozen: str  # what `state` holds then

    def freeze(self, patience_s: float) -> bool:
        """Whether everybody stands still, within that time."""
        _write(self.switch, self.on)
        until = time.monotonic() + patience_s
        while not self.holds():
            if time.monotonic() > until:
                return False
            time.sleep(0.0001)
        return True

    def holds(self) -> bool:
        """Whether everybody stands still now."""
        return self.frozen in self.state.read_text().splitlines()

    def thaw(self) -> None:
        """Let the family run again."""
        _write(self.switch, self.off)


def freezer_of(pid: int) -> Freezer | None:
    """The freezer of the group of ours that process `pid` is in, None where there is none."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    ours = {tuple(names.split(",")): own.rpartition("/")[2] for _, names, own in (line.split(":", 2) for line in lines)}
    for hierarchy in sorted(hierarchies(), key=lambda one: not one.unified):
        name = ours.get(hierarchy.controllers, "")
        folder = hierarchy.folder / name
        if not name.startswith(PREFIX):
            continue
        if hierarchy.unified and (folder / "cgroup.freeze").exists():
            return Freezer(folder / "cgroup.freeze", folder / "cgroup.events", "1", "0", "frozen 1")
        if (folder / "freezer.state").exists():
            return Freezer(folder / "freezer.state", folder / "freezer.state", "FROZEN", "THAWED", "FROZEN")
    return None
