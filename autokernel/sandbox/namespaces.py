"""Namespaces and what is left to see in them: own processes, network and IPC, a read-only root without anybody's files, private folders
in memory under one quota, the few devices that are needed, no capabilities, no new privileges.

Entered by a family's first process before anything untrusted runs in it.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from pathlib import Path

from autokernel.sandbox.view import HIDDEN_FILES, KEPT_OF_ETC, PRIVATE, View, hidden_tops, in_private_memory

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
LAST_CAPABILITY = 63
ROOM = "size=2g,nr_inodes=200k"  # of all that a family writes: its folders, /tmp, /var/tmp and /dev/shm together
KEPT = ("/proc", "/dev")  # ours by now, and seen to apart
READ_ONLY_PROC = ("/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq")  # root's own files, so that no capability is asked for
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")  # all that is left of /dev, and with a GPU its own:
EMPTY = "/dev/.empty"
GPU_DEVICES = ("nvidia*", "nvidia-caps/*")


class SandboxFailed(Exception):
    """A layer that this machine does not allow; the message names the call."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise SandboxFailed(f"{what}: {os.strerror(ctypes.get_errno())}")


def leave_namespaces() -> None:
    """Take the caller's next child into new namespaces; a caller without privileges gets a user namespace first.

    The mount namespace is the child's own to make: the caller goes on reading this one's /proc. Raises SandboxFailed.
    """
    flags = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS
    if os.geteuid() == 0:
        _check(_libc().unshare(flags), "unshare")
        return
    user, group = os.geteuid(), os.getegid()
    _check(_libc().unshare(flags | CLONE_NEWUSER), "unshare with a user namespace")
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        raise SandboxFailed(f"map this user into a namespace: {error.strerror}") from error


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    raw = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    _check(_libc().mount(raw[0], raw[1], raw[2], ctypes.c_ulong(flags), raw[3]), f"mount {target}")


def shut_in(view: View) -> None:
    """In the first process of the new namespaces: leave in sight what `view` says. Raises SandboxFailed.

    The order matters: what is to be seen again is held open before its place is hidden.
    """
    try:
        _check(_libc().unshare(CLONE_NEWNS), "unshare the mounts")
        _mount(None, "/", None, MS_REC | MS_PRIVATE)
        held = {path: os.open(path, os.O_PATH) for path in dict.fromkeys((*view.readable, *view.copied)) if os.path.exists(path)}
        _private_devices(view.device)
        room = _room(len(view.own) + len(view.copied))
        if view.hiding:
            _hide()
        _bind(room["shm"], "/dev/shm", folder=True)
        _bind(room["var"], "/var/tmp", folder=True)
        for path in view.readable:
            if path in held:
                _bind(held[path], path, folder=os.path.isdir(f"/proc/self/fd/{held[path]}"))
        for number, path in enumerate((*view.own, *view.copied)):
            if in_private_memory(path, view.readable):  # one mount: a file can be moved from one to the other
                os.makedirs(path, exist_ok=True)
            else:
                _bind(room[str(number)], path, folder=True)
        for path in view.copied:
            if path in held:
                shutil.copytree(f"/proc/self/fd/{held[path]}", path, dirs_exist_ok=True, symlinks=True)
        for descriptor in (*held.values(), *room.values()):
            os.close(descriptor)
        _private_proc()
        _read_only({*view.own, *view.copied, *PRIVATE})
        os.chdir(view.own[0] if view.own else "/")  # the folder that the caller was in may be a hidden one
    except OSError as error:
        raise SandboxFailed(f"make a private view of the files: {error}") from error
    _drop_privileges()


def _bind(descriptor: int, path: str, *, folder: bool) -> None:
    """Show at `path`, made where it is not there, what is held open."""
    if folder:
        os.makedirs(path, exist_ok=True)
    elif not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).touch()
    _mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND | MS_REC)


def _room(folders: int) -> dict[str, int]:
    """One file system in memory, held open by its parts, the first of them already in /tmp's place."""
    _mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, f"{ROOM},mode=755")
    held = {}
    for name in ("tmp", "var", "shm", *map(str, range(folders))):
        os.mkdir(f"/tmp/{name}")
        os.chmod(f"/tmp/{name}", 0o755 if name.isdigit() else 0o1777)
        held[name] = os.open(f"/tmp/{name}", os.O_PATH | os.O_DIRECTORY)
    _bind(held["tmp"], "/tmp", folder=True)
    return held


def _hide() -> None:
    """Empty folders over every top-level one that is not the system's, a file without content over every file there, a short /etc."""
    for top in hidden_tops():
        _mount("tmpfs", top, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for entry in os.scandir("/"):
        if entry.is_file(follow_symlinks=False):
            _empty(entry.path)
    kept = {path: os.open(path, os.O_PATH) for pattern in KEPT_OF_ETC for path in map(str, Path("/etc").glob(pattern))}
    _mount("tmpfs", "/etc", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for path, descriptor in kept.items():
        _bind(descriptor, path, folder=os.path.isdir(f"/proc/self/fd/{descriptor}"))
        os.close(descriptor)


def _private_devices(device: bool) -> None:
    """A /dev of the family's own with the few devices that it may open: as root it could else open every disk."""
    patterns = (*DEVICES, *(GPU_DEVICES if device else ()))
    found = [path for pattern in patterns for path in sorted(Path("/dev").glob(pattern)) if not path.is_dir()]
    held = {path: os.open(path, os.O_PATH) for path in found}
    _mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=1m,mode=755")
    for path, descriptor in held.items():
        path.parent.mkdir(exist_ok=True)
        path.touch()
        _mount(f"/proc/self/fd/{descriptor}", str(path), None, MS_BIND)
        os.close(descriptor)
    os.mkdir("/dev/shm")
    os.close(os.open(EMPTY, os.O_CREAT, 0o444))
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")


def _private_proc() -> None:
    """The namespace's own processes; of the kernel's files there, those that root owns are read-only or without content."""
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for path in filter(os.path.exists, READ_ONLY_PROC):
        _mount(path, path, None, MS_BIND)
        _mount(None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for path in filter(os.path.exists, HIDDEN_FILES):
        _empty(path)


def _empty(path: str) -> None:
    """Show a file without content in a file's place, that nobody may write."""
    _mount(EMPTY, path, None, MS_BIND)
    _mount(None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC)


def _read_only(spared: set[str]) -> None:
    options = {"nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), line.split()[4])  # a blank is written \040
        words = line.split()[5].split(",")
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
