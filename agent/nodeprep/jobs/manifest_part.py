"""A part of a manifest with its place in the file: each field is read as the kind that Kubernetes wants there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeprep.typed_yaml import InvalidValueError, Keys
from nodeprep.values import Value, field

COUNT_LIMIT = 1 << 31  # replicas are an int32


class ManifestPart(Value):
    """A mapping of a manifest and its place. A missing field is empty; one of another kind raises InvalidValueError."""

    value: Mapping[str, Any] = field(default_factory=dict)
    keys: Keys = ()

    @classmethod
    def of(cls, value: object, keys: Keys = ()) -> ManifestPart:
        """Raises InvalidValueError for anything but a mapping."""
        if not isinstance(value, Mapping):
            raise InvalidValueError(keys, value, "keys with values")
        return cls(value, keys)

    def __contains__(self, name: str) -> bool:
        return self.value.get(name) is not None

    def part(self, *names: str) -> ManifestPart:
        """The mapping below these names; an empty one where there is none."""
        found = self
        for name in names:
            inside = found.value.get(name)
            found = ManifestPart.of({} if inside is None else inside, (*found.keys, name))
        return found

    def parts(self, name: str) -> tuple[ManifestPart, ...]:
        """The mappings of a list."""
        return tuple(
            ManifestPart.of(one, (*self.keys, name, index)) for index, one in enumerate(self._list(name, "a list"))
        )

    def named(self, name: str) -> tuple[tuple[str, ManifestPart], ...]:
        """The mappings of a mapping, by their names."""
        inside = self.part(name)
        return tuple((key, inside.part(key)) for key in inside.value)

    def text(self, name: str, default: str = "") -> str:
        return str(self._read(name, str, default, "text (quote it if it looks like a number)"))

    def truth(self, name: str) -> bool:
        return bool(self._read(name, bool, False, "true or false"))

    def count(self, name: str, default: int) -> int:
        """A number of things, from nothing up."""
        found = self.value.get(name)
        if found is None:
            return default
        if type(found) is not int or not 0 <= found < COUNT_LIMIT:
            raise InvalidValueError((*self.keys, name), found, "a whole number, at least 0")
        return found

    def texts(self, name: str) -> dict[str, str]:
        """Such as labels."""
        inside = self.part(name)
        return {key: inside.text(key) for key in inside.value}

    def words(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        found = self._list(name, "a list of words")
        for index, one in enumerate(found):
            if not isinstance(one, str):
                raise InvalidValueError((*self.keys, name, index), one, "text (quote it if it looks like a number)")
        return tuple(found)

    def _read(self, name: str, kind: type[Any], default: object, wanted: str) -> object:
        found = self.value.get(name)
        if found is None:
            return default
        if not isinstance(found, kind):
            raise InvalidValueError((*self.keys, name), found, wanted)
        return found

    def _list(self, name: str, wanted: str) -> tuple[Any, ...]:
        found = self.value.get(name)
        if found is None:
            return ()
        if not isinstance(found, list | tuple):
            raise InvalidValueError((*self.keys, name), found, wanted)
        return tuple(found)
