"""A unix socket that listens, for root alone."""

from __future__ import annotations

import socket
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
        listener.bind(str(new))
        new.chmod(MODE)
        listener.listen(backlog)
        new.rename(path)
    except OSError:
        listener.close()
        raise
    return listener
