"""Things that rigs build once and keep in the user's cache, each under the hash of its inputs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.rigs.progress import EVERY, clock, say

PATIENCE = 2.0  # seconds; a look whether the thing is there holds the lock for less
KEPT = 2  # of those last used: a rig of another checkout may use one


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """The cache's directory, locked by this name. Others that want the same thing wait, and then find it built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodeprep"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        take(lock)
        yield cache


def take(lock: IO[str], *, patience: float = PATIENCE, every: float = EVERY) -> None:
    """Waits for the lock. Says so after `patience` seconds, and then each `every` seconds."""
    begun = time.monotonic()
    due = patience
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - begun
        if waited >= due:
            say(f"rig: {clock(waited)} waiting for another process that makes the same; it holds {lock.name}")
            due = waited + every
        time.sleep(0.1)


def built(cache: Path, name: str, made_from: bytes, build: Callable[[Path], None]) -> Path:
    """The file or directory for these inputs; `build` makes it, under another name until it is whole.

    The caller holds the cache's lock of that name. Those of other inputs are removed, except the KEPT last used.
    """
    wanted = cache / f"{name}-{hashlib.sha256(made_from).hexdigest()[:12]}"
    if not wanted.exists():
        partial = wanted.with_name(f"{wanted.name}.partial")
        remove(partial)
        build(partial)
        partial.rename(wanted)
    os.utime(wanted)
    for old in sorted(cache.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        remove(old)
    return wanted


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
