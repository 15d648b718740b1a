"""What an agent keeps lies in memory: a disk that is busy is waited for, and then said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where this machine has such a place."""
    with TemporaryDirectory(prefix="nodeprep-", dir=MEMORY if MEMORY.is_dir() else None) as directory:
        yield Path(directory)
