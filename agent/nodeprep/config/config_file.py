"""Reads a file that an operator wrote."""

from __future__ import annotations

from pathlib import Path

from nodeprep.config.document import ConfigError, Document
from nodeprep.doors.files.reader import Files
from nodeprep.model import Unreadable

FILE_LIMIT_BYTES = 1 << 20  # bytes; a profile of 64 ports by name has 20 KB


def is_there(path: str) -> bool:
    """Whether the path exists. A path that may not be looked at exists too: `load` says why it cannot be read."""
    return Files().data(str(Path(path).absolute()), 0, head=True) is not None


def load(path: str) -> Document:
    """Read a file. Raises ConfigError."""
    data = Files().data(str(Path(path).absolute()), FILE_LIMIT_BYTES)
    if data is None:
        raise ConfigError(f"{path}: no such file")
    if isinstance(data, Unreadable):
        raise ConfigError.at(path, None, "the file", data.detail, f"a file in YAML of at most {FILE_LIMIT_BYTES} bytes")
    from nodeprep.config import yaml_document  # noqa: PLC0415 - 8 ms, and most nodes have no file of an operator's

    return yaml_document.read(data, path)
