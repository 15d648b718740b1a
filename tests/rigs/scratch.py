"""Directories in memory, for the files of agents and nodes under test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

MEMORY = Path("/dev/shm")
ROOM_BYTES = 8 * 2**30  # that many files of a rig leave enough for its programs


@contextmanager
def in_memory() -> Iterator[Path]:
    """A directory in memory if this machine has such a place: an agent waits for a busy disk, and reports it.

    Its path is short, because that of a Unix socket has 107 bytes at most (unix(7)).
    """
    with TemporaryDirectory(prefix="nodeprep-", dir=MEMORY if MEMORY.is_dir() else None) as directory:
        yield Path(directory)


def roomy() -> Path | None:
    """Where very many files are best, None for the usual place.

    A file system that is mounted with `discard` and has no journal tells the disk of each removed file, and waits for
    it: 2 ms a file. The images of one node are 8,000 files.
    """
    if not MEMORY.is_dir() or min(shutil.disk_usage(MEMORY).free, _available()) < ROOM_BYTES:
        return None
    return MEMORY


def _available() -> int:
    """The bytes that programs can still have (MemAvailable)."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return next(int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:")
