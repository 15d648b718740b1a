"""Plain values of YAML to typed values: the only reader of profiles, the configuration and the numbers of checks.

A plain value is what a YAML or JSON document holds: null, true or false, a number, text, a list, or a mapping with text
as keys. A `ValueKind` reads it as one kind. A value of another kind raises `InvalidValueError`. Its message is one
line: the key, what was found and what was wanted there.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from nodeprep.values import Value, field_names, replace

Keys = tuple[str | int, ...]  # the path to a value: names of keys, and places in lists from 0

TEXT_LIMIT = 60  # characters of a text that a message shows
KEY_LIMIT = 120  # characters of a key that a message shows
INTEGER_LIMIT_BITS = 256  # of a number that a message shows: Python refuses to write 4301 digits
INTEGER_MAX = (1 << 63) - 1  # the largest signed integer of the kernel
FLOAT_LIMIT = 1.7976931348623157e308  # the largest float (IEEE 754); a larger integer cannot become one
NAMES_LISTED = 8  # names that a message lists if none is similar; the ids of all checks would be a page

T = TypeVar("T")
K = TypeVar("K")
Reader = Callable[[object, Keys], T]


class InvalidValueError(Exception):
    """An invalid value: its place, what was found and what is wanted there."""

    def __init__(self, keys: Keys, found: object, wanted: str) -> None:
        self.keys = keys
        self.found = found
        self.wanted = wanted
        super().__init__(f"{printable(dotted(keys))}: found {words(found)}, wanted {wanted}")


class ValueKind(Value, Generic[T]):
    """The values that are allowed at a key.

    `says` completes "wanted ...". `read` gives the typed value, or raises InvalidValueError. `unit` is that of a
    number. If a `required` key is missing, null is read. An empty key (null) of a mapping is not stated, unless the
    kind is `required` or `reads_null`.
    """

    says: str
    read: Reader[T]
    unit: str = ""
    required: bool = False
    reads_null: bool = False

    def described(self, says: str, unit: str = "") -> ValueKind[T]:
        """The same kind with other words, for a document that lists the allowed values of a key."""
        return replace(self, says=says, unit=unit or self.unit)


Table = Mapping[str, tuple[str, ValueKind[Any]]]  # by key: the field that it fills ("": none), and the allowed values


# --- words for people ---


def dotted(keys: Keys) -> str:
    """A key for people: `expect.ports.0000:5c:00.0/1.rate`, `gates[2]`."""
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return path.removeprefix(".") or "the file"


def words(found: object) -> str:
    """What was found, in words for a reader of YAML."""
    if found is None:
        return "nothing"
    if isinstance(found, Mapping):
        return "keys with values"
    if isinstance(found, list | tuple):
        return "a list"
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, int) and found.bit_length() > INTEGER_LIMIT_BITS:
        return "a number without end"
    if isinstance(found, str) and len(found) > TEXT_LIMIT:
        return repr(f"{found[: TEXT_LIMIT - 3]}...")
    return repr(found)


def printable(text: str) -> str:
    """One line without control characters for a key of any length and content."""
    return text if text.isprintable() and len(text) <= KEY_LIMIT else f"{repr(text[:KEY_LIMIT])[1:-1]}..."


def nearest(found: str, names: Iterable[str], what: str) -> str:
    """What was wanted: with a similar known name if there is one, else with all names if they are few."""
    known = list(names)
    near = _near(found, known)
    if near:
        return f"{what} such as {near!r}" if len(known) > NAMES_LISTED else repr(near)
    return what if len(known) > NAMES_LISTED else f"{what} {', '.join(known)}"


def similar(found: str, names: Iterable[str]) -> str:
    """The most similar names as `nearest: A, B`, "" if none is."""
    from difflib import get_close_matches  # noqa: PLC0415 - 6 ms that only an error costs

    close = get_close_matches(found, list(names), n=3, cutoff=0.5)
    return f"nearest: {', '.join(close)}" if close else ""


def _near(found: str, names: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - 6 ms that only an error costs

    return next(iter(get_close_matches(found, names, n=1)), None)


# --- single values ---


def fitting(
    says: str, fits: Callable[[Any], bool], made: Callable[[Any], Any] = lambda value: value, unit: str = ""
) -> ValueKind[Any]:
    """The values that `fits` accepts, converted by `made`. Neither may raise anything for a plain value."""

    def read(value: object, here: Keys) -> Any:
        if not fits(value):
            raise InvalidValueError(here, value, says)
        return made(value)

    return ValueKind(says, read, unit)


def whole_number(least: int | None = None, most: int | None = None, unit: str = "") -> ValueKind[int]:
    """A number without a decimal point. None: no bound on that side."""
    says = f"a whole number{f' of {unit}' if unit else ''}{_bounds(least, most)}"
    return fitting(says, lambda value: type(value) is int and _within(value, least, most), unit=unit)


def number(least: float | None = None, most: float | None = None) -> ValueKind[float]:
    """A number with or without a decimal point, as a float. None: no bound on that side."""
    return fitting(f"a number{_bounds(least, most)}", lambda value: _is_number(value, least, most), float)


def seconds(least: float, most: float) -> ValueKind[float]:
    """A time as a plain number, because the numbers of single checks are plain too."""
    says = f"a plain number of seconds{_bounds(least, most)}"
    return fitting(says, lambda value: _is_number(value, least, most), float, "seconds")


def one_of(*allowed: str) -> ValueKind[str]:
    return fitting(f"one of {', '.join(allowed)}", lambda value: isinstance(value, str) and value in allowed)


def only(text: str) -> ValueKind[str]:
    """Only that text, which is required."""
    return ValueKind(text, fitting(text, lambda value: value == text).read, required=True)


def _is_number(value: object, least: float | None, most: float | None) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return -FLOAT_LIMIT <= value <= FLOAT_LIMIT and _within(value, least, most)  # neither infinite nor NaN


def _within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or least <= value) and (most is None or value <= most)


def _bounds(least: float | None, most: float | None) -> str:
    if least is None:
        return "" if most is None else f", at most {_bound(most)}"
    return f", at least {_bound(least)}" if most is None else f", {_bound(least)} to {_bound(most)}"


def _bound(value: float) -> str:
    return "2^63-1" if value == INTEGER_MAX else f"{value:.12g}"


def _prose(value: object, here: Keys) -> str:
    return TEXT.read(" ".join(value.split()) if isinstance(value, str) else value, here)


def _mapping(value: object, here: Keys) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidValueError(here, value, "keys with values")
    for key in value:
        if not isinstance(key, str):
            raise InvalidValueError(here, value, "text as keys")
    return value


ANYTHING: ValueKind[Any] = ValueKind("anything", lambda value, _: value)
TRUTH: ValueKind[bool] = fitting("true or false", lambda value: isinstance(value, bool))
TEXT: ValueKind[str] = fitting(
    "a word (quote it if it looks like a number)", lambda value: isinstance(value, str) and value.isprintable()
)
PROSE: ValueKind[str] = ValueKind("text", _prose)  # over several lines, as one
MAPPING: ValueKind[Mapping[str, Any]] = ValueKind("keys with values", _mapping)


# --- what may be missing, and what holds others ---


def not_empty(kind: ValueKind[T], says: str, *, required: bool = True) -> ValueKind[T]:
    """Neither null nor an empty text, list or mapping: `says` was wanted. If not `required`, it may be missing."""

    def read(value: object, here: Keys) -> T:
        if value is None or (isinstance(value, str | list | tuple | Mapping) and not value):
            raise InvalidValueError(here, value, says)
        return kind.read(value, here)

    return ValueKind(kind.says, read, kind.unit, required=required, reads_null=True)


def optional(kind: ValueKind[T]) -> ValueKind[T | None]:
    """Null, or that kind."""

    def read(value: object, here: Keys) -> T | None:
        return None if value is None else kind.read(value, here)

    return ValueKind(kind.says, read, kind.unit, reads_null=True)


def list_of(kind: ValueKind[T], plural: str = "") -> ValueKind[tuple[T, ...]]:
    """A list whose items are all of that kind. `plural` names such items. A single word stands for a list of it.

    Of a word that is no such item the same is said as in a list of one.
    """
    says = f"a list of {plural}" if plural else "a list"

    def read(value: object, here: Keys) -> tuple[T, ...]:
        items = (value,) if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise InvalidValueError(here, value, says)
        return tuple(kind.read(one, (*here, index)) for index, one in enumerate(items))

    return ValueKind(says, read)


def mapping_of(kind: ValueKind[T], key: ValueKind[Any] = ANYTHING) -> ValueKind[dict[Any, T]]:
    """A mapping whose keys `key` reads and whose values are all of that kind."""

    def read(value: object, here: Keys) -> dict[Any, T]:
        given = MAPPING.read(value, here)
        return {key.read(name, (*here, name)): kind.read(one, (*here, name)) for name, one in given.items()}

    return ValueKind(MAPPING.says, read)


def only_known(given: Mapping[str, Any], here: Keys, names: Iterable[str]) -> None:
    """Raise InvalidValueError for a key that is not in `names`, with a similar name."""
    known = tuple(names)
    for key in given:
        if key not in known:
            near = _near(key, known)
            raise InvalidValueError((*here, key), key, repr(near) if near else f"one of {', '.join(known)}")


def fields_of(table: Table) -> ValueKind[dict[str, Any]]:
    """The stated values, by field, of a mapping with the keys of a table. An empty key is not stated."""

    def read(value: object, here: Keys) -> dict[str, Any]:
        given = MAPPING.read(value, here)
        only_known(given, here, table)
        stated = {}
        for key, (field, kind) in table.items():
            if kind.required or (key in given and (kind.reads_null or given[key] is not None)):
                stated[field] = kind.read(given.get(key), (*here, key))
        stated.pop("", None)
        return stated

    return ValueKind(MAPPING.says, read)


def record(make: Callable[..., T], table: Table) -> ValueKind[T]:
    """`make` called with the fields that a mapping states. The other fields keep their defaults."""
    stated = fields_of(table)
    return ValueKind(MAPPING.says, lambda value, here: make(**stated.read(value, here)))


# --- by the types of a Value ---


def value_of(make: type[T]) -> ValueKind[T]:
    """A Value by its annotations. The key of `some_field` is `some-field`. An empty key is refused.

    The class may compare its fields with each other: its ValueError says what is wanted. Raises TypeError for a field
    that cannot be written in YAML.
    """
    hints = get_type_hints(make)
    table: Table = {name.replace("_", "-"): (name, of_type(hints[name])) for name in field_names(make)}

    def read(value: object, here: Keys) -> T:
        given = MAPPING.read(value, here)
        only_known(given, here, table)
        stated = {table[key][0]: table[key][1].read(one, (*here, key)) for key, one in given.items()}
        try:
            return make(**stated)
        except ValueError as error:
            raise InvalidValueError(here, value, str(error)) from error

    return ValueKind(MAPPING.says, read)


def of_type(annotation: Any) -> ValueKind[Any]:
    """The kind that reads a value of this type. Raises TypeError for a type that cannot be written in YAML."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation in SCALARS:
        return SCALARS[annotation]
    if origin in (Union, types.UnionType) and len(args) == 2 and args[1] is types.NoneType:
        return optional(of_type(args[0]))
    if origin is Literal and all(isinstance(one, str) for one in args):
        return one_of(*args)
    if origin is tuple and args[1:] == (Ellipsis,):
        return list_of(of_type(args[0]), PLURALS.get(args[0], ""))
    if origin is Mapping and args[0] in KEY_KINDS:
        return mapping_of(of_type(args[1]), KEY_KINDS[args[0]])
    raise TypeError(f"no operator can write {annotation} in YAML")


# Numbers of checks are counts, sizes, rates and times: none of them can be less than nothing.
SCALARS: Mapping[Any, ValueKind[Any]] = {int: whole_number(0), float: number(0), bool: TRUTH, str: TEXT}
PLURALS: Mapping[Any, str] = {int: "whole numbers", float: "numbers", str: "words"}
# Keys of YAML arrive as text.
KEY_KINDS: Mapping[Any, ValueKind[Any]] = {
    str: TEXT,
    int: fitting(whole_number(0).says, lambda key: key.isascii() and key.isdecimal() and len(key) < 20, int),
}
