"""Values to versioned JSON and back: what one nodeprep writes, the same or a newer one reads.

A value names its class (`{"_": "Port", "rate": 400.0, ...}`), tuples are lists, and annotations say what a field may
hold. Unknown fields are kept and written back. Unknown classes and newer formats are errors.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from nodeprep.model import Shown, Unreadable, raw
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value, field_defaults, field_names, replace

TAG = "_"
ONE_OF_A_KIND = ("enum", "items", "row", "table", "any_class")
T = TypeVar("T")
Path = tuple[str | int, ...]
Rest = tuple[tuple[Path, object], ...]  # unknown fields: their place and their JSON


class CodecError(Exception):
    """JSON that is not a value of the wanted kind: where (a JSON path), what was found and what was wanted."""

    def __init__(self, at: Path, found: str, wanted: str) -> None:
        self.at = at
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{_short(part)}" for part in at)
        super().__init__(f"${path}: found {found}, wanted {wanted}")


class NotJsonError(CodecError):
    """No JSON at all. `line` is that of the mistake, None if it is no single place."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__((), "no JSON", "a document that nodeprep wrote")
        self.args = (f"this is no JSON: {why}; wanted a document that nodeprep wrote",)
        self.line = line


class Shape(Value):
    """The values that are allowed in one place, at most one reading for each kind of JSON value.

    `words` describe them to people. `scalars` are types. `items`, `row` and `table` are for lists, tuples and mappings.
    """

    words: str
    scalars: tuple[type, ...] = ()
    enum: type[StrEnum] | None = None
    items: Shape | None = None
    row: tuple[Shape, ...] | None = None
    table: Shape | None = None
    classes: tuple[str, ...] = ()
    any_class: bool = False
    plain: bool = False


class RecordShape(Value):
    """A class, the shapes of its fields, and the fields that have a default."""

    cls: type
    shapes: Mapping[str, Shape]
    optional: frozenset[str]


