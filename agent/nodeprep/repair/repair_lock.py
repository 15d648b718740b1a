"""One repair at a time on a node: by hand, by a drill or by the agent's remediator.

The lock is flock(2) on a file. It ends with the processes that hold it, however they end: with this one and, while a
play runs, with its supervisor.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

NAME = "lock"
MODE = 0o600
WORDS_BYTES = 200  # who holds it, for people


class RepairUnderWay(Exception):
    """Somebody else repairs this node. Its text is one line that names who."""


class RepairLock:
    """The lock in a directory, which is made. `who` is told to whoever finds it held: "nodeprep repair".

    `shows_pid`: our number follows. That of a process in a container tells nobody on the host anything.

    Entering raises RepairUnderWay, or OSError where the directory cannot be written.
    """

    def __init__(self, directory: str, who: str, *, shows_pid: bool = True) -> None:
        self._path = Path(directory) / NAME
        self._who = f"{who} (pid {os.getpid()})" if shows_pid else who
        self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """Of the lock that is held, for a process that shall hold it too."""
        return self._descriptor

    def __enter__(self) -> Self:
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._tell(descriptor, self._who)
        except BlockingIOError:
            holder = os.pread(descriptor, WORDS_BYTES, 0).decode(errors="replace").strip() or "another process"
            os.close(descriptor)
            raise RepairUnderWay(f"{holder} repairs this node ({self._path}): wait until it has ended") from None
        except OSError:  # a full disk: nobody would ever close it
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def leave(self, processes: Sequence[str]) -> None:
        """Who finds it held from now on hears that these processes hold it, which sleep in the kernel."""
        names = ", ".join(processes)
        with suppress(OSError):  # a full disk: they hear of us
            self._tell(self._descriptor, f"{names}, which sleeps in the kernel and was left by {self._who},")

    def _tell(self, descriptor: int, words: str) -> None:
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, words.encode()[:WORDS_BYTES], 0)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)  # the lock goes with it
