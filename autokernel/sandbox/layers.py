"""What fences a candidate in on this machine, layer by layer: each is tried, and one that is off says why and what it would need."""

from __future__ import annotations

import os
from dataclasses import dataclass

from autokernel.sandbox import cgroups, command, limits, namespaces

AS_ROOT = ("run as root, in a container with --cap-add SYS_ADMIN, or where user namespaces are allowed (sysctl "
           "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)")
WRITABLE = ("run as root with /sys/fs/cgroup writable (in a container: --privileged, or --cgroupns=private and a writable mount), or hand "
            "the controllers down to this user")


@dataclass(frozen=True)
class Layer:
    """One layer: whether it is on, what it does or why it is off, and what it needs then."""

    name: str
    on: bool
    says: str
    needs: str = ""

    @property
    def line(self) -> str:
        """For people."""
        return f"on: {self.says}" if self.on else f"off: {self.says}" + (f"; needs: {self.needs}" if self.needs else "")


def examine() -> tuple[Layer, ...]:
    """Every layer, tried now with processes that end at once. Takes some tenths of a second."""
    missing = command.why_not()
    return (*_private(missing.get("namespaces", "")), _environment(), _seccomp(missing.get("seccomp", "")), _limits(), *_groups())


def _private(reason: str) -> tuple[Layer, ...]:
    says = {
        "namespaces": "processes, network, IPC and host name of its own",
        "mounts": "a read-only file system without home, project, store and other runs; private folders in memory, "
                  f"{namespaces.ROOM.partition(',')[0].removeprefix('size=')} in all; no capabilities, no new privileges",
        "devices": "of /dev only null, zero, full, random, urandom, tty, and for workers on a GPU nvidia*",
        "compilers": "nvcc, g++ and ninja run in the same sandbox, without the device",
    }
    if not reason:
        return tuple(Layer(name, True, text) for name, text in says.items())
    return tuple(Layer(name, False, reason if name in ("namespaces", "mounts") else "goes with the namespaces", AS_ROOT) for name in says)


def _environment() -> Layer:
    return Layer("environment", True, "workers and compilers get a list of harmless variables; HOME is a private folder")


def _seccomp(reason: str) -> Layer:
    if not reason:
        return Layer("seccomp", True, "mounts, tracing, other processes' memory, keys, bpf, perf, io_uring and the like are refused")
    needs = "install libseccomp (Debian, Ubuntu: apt install libseccomp2)" if "installed" in reason else "a kernel with seccomp filters"
    return Layer("seccomp", False, reason, needs)


def _limits() -> Layer:
    return Layer("limits", True, f"files of {limits.FILE_BYTES >> 30} GB, {limits.OPEN_FILES} open ones, no core dumps; on the CPU "
                                 f"{limits.MEMORY_SHARE:.0%} of memory for each process; compilers 1 GB files and their own deadline")


def _groups() -> tuple[Layer, ...]:
    off = cgroups.examine(sorted(os.sched_getaffinity(0)))

    def layer(name: str, control: str, on: str, otherwise: str) -> Layer:
        return Layer(name, False, f"{off[control]}; {otherwise}", WRITABLE) if control in off else Layer(name, True, on)

    return (
        layer("memory", "memory", f"{cgroups.MEMORY_SHARE:.0%} of the machine's for a candidate's family", "only each process is limited"),
        layer("processes", "pids", f"{cgroups.PROCESSES} and 16 for each processor, threads count", "only a user's are limited"),
        layer("freezer", "freezer", "the kernel stops a family while the other side is timed",
              "by signals instead: who does not stop, or runs before it may, is refused"),
        layer("cpuset", "cpuset", "a family cannot leave the processors that both sides share",
              "each process is pinned, and may not pin itself anew where there are more"),
    )