class Codec:
    """Reads and writes values of `kinds` and of all classes that their annotations name.

    `version` is that of the format. An annotation `object` means any of these classes, `Any` means plain JSON. A union
    that JSON cannot tell apart (`int | float`) raises TypeError here, at the start, and not when a file is read.
    """

    def __init__(self, kinds: Iterable[type], version: int = 1) -> None:
        self.version = version
        self._records: dict[str, RecordShape] = {}
        for kind in (*kinds, Unreadable):
            self._learn(kind)

    def dumps(self, value: object, by: str, rest: Rest = ()) -> str:
        """A document. `by` is the version of nodeprep that writes it. A reader that cannot read it names that."""
        document = {"format": self.version, "nodeprep": by, "content": self.encode(value, rest)}
        return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"

    def loads(self, kind: type[T], text: str) -> tuple[T, Rest]:
        """The value in a document, and its unknown fields. Raises nothing but CodecError for any text."""
        try:
            given = json.loads(text, parse_constant=_not_json, object_pairs_hook=_unique)
        except json.JSONDecodeError as error:
            raise NotJsonError(error.msg, error.lineno) from error
        except (ValueError, RecursionError) as error:
            raise NotJsonError(_short(str(error))) from error
        if not isinstance(given, dict) or not {"format", "nodeprep", "content"} <= given.keys():
            raise CodecError((), _found(given), "an object with format, nodeprep and content")
        written, by = given["format"], given["nodeprep"]
        if type(written) is not int or not isinstance(by, str):
            raise CodecError((), "no version", "a whole number as format and text as nodeprep")
        if written != self.version:
            wanted = f"format {self.version}; nodeprep {_short(by)}, which wrote it, reads it"
            raise CodecError(("format",), _short(str(written)), wanted)
        try:
            return self.decode(kind, given["content"], ("content",))
        except RecursionError as error:
            raise CodecError(("content",), "lists in lists beyond all bounds", kind.__name__) from error

    def encode(self, value: object, rest: Rest = ()) -> object:
        """Plain JSON. Raises TypeError for a value of an unknown class."""
        encoded = self._encode(value)
        for path, kept in rest:
            _put_back(encoded, path, kept)
        return encoded

    def decode(self, kind: type[T], given: object, at: Path = ()) -> tuple[T, Rest]:
        """The value of this kind, and its unknown fields by path from the value. Raises CodecError."""
        rest: list[tuple[Path, object]] = []
        value = self._read(Shape(kind.__name__, classes=(kind.__name__,)), given, at, rest)
        return cast(T, value), tuple((path[len(at) :], kept) for path, kept in rest)

    def _encode(self, value: object) -> object:
        if isinstance(value, bool | int | float | str | None):
            return str(value) if isinstance(value, StrEnum) else value
        if isinstance(value, tuple | list):
            return [self._encode(one) for one in value]
        if isinstance(value, Mapping):
            return {_key(key): self._encode(one) for key, one in value.items()}
        name = type(value).__name__
        record = self._records.get(name)
        if record is None or record.cls is not type(value):
            raise TypeError(f"{value!r} is of no class that this codec knows")
        own = raw(value) if isinstance(value, Shown) else {key: getattr(value, key) for key in record.shapes}
        return {TAG: name} | {key: self._encode(one) for key, one in own.items()}

    def _read(self, shape: Shape, given: object, at: Path, rest: list[tuple[Path, object]]) -> object:
        if shape.plain:
            return _plain(given, at)
        if isinstance(given, list) and shape.items:
            item = shape.items
            return tuple(self._read(item, one, (*at, index), rest) for index, one in enumerate(given))
        if isinstance(given, list) and shape.row and len(given) == len(shape.row):
            pairs = enumerate(zip(shape.row, given, strict=True))
            return tuple(self._read(item, one, (*at, index), rest) for index, (item, one) in pairs)
        if isinstance(given, dict) and shape.table and not (shape.classes and TAG in given):
            return {_own(key): self._read(shape.table, one, (*at, key), rest) for key, one in given.items()}
        if isinstance(given, dict) and (shape.classes or shape.any_class):
            return self._instance(shape, given, at, rest)
        if isinstance(given, str) and shape.enum and given in list(shape.enum):
            return shape.enum(given)
        if type(given) is int and float in shape.scalars:
            return _finite(given, at)
        if type(given) in shape.scalars:
            return _finite(given, at) if isinstance(given, float) else given
        raise CodecError(at, _found(given), shape.words)

    def _instance(self, shape: Shape, given: Mapping[str, object], at: Path, rest: list[tuple[Path, object]]) -> object:
        tag = given.get(TAG)
        if not isinstance(tag, str) or tag not in (self._records if shape.any_class else shape.classes):
            raise CodecError((*at, TAG), _found(tag) if TAG in given else "nothing", shape.words)
        record = self._records[tag]
        values: dict[str, object] = {}
        for name, wanted in record.shapes.items():
            if name in given:
                values[name] = self._read(wanted, given[name], (*at, name), rest)
            elif name not in record.optional:
                raise CodecError((*at, name), "nothing", wanted.words)
        rest += (((*at, name), value) for name, value in given.items() if name not in record.shapes and name != TAG)
        return record.cls(**values)

    def _learn(self, kind: type) -> None:
        """Learn a class and, through its annotations, all classes that it contains."""
        name = kind.__name__
        known = self._records.get(name)
        if known is not None and known.cls is not kind:
            raise TypeError(f"two classes are called {name}: JSON could not tell them apart")
        if known is not None:
            return
        own, optional = _constructor(kind)
        shapes: dict[str, Shape] = {}
        self._records[name] = RecordShape(kind, shapes, optional)  # before its fields: classes may be recursive
        hints = get_type_hints(kind)
        blind = (Unreadable,) if issubclass(kind, Shown) else ()
        shapes |= {key: self._shape(hints[key], blind) for key in own}

    def _shape(self, annotation: Any, others: tuple[type, ...] = ()) -> Shape:
        union = get_origin(annotation) in (Union, types.UnionType)
        parts = (*(get_args(annotation) if union else (annotation,)), *others)
        shapes = [self._part(part) for part in parts]
        kinds = [kind for shape in shapes for kind in _kinds(shape)]
        if len(set(kinds)) < len(kinds):
            raise TypeError(f"JSON could not tell the parts of {annotation} apart")
        merged = shapes[0]
        for shape in shapes[1:]:
            merged = replace(
                merged,
                words=f"{merged.words} or {shape.words}",
                scalars=merged.scalars + shape.scalars,
                classes=merged.classes + shape.classes,
                **{name: getattr(merged, name) or getattr(shape, name) for name in ONE_OF_A_KIND},
            )
        return merged

    def _part(self, part: Any) -> Shape:
        origin, args = get_origin(part), get_args(part)
        if part is Any:
            return Shape("any JSON", plain=True)
        if part is object:
            return Shape("a class that this version knows", any_class=True)
        if part in SCALARS:
            return Shape(SCALARS[part], scalars=(part,))
        if origin is tuple and args[1:] == (Ellipsis,):
            return Shape("a list", items=self._shape(args[0]))
        if origin is tuple:
            return Shape(f"a list of {len(args)}", row=tuple(self._shape(arg) for arg in args))
        if origin is Mapping and args[0] is str:
            return Shape("an object", table=self._shape(args[1]))
        if isinstance(part, type) and issubclass(part, StrEnum):
            return Shape("one of " + ", ".join(part), enum=part)
        if isinstance(part, type) and issubclass(part, Value | Shown):
            self._learn(part)
            return Shape(part.__name__, classes=(part.__name__,))
        raise TypeError(f"no JSON for the annotation {part}")


