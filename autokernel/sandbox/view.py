"""What of this machine's files is in sight in the sandbox: the system's folders, the interpreter, compilers, our own package.

Hidden is every other top-level folder (/root, /home, /work, /mnt, /var ...), with it the user's home, projects, problems, the store and
other runs; and of /etc all but a few files.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SYSTEM = frozenset({"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "opt", "nix", "etc", "dev", "proc", "sys"})
PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")  # replaced by empty ones of the family's own
KEPT_OF_ETC = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "passwd", "group", "nsswitch.conf", "localtime", "timezone", "os-release",
    "debian_version", "hosts", "host.conf", "locale.conf", "locale.alias", "python3*", "ssl/openssl.cnf", "nvidia*", "OpenCL",
)
HIDDEN_FILES = ("/proc/kcore", "/proc/kmsg", "/proc/sysrq-trigger", "/proc/keys", "/proc/key-users", "/proc/timer_list",
                "/proc/sched_debug", "/proc/latency_stats", "/proc/kallsyms", "/proc/kpagecount", "/proc/kpageflags")
TOOLS = ("g++", "gcc", "c++", "cc", "clang", "nvcc", "ninja", "ld", "as", "ccache")
PACKAGES = ("torch", "triton", "numpy", "pybind11", "ninja", "autokernel")
DRIVER = ("/run/nvidia*", "/var/run/nvidia*")  # where containers may have the GPU's libraries and its daemon's socket


@dataclass(frozen=True)
class View:
    """What one family sees beside the system's folders. All paths are absolute and resolved."""

    readable: tuple[str, ...] = ()  # folders that stay in sight where the rest is hidden
    own: tuple[str, ...] = ()  # empty folders that it may write, the first of them where it starts; in memory, lost at the end
    copied: tuple[str, ...] = ()  # the same, but with a copy of what lies there, times kept
    device: bool = False  # the GPU's device files
    hiding: bool = True  # else all files stay in sight, read-only, but for those of PRIVATE

    def to_json(self) -> dict[str, Any]:
        """For the process that makes it so."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> View:
        """What `to_json` gave."""
        return cls(tuple(data["readable"]), tuple(data["own"]), tuple(data["copied"]), data["device"], data["hiding"])


def hidden_tops() -> list[str]:
    """Top-level folders that are hidden; links among them lead to others."""
    return sorted(entry.path for entry in os.scandir("/")
                  if entry.is_dir(follow_symlinks=False) and entry.name not in SYSTEM and entry.path not in PRIVATE)


def in_private_memory(path: str, shown: tuple[str, ...]) -> bool:
    """Whether the place is in the family's own /tmp, not in a folder that is `shown` there: a store inside a checkout, say."""
    return path.startswith("/tmp/") and not any(path.startswith(f"{other}/") for other in shown)


def readable() -> tuple[str, ...]:
    """Folders below hidden ones that workers and compilers need, outermost first."""
    hidden = [f"{top}/" for top in (*hidden_tops(), *PRIVATE)]
    found: set[str] = set()
    for path in _needed():
        for spelt in {os.path.abspath(path), os.path.realpath(path)}:  # through a link and without it
            if os.path.isdir(spelt) and spelt.startswith(tuple(hidden)) and not _holds_home(spelt):
                found.add(spelt)
    return tuple(path for path in sorted(found) if not any(path.startswith(other + "/") for other in found))


def _holds_home(path: str) -> bool:
    home = os.path.realpath(os.path.expanduser("~"))
    return home == path or home.startswith(path + "/")


def _needed() -> Iterator[str]:
    yield from (sys.prefix, sys.base_prefix)
    yield from (path for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            yield os.path.dirname(spec.origin)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        yield from filter(None, (os.environ.get(name),))
    yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for tool in (*TOOLS, os.environ.get("CC", ""), os.environ.get("CXX", "")):
        where = shutil.which(tool) if tool else None
        if where is not None:
            folder = Path(where).resolve().parent
            whole = folder.parent if folder.name == "bin" and not _holds_home(str(folder.parent)) else folder
            yield str(whole if len(whole.parts) > 2 else folder)  # never a whole top-level folder
    for pattern in DRIVER:
        yield from map(str, Path("/").glob(pattern[1:]))
