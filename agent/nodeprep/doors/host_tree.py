"""The host's file systems, mounted in a mount namespace of our own: what a container has without a hostPath of "/".

`/proc/1/root` leads there too, but it is a link that `realpath` follows to our own "/": a module of Ansible that asks
for the real path of a file on the host would then write into the container.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Iterable
from pathlib import Path

CLONE_NEWNS = 0x20000  # include/uapi/linux/sched.h
AT_FDCWD, AT_RECURSIVE = -100, 0x8000  # include/uapi/linux/fcntl.h
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC  # include/uapi/linux/mount.h
MOVE_MOUNT_F_EMPTY_PATH = 4
MS_NOSUID, MS_NODEV, MS_REC, MS_SLAVE = 0x2, 0x4, 0x4000, 0x80000
SCRATCH = b"size=64m,mode=1777"  # a run of Ansible has 1 MiB
OPEN_TREE, MOVE_MOUNT = 428, 429  # numbers of system calls, the same on each architecture; Linux 5.2


class NoHostTree(Exception):
    """The host's file systems cannot be mounted. Its text is one line that names the call or the path."""


def attach(process: str, place: str, scratch: Iterable[str] = ()) -> None:
    """Mount the file systems of a process, such as /host/proc/1, at `place`, in a new mount namespace of this process.

    For a process with one thread. `place` is made. Nobody else sees the mounts. They end with this process and those
    that it starts. Mounts that the host makes later appear in them. The directories `scratch` are small, empty and in
    memory there: what is left in them ends too. Raises NoHostTree.
    """
    try:
        own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        host = os.open(f"{process}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NoHostTree(f"{error.filename}: {error.strerror}") from error
    libc = ctypes.CDLL(None, use_errno=True)
    _call("setns", libc.setns, host, CLONE_NEWNS)
    tree = _call(
        "open_tree", libc.syscall, OPEN_TREE, AT_FDCWD, b"/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE
    )
    _call("setns", libc.setns, own, CLONE_NEWNS)
    _call("unshare", libc.unshare, CLONE_NEWNS)
    _call("mount", libc.mount, None, b"/", None, ctypes.c_ulong(MS_REC | MS_SLAVE), None)
    for one in scratch:
        flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV)
        _call(f"mount {one}", libc.mount, b"tmpfs", one.encode(), b"tmpfs", flags, SCRATCH)
    try:
        Path(place).mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NoHostTree(f"{error.filename}: {error.strerror}") from error
    _call("move_mount", libc.syscall, MOVE_MOUNT, tree, b"", AT_FDCWD, place.encode(), MOVE_MOUNT_F_EMPTY_PATH)
    _call("mount", libc.mount, None, place.encode(), None, ctypes.c_ulong(MS_REC | MS_SLAVE), None)
    for descriptor in (own, host, tree):
        os.close(descriptor)


def _call(name: str, function: ctypes._NamedFuncPointer, *arguments: object) -> int:
    result: int = function(*arguments)
    if result >= 0:
        return result
    number = ctypes.get_errno()
    if number == errno.ENOSYS:
        raise NoHostTree(f"{name}: found Linux {platform.release()}, wanted 5.2 or newer")
    raise NoHostTree(f"{name}: {os.strerror(number)}; wanted a privileged container")
