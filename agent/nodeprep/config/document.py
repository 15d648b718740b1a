"""What a file says, with the line of each value, and the error that names file, line and key."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep import typed_yaml
from nodeprep.typed_yaml import InvalidValueError, Keys
from nodeprep.values import Value, field


class ConfigError(Exception):
    """An operator wrote something invalid, or named a file that cannot be read. Its text is one line."""

    @classmethod
    def at(cls, source: str, line: int | None, key: str, found: str, wanted: str) -> ConfigError:
        """`FILE:LINE: KEY: found X, wanted Y`."""
        place = f"{source}:{line}" if line else source
        return cls(f"{place}: {typed_yaml.printable(key)}: found {found}, wanted {wanted}")


class Document(Value):
    """A file's content as mappings, tuples and scalars; `lines` has the line of every key and list item."""

    source: str
    value: object
    lines: Mapping[Keys, int] = field(default_factory=dict)

    def error(self, keys: Keys, found: object, wanted: str) -> ConfigError:
        """An error at a key; if the key is missing, at the mapping that lacks it."""
        near = next((keys[:end] for end in range(len(keys), -1, -1) if keys[:end] in self.lines), ())
        line, key = self.lines.get(near, 1), typed_yaml.dotted(keys)
        return ConfigError.at(self.source, line, key, typed_yaml.words(found), wanted)

    def require_kind(self, kind: str) -> None:
        """Raise ConfigError for a document of another kind, before its keys are said to be unknown."""
        found = self.value.get("kind", kind) if isinstance(self.value, Mapping) else kind
        if found != kind:
            raise self.error(("kind",), found, kind)

    def located(self, error: InvalidValueError) -> ConfigError:
        return self.error(error.keys, error.found, error.wanted)
