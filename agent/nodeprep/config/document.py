"""What a file says, with the line of each value, and the error that names file, line and key."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep import typed_yaml
from nodeprep.typed_yaml import InvalidValueError, Keys
from nodeprep.values import Value, field


class ConfigError(Exception):
    """An operator wrote something invalid: `FILE:LINE: KEY: found X, wanted Y`."""

    def __init__(self, source: str, line: int | None, key: str, found: str, wanted: str) -> None:
        place = f"{source}:{line}" if line else source
        super().__init__(f"{place}: {typed_yaml.printable(key)}: found {found}, wanted {wanted}")


class Document(Value):
    """A file's content as mappings, tuples and scalars; `lines` has the line of every key and list item."""

    source: str
    value: object
    lines: Mapping[Keys, int] = field(default_factory=dict)

    def error(self, keys: Keys, found: object, wanted: str) -> ConfigError:
        """An error at a key; if the key is missing, at the mapping that lacks it."""
        near = next((keys[:end] for end in range(len(keys), -1, -1) if keys[:end] in self.lines), ())
        line, key = self.lines.get(near, 1), typed_yaml.dotted(keys)
        return ConfigError(self.source, line, key, typed_yaml.words(found), wanted)

    def located(self, error: InvalidValueError) -> ConfigError:
        return self.error(error.keys, error.found, error.wanted)
