"""Which programs the host has."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

# Where a host keeps its programs, whatever PATH we were started with: sudo and cron give short ones.
DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
PATH = ":".join(DIRECTORIES)


def found(names: Iterable[str], root: str = "") -> frozenset[str]:
    """The programs among `names` that the host with this root has in one of the usual directories."""
    return frozenset(name for name in names if any(_is_program(f"{root}{place}/{name}") for place in DIRECTORIES))


def _is_program(path: str) -> bool:
    return Path(path).is_file() and os.access(path, os.X_OK)
