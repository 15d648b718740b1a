"""A file of lines, each appended whole: half a line, of a killed writer or a full disk, costs only itself."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from nodeprep.doors.files import atomic

TAIL_BYTES = 64 << 10  # bytes from the end in which the last line's beginning is looked for


class LineFile:
    """Lines of JSON in a directory. Several processes may write: each holds flock(2) on the directory meanwhile."""

    def __init__(self, directory: str, name: str, mode: int) -> None:
        self.directory = directory
        self.path = f"{directory}/{name}"
        self._name = name
        self._mode = mode

    def append(self, lines: bytes) -> int:
        """Append whole lines and sync them. Returns the bytes of the file after it.

        Raises OSError; then none of them is there.
        """
        with self._held():
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(self.path, flags, self._mode)
            try:
                whole = _cut_torn(descriptor)
                if _written(descriptor, lines, whole) != len(lines):  # the disk took a part of it
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
                try:
                    os.fsync(descriptor)
                except OSError:
                    os.ftruncate(descriptor, whole)
                    raise
                return whole + len(lines)
            finally:
                os.close(descriptor)

    def cut_torn(self) -> None:
        """Cut off a last line without an end. Raises OSError, also for a missing file."""
        with self._held():
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                _cut_torn(descriptor)
            finally:
                os.close(descriptor)

    def lines(self) -> Iterator[bytes]:
        """The lines without their ends, oldest first, a torn one too. Raises OSError but for a missing file."""
        with suppress(FileNotFoundError):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                for one in file:
                    yield one.rstrip(b"\n")

    def replace(self, lines: Iterable[bytes]) -> int:
        """Have these lines, each with its end, instead of all. Returns their bytes.

        Raises OSError; then nothing changed.
        """
        data = b"".join(lines)
        with self._held():
            atomic.put(self.directory, self._name, data, self._mode)
        return len(data)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Raises OSError that names the file."""
        try:
            os.makedirs(self.directory, 0o755, exist_ok=True)
            directory = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(directory, fcntl.LOCK_EX)
                yield
            finally:
                os.close(directory)
        except OSError as error:
            error.filename = error.filename or self.path  # a descriptor has no name
            raise


def _written(descriptor: int, data: bytes, at: int) -> int:
    """Write at this place. How much the disk took; where that is not all, nothing of it stays."""
    try:
        done = os.pwrite(descriptor, data, at)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, at)
        raise
    if done != len(data):
        os.ftruncate(descriptor, at)
    return done


def _cut_torn(descriptor: int) -> int:
    """Cut off a last line without an end: its writer was killed. The bytes that stay.

    A line that lacks nothing but its end gets that.
    """
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, TAIL_BYTES, max(size - TAIL_BYTES, 0))
    torn = tail.rpartition(b"\n")[2]
    if not torn:
        return size
    if _is_whole(torn):
        return size + os.pwrite(descriptor, b"\n", size)
    os.ftruncate(descriptor, size - len(torn))
    return size - len(torn)


def _is_whole(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
