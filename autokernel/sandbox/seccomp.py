"""System calls that no honest kernel or compiler makes, denied by libseccomp: a list of what is refused, since CUDA needs most others.

libseccomp is the system's own (a dependency of apt and systemd); where it is not installed this layer is off, and said to be.
"""

from __future__ import annotations

import ctypes
import errno
import functools

LIBRARY = "libseccomp.so.2"
ALLOW, DENY = 0x7FFF0000, 0x00050000 | errno.EPERM
ABSENT = 0x00050000 | errno.ENOSYS
EQUAL, GREATER, MASKED = 4, 6, 7  # libseccomp's comparisons
BAD_ARCHITECTURE, NO_NEW_PRIVILEGES, KEEP_SPECULATION = 2, 3, 7  # attributes of a filter

DENIED = (
    # mounts and other namespaces
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "setns", "unshare", "swapon", "swapoff", "quotactl", "quotactl_fd", "fanotify_init", "open_by_handle_at",
    "name_to_handle_at",
    # other processes' memory, descriptors and pages
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_getfd", "move_pages",
    "migrate_pages",
    # a place before others on the processors
    "sched_setattr", "sched_setscheduler", "sched_setparam", "setpriority", "ioprio_set",
    # the kernel itself, its keys, its clocks
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "keyctl", "add_key", "request_key",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "query_module", "reboot", "syslog",
    "acct", "sethostname", "setdomainname", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime", "lookup_dcookie",
    "nfsservctl", "iopl", "ioperm", "modify_ldt", "vm86", "vm86old", "uselib", "ustat", "sysfs", "_sysctl", "personality", "vhangup",
)
# A new child beside its maker instead of below it escapes the list of a stopped family; the others are namespaces.
CLONE_FLAGS = (0x00008000, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
PR_SET_CHILD_SUBREAPER = 36  # would take orphans away from the family's keeper
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # typing for a terminal
FAMILIES = (1, 2, 10, 16)  # sockets: unix, the two internets (of an empty network), netlink. Others (vsock!) know no network namespace


class NoSeccomp(Exception):
    """This layer cannot be had; the message says why."""


class _Compare(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("op", ctypes.c_int), ("first", ctypes.c_uint64), ("second", ctypes.c_uint64)]


class Filter:
    """A filter made ready: making it takes a millisecond, loading it into a process some microseconds."""

    def __init__(self, *, pin: bool = False) -> None:
        """`pin`: deny a choice of other processors too. Raises NoSeccomp."""
        self._library = _library()
        self._context = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(ALLOW)))
        if not self._context:
            raise NoSeccomp("libseccomp gives no filter")
        self._attribute(BAD_ARCHITECTURE, DENY)  # 32-bit calls have other numbers
        self._attribute(NO_NEW_PRIVILEGES, 1)
        self._attribute(KEEP_SPECULATION, 1, needed=False)  # else older kernels slow a filtered process's arithmetic down
        for name in (*DENIED, *(("sched_setaffinity",) if pin else ())):
            self._rule(DENY, name)
        for flag in CLONE_FLAGS:
            self._rule(DENY, "clone", (0, MASKED, flag, flag))
        self._rule(ABSENT, "clone3")  # its flags lie in memory, where no filter sees them; libc then uses clone
        self._rule(DENY, "prctl", (0, EQUAL, PR_SET_CHILD_SUBREAPER, 0))
        for command in (TIOCSTI, TIOCLINUX):
            self._rule(DENY, "ioctl", (1, MASKED, 0xFFFFFFFF, command))
        for call in ("socket", "socketpair"):
            self._rule(DENY, call, (0, GREATER, max(FAMILIES), 0))
            for family in set(range(max(FAMILIES))) - {0, *FAMILIES}:
                self._rule(DENY, call, (0, EQUAL, family, 0))

    def _attribute(self, name: int, value: int, *, needed: bool = True) -> None:
        if self._library.seccomp_attr_set(self._context, name, ctypes.c_uint32(value)) != 0 and needed:
            raise NoSeccomp(f"libseccomp does not know attribute {name}")

    def _rule(self, action: int, call: str, *comparisons: tuple[int, int, int, int]) -> None:
        number = self._library.seccomp_syscall_resolve_name(call.encode())
        if number < 0:  # not a call of this architecture, or newer than this libseccomp
            return
        given = (_Compare * max(len(comparisons), 1))(*(_Compare(*one) for one in comparisons))
        failed = self._library.seccomp_rule_add_array(self._context, ctypes.c_uint32(action), number, len(comparisons), given)
        if failed:
            raise NoSeccomp(f"libseccomp refuses the rule for {call} ({errno.errorcode.get(-failed, failed)})")

    def load(self) -> None:
        """Into this process and all that it starts; it cannot be taken off again. Raises NoSeccomp."""
        failed = self._library.seccomp_load(self._context)
        if failed:
            raise NoSeccomp(f"the kernel takes no filter ({errno.errorcode.get(-failed, failed)})")


@functools.lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NoSeccomp(f"{LIBRARY} is not installed") from error
    library.seccomp_init.restype = ctypes.c_void_p
    return library