SCALARS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    type(None): "null",
}


def _kinds(shape: Shape) -> list[str]:
    if shape.plain:
        return ["null", "true or false", "a number", "text", "a list", "an object"]
    if shape.scalars:
        return ["a number" if shape.scalars == (int,) else shape.words]
    if shape.enum:
        return ["text"]
    if shape.items or shape.row:
        return ["a list"]
    return ["an object"] if shape.table or shape.any_class else list(shape.classes)


def _plain(given: object, at: Path) -> object:
    """JSON as it is, with tuples for lists."""
    if isinstance(given, list):
        return tuple(_plain(one, (*at, index)) for index, one in enumerate(given))
    if isinstance(given, dict):
        return {_own(key): _plain(one, (*at, key)) for key, one in given.items()}
    return _finite(given, at) if isinstance(given, float) else given


def _finite(given: float, at: Path) -> float:
    with suppress(OverflowError):
        if math.isfinite(value := float(given)):
            return value
    raise CodecError(at, "a number beyond all bounds", "a number")


def _put_back(encoded: object, path: Path, kept: object) -> None:
    with suppress(KeyError, IndexError, TypeError):  # if its place has gone, it goes too
        place: Any = encoded
        for key in path[:-1]:
            place = place[key]
        if isinstance(place, dict):
            place.setdefault(path[-1], kept)


def _key(key: object) -> str:
    """A mapping's key. A key that looks like the tag of a class gets one more underscore, which `_own` removes."""
    if isinstance(key, str):
        return key + TAG if key and not key.strip(TAG) else key
    raise TypeError(f"the key {key!r} is no text")


def _own(key: str) -> str:
    return key[:-1] if len(key) > 1 and not key.strip(TAG) else key


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _not_json(word: str) -> None:
    raise ValueError(f"found {word}")


def _found(given: object) -> str:
    if isinstance(given, list):
        return f"a list of {len(given)}"
    return "an object" if isinstance(given, dict) else _short(json.dumps(given))


def _short(text: str) -> str:
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _constructor(kind: type) -> tuple[tuple[str, ...], frozenset[str]]:
    """The fields of a class, and those of them that are optional."""
    if issubclass(kind, Shown):
        return tuple(kind.__slots__), frozenset(kind.defaults)
    return field_names(kind), frozenset(field_defaults(kind))
