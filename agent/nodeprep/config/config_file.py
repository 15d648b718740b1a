"""A file that an operator wrote: its values, the line of each, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nodeprep import typed_yaml
from nodeprep.doors.files.reader import Files
from nodeprep.model import Unreadable
from nodeprep.typed_yaml import InvalidValueError, Keys
from nodeprep.values import Value, field

FILE_LIMIT_BYTES = 1 << 20  # bytes; a profile of 64 ports by name has 20 KB


class ConfigError(Exception):
    """What an operator wrote cannot be meant: `FILE:LINE: KEY: found X, wanted Y`."""

    def __init__(self, source: str, line: int | None, key: str, found: str, wanted: str) -> None:
        place = f"{source}:{line}" if line else source
        super().__init__(f"{place}: {typed_yaml.printable(key)}: found {found}, wanted {wanted}")


class Document(Value):
    """A file's content as mappings, tuples and scalars; `lines` has the line of every key and list item."""

    source: str
    value: object
    lines: Mapping[Keys, int] = field(default_factory=dict)

    def error(self, keys: Keys, found: object, wanted: str) -> ConfigError:
        """An error at a key; for one that is missing, at what it is missing from."""
        near = next((keys[:end] for end in range(len(keys), -1, -1) if keys[:end] in self.lines), ())
        line, key = self.lines.get(near, 1), typed_yaml.dotted(keys)
        return ConfigError(self.source, line, key, typed_yaml.words(found), wanted)

    def located(self, error: InvalidValueError) -> ConfigError:
        return self.error(error.keys, error.found, error.wanted)


def is_there(path: str) -> bool:
    """Whether there is anything by that name; what may not be looked at is there, and `load` says so."""
    return Files().data(str(Path(path).absolute()), 0, head=True) is not None


def load(path: str) -> Document:
    """Read a file. Raises ConfigError."""
    data = Files().data(str(Path(path).absolute()), FILE_LIMIT_BYTES)
    if data is None:
        raise ConfigError(path, None, "the file", "none there", "a file in YAML")
    if isinstance(data, Unreadable):
        raise ConfigError(path, None, "the file", data.detail, f"a file in YAML of at most {FILE_LIMIT_BYTES} bytes")
    from nodeprep.config import yaml_document  # noqa: PLC0415 - 8 ms, and most nodes have no file of an operator's

    return yaml_document.read(data, path)
