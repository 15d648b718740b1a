"""Writes whole files or none: a file is written and synced under another name, then renamed."""

from __future__ import annotations

import os
from contextlib import suppress


def fresh(name: str) -> str:
    """The name of a file while it is written. A killed writer leaves at most this one."""
    return f".{name}.new"


def put(directory: str, name: str, data: bytes, mode: int) -> None:
    """Make `data` the content of `name` in a directory. The directory is made if it does not exist.

    If we or the machine are killed at any moment, either the former or the new file is there afterwards. After an
    OSError the former file is there. Only if the last sync of the directory failed, it is the new one.
    """
    os.makedirs(directory, 0o755, exist_ok=True)
    # One descriptor for all steps: they happen in one directory, even if its path changes.
    there = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _remove(fresh(name), there)
        try:
            _write(fresh(name), data, mode, there)
            os.rename(fresh(name), name, src_dir_fd=there, dst_dir_fd=there)
        except OSError:
            with suppress(OSError):  # a full disk needs the space; the first error is the one to report
                _remove(fresh(name), there)
            raise
        os.fsync(there)
    finally:
        os.close(there)


def _write(name: str, data: bytes, mode: int, there: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, mode, dir_fd=there)
    try:
        os.fchmod(descriptor, mode)  # a umask must not hide a gate file from pods that wait for it
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(name: str, there: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=there)
