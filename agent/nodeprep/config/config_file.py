"""Reads a file that an operator wrote, from the disk or as it came on stdin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodeprep.config.document import ConfigError, Document
from nodeprep.doors.files.reader import Files
from nodeprep.model import Unreadable

FILE_LIMIT_BYTES = 1 << 20  # bytes; a profile of 64 ports by name has 20 KB
_HELD: dict[str, bytes] = {}
_RECORDS: list[dict[str, bytes]] = []


def is_there(path: str) -> bool:
    """Whether the path exists. A path that may not be looked at exists too: `load` says why it cannot be read."""
    return path in _HELD or Files().data(str(Path(path).absolute()), 0, head=True) is not None


def hold(path: str, data: bytes) -> None:
    """From now on this process reads these bytes as the file of that path."""
    _HELD[path] = data


@contextmanager
def recorded() -> Iterator[dict[str, bytes]]:
    """The files that are read meanwhile, by path."""
    record: dict[str, bytes] = {}
    _RECORDS.append(record)
    try:
        yield record
    finally:
        _RECORDS.remove(record)


def load(path: str) -> Document:
    """Read a file. Raises ConfigError."""
    data = _HELD[path] if path in _HELD else Files().data(str(Path(path).absolute()), FILE_LIMIT_BYTES)
    if data is None:
        raise ConfigError(f"{path}: no such file")
    if isinstance(data, Unreadable):
        raise ConfigError.at(path, None, "the file", data.detail, f"a file in YAML of at most {FILE_LIMIT_BYTES} bytes")
    for record in _RECORDS:
        record[path] = data
    from nodeprep.config import yaml_document  # noqa: PLC0415 - 8 ms, and most nodes have no file of an operator's

    return yaml_document.read(data, path)
