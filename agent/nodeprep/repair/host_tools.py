"""Which programs the host has."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.doors.files.reader import FileEntry, Files

# Where a host keeps its programs, whatever PATH we were started with: sudo and cron give short ones.
DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
PATH = ":".join(DIRECTORIES)


def found(names: Iterable[str], root: str = "") -> frozenset[str]:
    """The programs among `names` that the host with this root has in one of the usual directories.

    Links are followed below the root: Debian's modprobe is one to /bin/kmod.
    """
    files = Files(root or "/")
    return frozenset(name for name in names if any(_is_program(files, f"{place}/{name}") for place in DIRECTORIES))


def _is_program(files: Files, path: str) -> bool:
    entry = files.entry(path)
    return isinstance(entry, FileEntry) and entry.is_executable
