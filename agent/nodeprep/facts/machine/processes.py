"""Which processes run, by the kernel's names of them, and which of them have a socket. Asked for, never looked at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from nodeprep.door_values import FIRST_PID_NAMESPACE
from nodeprep.model import Unreadable, Why
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files

PROC = "/proc"
SOCKET = Pattern(r"socket:\[(\d+)\]")


def shows_all(files: Files) -> bool:
    """Whether /proc here shows processes of all PID namespaces. One of a container shows its own alone."""
    return files.shows_processes and files.link(f"{PROC}/1/ns/pid") == f"pid:[{FIRST_PID_NAMESPACE}]"


def commands(files: Files) -> Mapping[int, str] | Unreadable:
    """The name of each process, of 15 characters, by PID. Unreadable where processes of the node are not shown."""
    if not files.shows_processes:
        return Unreadable(Why.MISSING, PROC, detail="processes of the node are not shown here")
    names = files.names(PROC)
    if not isinstance(names, tuple):
        return names or Unreadable(Why.MISSING, PROC)
    found: dict[int, str] = {}
    for pid in filter(str.isdecimal, names):
        command = files.text(f"{PROC}/{pid}/comm")
        if isinstance(command, Unreadable):
            return command
        if command is not None:  # else it has ended
            found[int(pid)] = command
    return found


def command(files: Files, pid: int) -> str:
    """The name of one process, "?" if that cannot be read."""
    name = files.text(f"{PROC}/{pid}/comm")
    return name if isinstance(name, str) else "?"


def sockets(files: Files, pids: Collection[int]) -> Mapping[int, int]:
    """The PIDs by the inodes of the sockets that these processes have open. What may not be seen is left out."""
    found: dict[int, int] = {}
    for pid in pids:
        names = files.names(f"{PROC}/{pid}/fd")
        for one in names if isinstance(names, tuple) else ():
            match = SOCKET.fullmatch(files.link(f"{PROC}/{pid}/fd/{one}") or "")
            if match:
                found.setdefault(int(match[1]), pid)
    return found
