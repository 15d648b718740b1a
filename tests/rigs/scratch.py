"""A directory for the files of an agent under test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

MEMORY = Path("/dev/shm")


@contextmanager
def in_memory() -> Iterator[Path]:
    """A directory in memory if this machine has such a place: an agent waits for a busy disk, and reports it.

    Its path is short, because that of a Unix socket has 107 bytes at most (unix(7)).
    """
    with TemporaryDirectory(prefix="nodeprep-", dir=MEMORY if MEMORY.is_dir() else None) as directory:
        yield Path(directory)
