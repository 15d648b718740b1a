"""YAML text to plain values with the line of every key, and back: the only module that knows YAML.

Words are read as in YAML 1.2: `no` and `0000:50:00.0` are text. YAML 1.1 reads them as false and as a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import yaml

from nodeprep import typed_yaml
from nodeprep.config.document import ConfigError, Document
from nodeprep.pattern import Pattern
from nodeprep.typed_yaml import Keys

T = TypeVar("T")

DEPTH = 16  # nesting; a profile needs 5
VALUES_LIMIT = 50_000  # values, with aliases expanded: a small file can expand to exponentially many
STREAM_DEPTH = 32  # nesting of a manifest: a value of an affinity's list in a JobSet in a List has 18
STREAM_VALUES_LIMIT = 100_000  # values of all documents of a manifest, with aliases expanded
MERGE_KEY = "<<"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, where PyYAML was built with it
STANDARD_TAG_PREFIX = "tag:yaml.org,2002:"
INTEGER = Pattern(r"[-+]?(?:0|[1-9][0-9]{0,18})")
FLOAT = Pattern(r"[-+]?(?:0|[1-9][0-9]{0,18})?\.[0-9]{1,18}(?:[eE][-+]?[0-9]{1,2})?")
WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
WORDS |= dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(("false", "False", "FALSE"), False)


def read(data: bytes, source: str) -> Document:
    """Read a mapping in YAML. Raises ConfigError for any bytes that are not one."""
    document = read_any(data, source)
    if not isinstance(document.value, Mapping):
        raise document.error((), document.value, "keys with values")
    return document


def read_any(data: bytes, source: str) -> Document:
    """Read one document of YAML. Raises ConfigError for any bytes that are not valid."""
    return _composed(data, source, lambda events: _Composer(source, events).document())


def read_stream(data: bytes, source: str) -> tuple[Document, ...]:
    """Read all documents of a manifest of Kubernetes, in which << merges mappings, as kubectl reads it.

    Raises ConfigError for any bytes that are not valid.
    """

    def documents(events: Iterator[Any]) -> tuple[Document, ...]:
        return tuple(_Composer(source, events, STREAM_DEPTH, STREAM_VALUES_LIMIT, merges=True).documents())

    return _composed(data, source, documents)


def _composed(data: bytes, source: str, compose: Callable[[Iterator[Any]], T]) -> T:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x}"
        raise ConfigError.at(source, _line(data[: error.start]), "the file", found, "UTF-8") from error
    try:
        return compose(yaml.parse(text, Loader=LOADER))
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{source}:{_line_of(error.problem_mark)}: this is no YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = _line(text.encode()[: error.position])
        raise ConfigError.at(
            source, line, "the file", f"character {error.character:#04x}", "YAML, which is text"
        ) from error


class _Composer:
    """Builds values from the parser's events one by one.

    PyYAML's own composer recurses in C: a file of nested brackets crashes the process (PyYAML 6.0.3).
    """

    def __init__(
        self,
        source: str,
        events: Iterator[Any],
        depth: int = DEPTH,
        values: int = VALUES_LIMIT,
        *,
        merges: bool = False,
    ) -> None:
        self.source = source
        self.events = events
        self.depth = depth
        self.limit = values
        self.merges = merges
        self.lines: dict[Keys, int] = {}
        self.anchors: dict[str, tuple[object, int]] = {}
        self.count = 0

    def document(self) -> Document:
        value: object = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.lines.setdefault((), _line_of(event.start_mark))
                if value is not None:
                    raise self.error(event, (), "a second document", "one document")
            elif not isinstance(event, yaml.StreamStartEvent | yaml.StreamEndEvent | yaml.DocumentEndEvent):
                value = self.value(event, ())
        return Document(self.source, value, self.lines)

    def documents(self) -> Iterator[Document]:
        """Each document of the stream. The limit of values is that of all of them."""
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.lines, self.anchors = {(): _line_of(event.start_mark)}, {}
                value = self.value(next(self.events), ())
                yield Document(self.source, value, self.lines)

    def error(self, event: Any, keys: Keys, found: str, wanted: str) -> ConfigError:
        return ConfigError.at(self.source, _line_of(event.start_mark), typed_yaml.dotted(keys), found, wanted)

    def value(self, event: Any, keys: Keys) -> object:
        self.lines.setdefault(keys, _line_of(event.start_mark))
        if len(keys) > self.depth:
            raise self.error(event, keys[:3], "values in values without end", f"at most {self.depth} in one another")
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, keys)
        before, self.count = self.count, self.count + 1
        if self.count > self.limit:
            raise self.error(event, keys, f"more than {self.limit} values", "fewer")
        if isinstance(event, yaml.ScalarEvent):
            value = self.scalar(event, keys)
        elif event.tag not in (None, "!", f"{STANDARD_TAG_PREFIX}map", f"{STANDARD_TAG_PREFIX}seq"):
            raise self.error(event, keys, f"the tag {typed_yaml.words(event.tag)}", "plain YAML")
        elif isinstance(event, yaml.SequenceStartEvent):
            value = tuple(self.items(keys))
        else:
            value = self.pairs(keys)
        if event.anchor:
            self.anchors[event.anchor] = (value, self.count - before)
        return value

    def alias(self, event: Any, keys: Keys) -> object:
        """The value of the anchor. An alias inside its own anchor is an error, because the value is not known yet."""
        if event.anchor not in self.anchors:
            found = f"the alias *{typed_yaml.printable(event.anchor)}"
            raise self.error(event, keys, found, "an anchor of that name above it")
        value, size = self.anchors[event.anchor]
        self.count += size
        if self.count > self.limit:
            raise self.error(event, keys, f"more than {self.limit} values", "fewer")
        return value

    def items(self, keys: Keys) -> Iterator[object]:
        for index, event in enumerate(iter(self.next, None)):
            yield self.value(event, (*keys, index))

    def pairs(self, keys: Keys) -> dict[str, object]:
        found: dict[str, object] = {}
        merged: dict[str, object] = {}
        for event in iter(self.next, None):
            if not isinstance(event, yaml.ScalarEvent):
                raise self.error(event, keys, "a key that is no word", "words as keys")
            here = (*keys, event.value)
            if event.value in found:
                raise self.error(event, here, f"it twice (first in line {self.lines[here]})", "it once")
            self.lines[here] = _line_of(event.start_mark)
            value = self.value(next(self.events), here)
            if self.merges and event.value == MERGE_KEY and event.implicit[0]:
                merged = self.merged(event, here, value)
            else:
                found[event.value] = value
        return {**merged, **found}

    def merged(self, event: Any, keys: Keys, value: object) -> dict[str, object]:
        """What a merge key brings: the keys of a mapping, or of several, of which the first counts."""
        several = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(one, Mapping) for one in several):
            raise self.error(event, keys, "no keys with values", "keys with values, or a list of such")
        brought: dict[str, object] = {}
        for one in reversed(several):
            brought.update(one)
        return brought

    def next(self) -> Any:
        """The next event of a list or mapping, None at its end."""
        event = next(self.events)
        return None if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent) else event

    def scalar(self, event: Any, keys: Keys) -> object:
        text: str = event.value
        if event.tag not in (None, "!", f"{STANDARD_TAG_PREFIX}str"):
            raise self.error(event, keys, f"the tag {typed_yaml.words(event.tag)}", "plain YAML")
        if event.tag or not event.implicit[0]:  # quoted, or said to be text
            return text
        if text in WORDS:
            return WORDS[text]
        if INTEGER.fullmatch(text):
            return int(text)
        return float(text) if FLOAT.fullmatch(text) else text


def dump(value: Mapping[str, Any]) -> str:
    """YAML for people: numbers without quotes; text with quotes if a reader could take it for something else."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, default_flow_style=False)


class _Dumper(yaml.SafeDumper):
    """Writes lists with an indent under their key, and never an anchor."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    plain = re.fullmatch(r"[A-Za-z][^:#]*", text) and text.isprintable()
    return dumper.represent_scalar(f"{STANDARD_TAG_PREFIX}str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(tuple, lambda dumper, value: dumper.represent_list(list(value)))


def _line(before: bytes) -> int:
    return before.count(b"\n") + 1


def _line_of(mark: Any) -> int:
    return mark.line + 1 if mark else 1
