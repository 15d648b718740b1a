"""A directory for what an agent keeps while it is tested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

MEMORY = Path("/dev/shm")


@contextmanager
def in_memory() -> Iterator[Path]:
    """It lies in memory where this machine has such a place: a disk that is busy is waited for, and then said.

    Its path is short: one of a Unix socket has 107 bytes at most (unix(7)).
    """
    with TemporaryDirectory(prefix="nodeprep-", dir=MEMORY if MEMORY.is_dir() else None) as directory:
        yield Path(directory)
