"""What a worker is shut into, from Linux alone: own PID, network, IPC and mount namespaces, a read-only root, private temporary
folders, no capabilities, no new privileges. Standard library only; entered by a worker's first process before anything untrusted runs.

Seccomp, cgroups and a user other than the caller's are not used; `autokernel doctor` says so.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
LAST_CAPABILITY = 63
PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")  # replaced by empty ones of the worker's own
PRIVATE_SIZE = "2g"
KEPT = ("/proc", "/dev")  # ours by now, and seen to apart
SETTINGS = "/proc/sys"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "nvidia*", "nvidia-caps/*")  # all that is left of /dev


class SandboxFailed(Exception):
    """A layer that this machine does not allow; the message names the call."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise SandboxFailed(f"{what}: {os.strerror(ctypes.get_errno())}")


def leave_namespaces() -> None:
    """Take the caller's next child into new namespaces; a caller without privileges gets a user namespace first.

    The mount namespace is the child's own to make: the caller goes on reading this one's /proc.
    """
    flags = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS
    if os.geteuid() == 0:
        _check(_libc().unshare(flags), "unshare")
        return
    user, group = os.geteuid(), os.getegid()
    _check(_libc().unshare(flags | CLONE_NEWUSER), "unshare with a user namespace")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    raw = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    _check(_libc().mount(raw[0], raw[1], raw[2], ctypes.c_ulong(flags), raw[3]), f"mount {target}")


def shut_in(readable: Sequence[str], writable: Sequence[str], copied: Sequence[str]) -> None:
    """In the first process of the new namespaces: make everything read-only but `writable`, give it private copies of `copied`.

    All are folders. `readable` ones (the interpreter's, ours, the store) stay in sight where they lie below a folder that becomes
    private; a copy lies at the same path with times kept and is lost at the end. Raises SandboxFailed.
    """
    _check(_libc().unshare(CLONE_NEWNS), "unshare the mounts")
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    readable = [path for path in sorted(readable) if any(path.startswith(hidden + "/") for hidden in PRIVATE)]
    held = {path: os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (*readable, *writable, *copied)}
    _private_devices()
    for path in PRIVATE:
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={PRIVATE_SIZE},mode=1777")
    for path in (*readable, *writable):
        os.makedirs(path, exist_ok=True)
        _mount(f"/proc/self/fd/{held[path]}", path, None, MS_BIND | MS_REC)
    for path in copied:
        os.makedirs(path, exist_ok=True)
        _mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={PRIVATE_SIZE}")
        shutil.copytree(f"/proc/self/fd/{held[path]}", path, dirs_exist_ok=True)
    for descriptor in held.values():
        os.close(descriptor)
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _mount(SETTINGS, SETTINGS, None, MS_BIND)
    _mount(None, SETTINGS, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _read_only({*writable, *copied, *PRIVATE})
    _drop_privileges()


def _private_devices() -> None:
    """A /dev of the worker's own with the few devices that it may open: as root it could else open every disk."""
    found = [path for pattern in DEVICES for path in sorted(Path("/dev").glob(pattern)) if not path.is_dir()]
    held = {path: os.open(path, os.O_PATH) for path in found}
    _mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=1m,mode=755")
    for path, descriptor in held.items():
        path.parent.mkdir(exist_ok=True)
        path.touch()
        _mount(f"/proc/self/fd/{descriptor}", str(path), None, MS_BIND)
        os.close(descriptor)
    os.mkdir("/dev/shm")
    os.symlink("/proc/self/fd", "/dev/fd")


def _read_only(spared: set[str]) -> None:
    options = {"nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point, words = line.split()[4].encode().decode("unicode_escape"), line.split()[5].split(",")
        if point in spared or any(point == kept or point.startswith(kept + "/") for kept in KEPT):
            continue
        flags = sum(options.get(word, 0) for word in words)
        try:
            _mount(None, point, None, MS_REMOUNT | MS_BIND | MS_RDONLY | flags)
        except SandboxFailed:
            if point in ("/", "/sys"):
                raise


def _drop_privileges() -> None:
    libc = _libc()
    _check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails past the kernel's last one
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _check(libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)())), "capset")
