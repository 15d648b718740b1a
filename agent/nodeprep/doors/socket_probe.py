"""Tests whether somebody listens on a socket of this machine. It connects, sends nothing and closes at once."""

from __future__ import annotations

import errno
import os
import socket


def connect(address: tuple[str, int] | str, deadline: float) -> int | None:
    """Connect to a Unix socket by its path, or over TCP to an IP address and port.

    None where somebody took the connection within `deadline` seconds, else the errno: ENOENT where there is no such
    path, ECONNREFUSED where nobody listens (a file that is no socket says the same), EAGAIN where the listener's queue
    is full, ETIMEDOUT where nothing answered.
    """
    try:
        if isinstance(address, str):
            _unix(address, deadline)
        else:
            socket.create_connection(address, deadline).close()
    except TimeoutError:
        return errno.ETIMEDOUT
    except OSError as error:
        return error.errno or errno.EIO
    return None


def _unix(path: str, deadline: float) -> None:
    """Connect through its directory: an address has 107 bytes at most (unix(7)), and a mounted root makes it long."""
    head, _, name = path.rpartition("/")
    directory = os.open(head or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(deadline)
            one.connect(f"/proc/self/fd/{directory}/{name}")
    finally:
        os.close(directory)
