"""Proves that a directory is the root of the machine we run on. An empty directory would look like a bare node."""

from __future__ import annotations

import os

from nodeprep.doors.files import mount_table
from nodeprep.doors.files.mount_table import HOSTS, LIMIT, OWN, MountRow
from nodeprep.doors.files.reader import Files

BOOT_ID = "/proc/sys/kernel/random/boot_id"
FIRST_PROCESS = "/proc/1/stat"
PROC = "/proc"
# Where both mount tables must agree: sysfs belongs to a network namespace, /usr to a mount namespace.
WITNESSES = ("/sys/class", "/usr")


class HostRoot:
    """What proves the root below which `files` lie.

    If the whole /proc of the host is mounted, its boot id must be that of this machine. If only the mount table of the
    host's first process is mounted, our own mount table must agree with it:

    - the file is `1/mountinfo` of the proc file system that its own table has at /proc;
    - /sys/class and /usr below the root are what the table has there. The table of a container has another /usr, and
      the sysfs of another network namespace is another file system.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._boot_id = ""  # of this machine, once read: it stays as long as we live
        self._proven: tuple[int, ...] = ()  # which files proved it, so that a table of megabytes is read once

    def lacks(self) -> str:
        """Why it is not the host's root, "" if it is."""
        root, files = self._files.root, self._files
        if files.text(FIRST_PROCESS):
            found = files.text(BOOT_ID)
            if not found:
                return f"no {root}{BOOT_ID}"
            own = self._boot_id or Files().text(BOOT_ID)
            self._boot_id = own if isinstance(own, str) else ""
            return "" if found == own else f"{root}{BOOT_ID} is not that of this boot"
        missing = [f"{root}{path}" for path in (HOSTS, *WITNESSES) if not os.path.exists(f"{root}{path}")]
        if missing:
            return f"no {root}{FIRST_PROCESS}, and no {' and no '.join(missing)}"
        now = _numbers(root)
        if now == self._proven:
            return ""
        why = self._doubt(root)
        self._proven = () if why else now
        return why

    def _doubt(self, root: str) -> str:
        own, hosts = Files().data(OWN, LIMIT), self._files.data(HOSTS, LIMIT)
        if not isinstance(own, bytes):
            return f"{OWN} cannot be read"
        if not isinstance(hosts, bytes):
            return f"{root}{HOSTS} cannot be read"
        ours, theirs = tuple(mount_table.rows(own)), tuple(mount_table.rows(hosts))
        here = os.path.realpath(root)
        table, proc = mount_table.topmost(ours, f"{here}{HOSTS}"), mount_table.topmost(theirs, PROC)
        if table is None or (table.kind, table.root) != ("proc", HOSTS.removeprefix(PROC)):
            return f"{root}{HOSTS} is {_words(table)}, wanted the host's {HOSTS}, mounted as a file"
        if proc is None or (proc.kind, proc.device) != ("proc", table.device):
            return f"{root}{HOSTS} is of another mount namespace: {PROC} is {_words(proc)} there, wanted {table.device}"
        for path in WITNESSES:
            mounted = mount_table.topmost(ours, f"{here}{path}")
            if mounted is None or (mounted.device, mounted.root) != mount_table.shown(theirs, path):
                return f"{root}{path} is {_words(mounted)}, wanted what {root}{HOSTS} has at {path}"
        return ""


def _words(row: MountRow | None) -> str:
    return "no mount" if row is None else f"{row.root} of {row.kind} {row.device}"


def _numbers(root: str) -> tuple[int, ...]:
    """Numbers that stay the same while the same files are mounted; () if one is missing."""
    try:
        found = [os.stat(f"{root}{path}") for path in (HOSTS, *WITNESSES)]
    except OSError:
        return ()
    return tuple(number for one in found for number in (one.st_dev, one.st_ino))
