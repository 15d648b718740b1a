"""When a process last ran, in a file on tmpfs: the next start of the same boot reads it. It costs no disk anything."""

from __future__ import annotations

import os
from contextlib import suppress

NAME = "alive"
MODE = 0o600
LIMIT_BYTES = 32


class AliveMark:
    """The file in a directory that the next boot empties. Times are CLOCK_BOOTTIME in seconds."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/{NAME}"
        self._descriptor: int | None = None

    def read(self) -> float | None:
        """The time that was set last; None if there is none. Raises nothing."""
        with suppress(OSError, ValueError):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                return float(os.pread(descriptor, LIMIT_BYTES, 0).split()[0])
            except IndexError:
                return None
            finally:
                os.close(descriptor)
        return None

    def set(self, at: float) -> None:
        """Say that we run. What cannot be said is not: whoever reads it then knows less. Raises nothing."""
        with suppress(OSError):
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
                self._descriptor = os.open(self._path, flags, MODE)
            os.pwrite(self._descriptor, b"%-*.2f\n" % (LIMIT_BYTES - 1, at), 0)
