"""The base of all values: `class Port(Value): ...` is immutable, has slots, and is compared and hashed by its fields.

A Value is a `msgspec.Struct`. It does what a dataclass does, and no code is generated and compiled at each start
(docs/adr/0029).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nodeprep.newer_python import dataclass_transform

__all__ = ["Struct", "Value", "asdict", "field", "field_defaults", "field_names", "redacted", "replace"]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True):
    """A value that never changes. What changes over time is a `Struct`."""


def field_names(kind: type[Any] | Struct) -> tuple[str, ...]:
    """The fields of a class or of a value of it, in their order."""
    names: tuple[str, ...] = kind.__struct_fields__
    return names


def field_defaults(kind: type[Any]) -> Mapping[str, Any]:
    """The optional fields, each with its default."""
    defaults = kind.__struct_defaults__
    optional = field_names(kind)[-len(defaults) :] if defaults else ()
    made = (one.factory() if hasattr(one, "factory") else one for one in defaults)
    return dict(zip(optional, made, strict=True))


def asdict(value: Struct) -> dict[str, Any]:
    """A value, and the values in it, as mappings by the names of their fields."""
    return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}


def redacted(value: Struct, *secret: str) -> str:
    """The repr of a value without its secret fields, for a traceback or a log."""
    told = (f"{name}={getattr(value, name)!r}" for name in value.__struct_fields__ if name not in secret)
    return f"{type(value).__name__}({', '.join(told)})"


def _plain(value: object) -> Any:
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, tuple | list):
        return type(value)(_plain(one) for one in value)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return value
