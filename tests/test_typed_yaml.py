"""The reader of typed values: what each kind accepts; for all else, one line with key, found and wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep import job_profile, typed_yaml
from nodeprep.checks import CHECKS
from nodeprep.config import configuration, keys, wants, yaml_document
from nodeprep.config.document import ConfigError
from nodeprep.typed_yaml import ANYTHING, MAPPING, PROSE, TEXT, TRUTH, InvalidValueError, ValueKind
from nodeprep.values import Value, field

WHOLE_NUMBER = typed_yaml.whole_number()
TABLE: typed_yaml.Table = {
    "kind": ("", typed_yaml.only("Ship")),
    "name": ("name", typed_yaml.not_empty(TEXT, "a name")),
    "max-speed": ("speed", typed_yaml.number(0)),
    "crew": ("crew", typed_yaml.list_of(TEXT, "words")),
    "route": ("route", typed_yaml.not_empty(MAPPING, "a port, or no route", required=False)),
}
NAMED = {"kind": "Ship", "name": "Anne"}


class ShipWant(Value):
    at_most: int = 5
    ratio: float | None = 0.5
    colour: Literal["red", "green"] = "red"
    by_port: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.at_most == 13:
            raise ValueError("no unlucky number")


class Ship(Value):
    name: str
    speed: float = 1.0
    crew: tuple[str, ...] = ()
    route: Mapping[str, Any] = field(default_factory=dict)


SHIP = typed_yaml.record(Ship, TABLE)
SHIP_WANT = typed_yaml.value_of(ShipWant)

READ: list[tuple[ValueKind[Any], object, object]] = [
    # kind                                    value           the result
    (WHOLE_NUMBER, -(10**400), -(10**400)),
    (typed_yaml.whole_number(1, 5), 1, 1),
    (typed_yaml.whole_number(1, 5), 5, 5),
    (typed_yaml.number(), 7, 7.0),
    (typed_yaml.number(0.5, 2), 0.5, 0.5),
    (typed_yaml.number(), typed_yaml.FLOAT_LIMIT, typed_yaml.FLOAT_LIMIT),
    (typed_yaml.seconds(0, 60), 60, 60.0),
    (TRUTH, False, False),
    (TEXT, "", ""),
    (TEXT, "no", "no"),
    (PROSE, "a\n  b\n", "a b"),
    (ANYTHING, None, None),
    (typed_yaml.one_of("a", "b"), "b", "b"),
    (typed_yaml.only("v1"), "v1", "v1"),
    (typed_yaml.optional(TEXT), None, None),
    (typed_yaml.list_of(TEXT), ["a", "b"], ("a", "b")),
    (typed_yaml.list_of(TEXT), (), ()),
    (typed_yaml.mapping_of(TRUTH), {"a": True}, {"a": True}),
    (typed_yaml.of_type(Mapping[int, str]), {"07": "x"}, {7: "x"}),
    (SHIP, NAMED, Ship("Anne")),
    (SHIP, NAMED | {"max-speed": None, "crew": None}, Ship("Anne")),
    (SHIP, NAMED | {"max-speed": 3, "crew": ["Bo"], "route": {"a": 1}}, Ship("Anne", 3.0, ("Bo",), {"a": 1})),
    (SHIP_WANT, {}, ShipWant()),
    (SHIP_WANT, {"ratio": None, "colour": "green"}, ShipWant(ratio=None, colour="green")),
    (SHIP_WANT, {"at-most": 6, "by-port": {"1": [2]}}, ShipWant(6, by_port={1: (2,)})),
]


@pytest.mark.parametrize(("kind", "value", "read"), READ, ids=range(len(READ)))
def test_a_value_is_read(kind: ValueKind[Any], value: object, read: object) -> None:
    found = kind.read(value, ("key",))
    assert (found, type(found)) == (read, type(read))


REFUSED: list[tuple[ValueKind[Any], object, str]] = [
    # kind                                    value           the error
    (WHOLE_NUMBER, "5", ": found '5', wanted a whole number"),
    (WHOLE_NUMBER, True, ": found true, wanted a whole number"),
    (WHOLE_NUMBER, 5.0, ": found 5.0, wanted a whole number"),
    (WHOLE_NUMBER, None, ": found nothing, wanted a whole number"),
    (typed_yaml.whole_number(1, 5, "looks"), 6, ": found 6, wanted a whole number of looks, 1 to 5"),
    (typed_yaml.whole_number(1), 0, ": found 0, wanted a whole number, at least 1"),
    (typed_yaml.whole_number(most=9), 10**400, ": found a number without end, wanted a whole number, at most 9"),
    (typed_yaml.number(), 10**5000, ": found a number without end, wanted a number"),
    (typed_yaml.number(), float("nan"), ": found nan, wanted a number"),
    (typed_yaml.number(), float("-inf"), ": found -inf, wanted a number"),
    (typed_yaml.number(0, 1e9), -0.5, ": found -0.5, wanted a number, 0 to 1000000000"),
    (typed_yaml.number(), False, ": found false, wanted a number"),
    (typed_yaml.seconds(0.5, 60), "1s", ": found '1s', wanted a plain number of seconds, 0.5 to 60"),
    (typed_yaml.seconds(0.5, 60), 0.4, ": found 0.4, wanted a plain number of seconds, 0.5 to 60"),
    (TRUTH, 1, ": found 1, wanted true or false"),
    (TEXT, 5, ": found 5, wanted a word (quote it if it looks like a number)"),
    (TEXT, "a\nb\x1b[2J", ": found 'a\\nb\\x1b[2J', wanted a word (quote it if it looks like a number)"),
    (TEXT, "\n" * 99, ": found '" + "\\n" * 57 + "...', wanted a word (quote it if it looks like a number)"),
    (PROSE, ["a"], ": found a list, wanted a word (quote it if it looks like a number)"),
    (typed_yaml.one_of("a", "b"), {"a": 1}, ": found keys with values, wanted one of a, b"),
    (typed_yaml.only("v1"), "v2", ": found 'v2', wanted v1"),
    (typed_yaml.optional(TEXT), 5, ": found 5, wanted a word (quote it if it looks like a number)"),
    (typed_yaml.list_of(TEXT, "names"), 5, ": found 5, wanted a list of names"),
    (typed_yaml.list_of(TRUTH), ["a"], "[0]: found 'a', wanted true or false"),
    (MAPPING, [], ": found a list, wanted keys with values"),
    (MAPPING, {5: 1}, ": found keys with values, wanted text as keys"),
    (typed_yaml.mapping_of(TRUTH), {"a": True, "b": 0}, ".b: found 0, wanted true or false"),
    (typed_yaml.of_type(Mapping[int, str]), {"-1": "x"}, ".-1: found '-1', wanted a whole number"),
    (typed_yaml.of_type(Mapping[int, str]), {"9" * 5000: "x"}, f".{'9' * 116}...: found "),
    (SHIP, {"name": "Anne"}, ".kind: found nothing, wanted Ship"),
    (SHIP, {"kind": "Ship"}, ".name: found nothing, wanted a name"),
    (SHIP, NAMED | {"name": ""}, ".name: found '', wanted a name"),
    (SHIP, NAMED | {"max-sped": 1}, ".max-sped: found 'max-sped', wanted 'max-speed'"),
    (SHIP, NAMED | {"x": 1}, ".x: found 'x', wanted one of kind, name, max-speed, crew, route"),
    (SHIP, NAMED | {"route": None}, ".route: found nothing, wanted a port, or no route"),
    (SHIP, NAMED | {"route": {}}, ".route: found keys with values, wanted a port, or no route"),
    (SHIP, NAMED | {"crew": ["Bo", 5]}, ".crew[1]: found 5, wanted a word (quote it if it looks like a number)"),
    (SHIP_WANT, {"at-most": None}, ".at-most: found nothing, wanted a whole number"),
    (SHIP_WANT, {"at-most": 13}, ": found keys with values, wanted no unlucky number"),
    (SHIP_WANT, {"at_most": 1}, ".at_most: found 'at_most', wanted 'at-most'"),
    (SHIP_WANT, {"by-port": {"1": 2}}, ".by-port.1: found 2, wanted a list of whole numbers"),
]


@pytest.mark.parametrize(("kind", "value", "says"), REFUSED, ids=range(len(REFUSED)))
def test_any_other_value_is_one_line(kind: ValueKind[Any], value: object, says: str) -> None:
    with pytest.raises(InvalidValueError) as error:
        kind.read(value, ("key",))
    assert str(error.value).startswith(f"key{says}")


LISTS: list[tuple[ValueKind[Any], str, str]] = [
    # of what                                 a bad word      the error
    (TEXT, "a\nb", "key[0]: found 'a\\nb', wanted a word (quote it if it looks like a number)"),
    (TRUTH, "yes", "key[0]: found 'yes', wanted true or false"),
    (WHOLE_NUMBER, "5", "key[0]: found '5', wanted a whole number"),
    (typed_yaml.seconds(1, 60), "1s", "key[0]: found '1s', wanted a plain number of seconds, 1 to 60"),
    (typed_yaml.one_of("a", "b"), "c", "key[0]: found 'c', wanted one of a, b"),
    (typed_yaml.not_empty(TEXT, "a name"), "", "key[0]: found '', wanted a name"),
    (MAPPING, "x", "key[0]: found 'x', wanted keys with values"),
    (SHIP, "x", "key[0]: found 'x', wanted keys with values"),
    (keys.PROCESS, "a/b", "key[0]: found 'a/b', wanted "),
]


@pytest.mark.parametrize(("kind", "word", "says"), LISTS, ids=range(len(LISTS)))
def test_of_a_bad_word_the_same_is_said_as_in_a_list_of_one(kind: ValueKind[Any], word: str, says: str) -> None:
    said = []
    for value in (word, [word]):
        with pytest.raises(InvalidValueError) as error:
            typed_yaml.list_of(kind, "things").read(value, ("key",))
        said.append(str(error.value))
    assert said[0] == said[1]
    assert said[0].startswith(says)


@pytest.mark.parametrize("annotation", [set[str], object, int | str, Literal[1, 2], Mapping[float, int], tuple[int]])
def test_a_type_that_nobody_can_write_in_yaml_is_a_fault_of_the_program(annotation: object) -> None:
    with pytest.raises(TypeError, match="no operator can write"):
        typed_yaml.of_type(annotation)


@pytest.mark.parametrize(
    ("found", "names", "says"),
    [
        ("mode", ("mtu", "mod"), "'mod'"),
        ("zzz", ("mtu", "mod"), "a name mtu, mod"),
        ("mo-1", tuple(f"mo-{number}x" for number in range(9)), "a name such as 'mo-1x'"),
        ("zzz", tuple(f"mo-{number}" for number in range(9)), "a name"),
    ],
)
def test_the_name_that_was_probably_meant(found: str, names: tuple[str, ...], says: str) -> None:
    assert typed_yaml.nearest(found, names, "a name") == says


# --- any value for any kind ---


def kinds() -> Iterator[ValueKind[Any]]:
    """Each kind that reads a file of ours, and each that this module can make."""
    yield from (kind for kind, _, _ in (*READ, *REFUSED))
    yield from (key.kind for key in keys.KEYS)
    yield from (typed_yaml.value_of(check.want) for check in CHECKS.values() if check.want)
    yield job_profile.PROFILE
    yield typed_yaml.fields_of({key.path: (key.path, key.kind) for key in keys.KEYS})


def known_words() -> set[str]:
    words = {part for key in keys.KEYS for part in key.path.replace("[]", "").split(".")}
    for table in (job_profile.DEVICE, job_profile.PORT, job_profile.AT_LEAST, TABLE):
        words |= set(table)
    words |= {"devices", "ports", "modules", "verbs", "0000:5c:00.0", "0000:5c:00.0/1", "5c:00.0/1", "nodeprep.io/v1"}
    return words | {"Profile", "Config", "Ethernet", "http://1.2.3.4:99999", "NoSchedule", "gates", "extends", "7"}


WORDS = st.sampled_from(sorted(known_words()))
NAMES = WORDS | st.text(max_size=200)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | WORDS
HUGE = st.sampled_from((10**400, -(10**4000)))  # too large for a float, and for our files


def nested(scalars: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.recursive(
        scalars,
        lambda parts: st.lists(parts, max_size=3) | st.dictionaries(NAMES, parts, max_size=3),
        max_leaves=8,
    )


VALUES = nested(SCALARS)
HERE = st.lists(NAMES | st.integers(0, 9), max_size=3).map(tuple)


def told(read: Callable[[], object]) -> InvalidValueError | None:
    try:
        read()
    except InvalidValueError as error:
        return error
    return None


@settings(deadline=None, max_examples=1000)
@given(st.sampled_from(list(kinds())), nested(SCALARS | HUGE), HERE)
def test_any_value_is_read_by_any_kind_or_is_one_line(
    kind: ValueKind[Any], value: object, here: typed_yaml.Keys
) -> None:
    error = told(lambda: kind.read(value, here))
    if error is None:
        return
    said = str(error)
    assert error.keys[: len(here)] == here
    assert said.isprintable()
    assert len(said) - len(error.wanted) < 500  # which may list all keys
    assert said.startswith(f"{typed_yaml.printable(typed_yaml.dotted(error.keys))}: found ")
    assert f"found {typed_yaml.words(error.found)}, wanted {error.wanted}" in said
    assert error.wanted


@settings(deadline=None, max_examples=500)
@given(st.integers() | st.floats(), st.integers(-9, 9), st.integers(-9, 9))
def test_a_number_is_read_within_its_bounds_and_nowhere_else(value: float, least: int, most: int) -> None:
    inside = least <= value <= most
    assert (told(lambda: typed_yaml.number(least, most).read(value, ())) is None) is inside
    assert (told(lambda: typed_yaml.seconds(least, most).read(value, ())) is None) is inside
    whole = told(lambda: typed_yaml.whole_number(least, most).read(value, ())) is None
    assert whole is (inside and isinstance(value, int))


TOPS = st.sampled_from(("Config", "Profile")).flatmap(
    lambda kind: st.dictionaries(NAMES, VALUES, max_size=4).map(
        lambda given: given | {"apiVersion": "nodeprep.io/v1", "kind": kind}
    )
)


def refused(top: dict[str, Any]) -> str | None:
    """The error of `profile validate` or `config validate` for such a file, None if it is valid."""
    try:
        document = yaml_document.read(yaml_document.dump(top).encode(), "F")
        if top.get("kind") != "Profile":
            configuration.parse_settings(document, "2026-01-10", CHECKS)
            return None
    except ConfigError as error:
        return str(error)
    found = told(lambda: wants.wants(job_profile.parse(document.value)))
    return None if found is None else str(document.located(found))


@settings(deadline=None, max_examples=300)
@given(TOPS | st.dictionaries(NAMES, VALUES, max_size=4))
def test_a_file_with_any_values_is_read_or_is_one_line_with_file_and_line(top: dict[str, Any]) -> None:
    said = refused(top)
    if said is None:
        return
    assert said.isprintable()
    assert said.startswith("F:")
    assert ": found " in said
    assert ", wanted " in said
