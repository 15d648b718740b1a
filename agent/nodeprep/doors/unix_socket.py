"""Unix sockets by their path: one that listens, for root alone, and the way to it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODE = 0o600


def listening(path: Path, backlog: int) -> socket.socket:
    """A listener at `path`, with mode 0600. It replaces the socket of a process that was killed.

    The file gets its name only when the socket listens, so whoever finds it finds a listener. Raises OSError.
    """
    new = path.with_name(f"{path.name}.new")
    listener = socket.socket(socket.AF_UNIX)
    try:
        new.unlink(missing_ok=True)
        with _directory(path) as here:
            listener.bind(f"{here}/{new.name}")
        new.chmod(MODE)
        listener.listen(backlog)
        new.rename(path)
    except OSError:
        listener.close()
        raise
    return listener


def connect(peer: socket.socket, path: Path) -> None:
    """Connect to the listener at `path`, however long that is. Raises OSError."""
    with _directory(path) as here:
        peer.connect(f"{here}/{path.name}")


@contextmanager
def _directory(path: Path) -> Iterator[str]:
    """A short name of the directory: an address has 107 bytes (unix(7))."""
    descriptor = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
