"""The codec gives back its input. For a wrong input it says where it is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep import facts
from nodeprep.codec import Codec, CodecError
from nodeprep.facts.rdma.gid import Gid
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Report, Shown, Unreadable, Why
from nodeprep.values import Value, field_names
from tests.values import gid, port, rdma

KINDS = tuple(fact.kind for fact in facts.ALL)
CODEC = Codec((*KINDS, Report))
GONE = Unreadable(Why.TIMEOUT, "/sys/class/infiniband/mlx5_3/ports/1/state", 110, "no answer")
# Deadlines need a quiet machine. Here it must only end (pytest's timeout).
FEW, MANY = settings(max_examples=25, deadline=None), settings(max_examples=200, deadline=None)
BLIND = st.builds(Unreadable, st.sampled_from(Why), st.text(), st.none() | st.integers(), st.text())
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(),
    type(None): st.none(),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("_"), inner, max_size=3),
    max_leaves=8,
)


def drawn(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation. Any field of a Shown class may be an Unreadable."""
    if annotation in SCALARS:
        return SCALARS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return st.sampled_from(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Shown):
        hints = get_type_hints(annotation)
        return st.builds(annotation, **{name: drawn(hints[name]) | BLIND for name in annotation.__slots__})
    if isinstance(annotation, type) and issubclass(annotation, Value):
        hints = get_type_hints(annotation)
        return st.builds(annotation, **{name: drawn(hints[name]) for name in field_names(annotation)})
    args = get_args(annotation)
    if get_origin(annotation) is tuple:
        return st.lists(drawn(args[0]), max_size=2).map(tuple) if args[1:] == (...,) else st.tuples(*map(drawn, args))
    if get_origin(annotation) is Mapping:
        return st.dictionaries(st.text(), drawn(args[1]), max_size=2)
    return st.one_of(*map(drawn, args))


@pytest.mark.parametrize("kind", [*KINDS, Report], ids=lambda kind: kind.__name__)
@FEW
@given(data=st.data())
def test_every_fact_comes_back_as_it_was(kind: type, data: st.DataObject) -> None:
    value = data.draw(drawn(kind))
    assert CODEC.loads(kind, CODEC.dumps(value, by="0.1.0")) == (value, ())


def test_an_unreadable_stands_in_its_place() -> None:
    given = rdma(port(state=GONE), port(device="mlx5_4"))
    text = CODEC.dumps(given, by="0.1.0")
    assert CODEC.loads(Rdma, text)[0] == given
    assert json.loads(text)["content"]["ports"][0]["state"] == {
        "_": "Unreadable",
        "kind": "timeout",
        "path": GONE.path,
        "errno": 110,
        "detail": "no answer",
    }


@MANY
@given(JSON)
def test_garbage_is_said_to_be_garbage(given: object) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(Rdma, given)


@MANY
@given(st.data(), JSON)
def test_a_value_garbled_anywhere_is_refused_or_read(data: st.DataObject, garbage: object) -> None:
    content = CODEC.encode(rdma(port(state=GONE, gids=(gid(),)), port(sm_lid=None)))
    place, key = data.draw(st.sampled_from(list(places(content))))
    place[key] = garbage
    try:
        value, rest = CODEC.decode(Rdma, content)
    except CodecError:
        return
    assert CODEC.decode(Rdma, CODEC.encode(value, rest)) == (value, rest)


def places(content: Any) -> Any:
    """Every slot of a JSON tree, as its container and key."""
    keys = list(content) if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in keys:
        yield content, key
        yield from places(content[key])


@MANY
@given(st.data())
def test_a_garbled_text_is_refused_or_read(data: st.DataObject) -> None:
    text = CODEC.dumps(rdma(port()), by="0.1.0")
    start = data.draw(st.integers(0, len(text)))
    garbled = text[:start] + data.draw(st.text(max_size=3)) + text[start + data.draw(st.integers(0, 5)) :]
    try:
        value, _ = CODEC.loads(Rdma, garbled)
    except CodecError:
        return
    assert CODEC.loads(Rdma, CODEC.dumps(value, by="0.1.0"))[0] == value


CONTENT = '{"_":"Gid","index":3,"value":"fe80::","kind":null,"netdev":"eth2"}'
ROWS = [
    # text                                              says
    ("", "this is no JSON: Expecting value; wanted a document that nodeprep wrote"),
    ("[" * 100_000, None),
    (
        '{"format":1,"nodeprep":"0.1.0","content":' + "[" * 600 + "]" * 600 + "}",
        "$.content: found a list of 1, wanted Gid",
    ),
    ("[]", "$: found a list of 0, wanted an object with format, nodeprep and content"),
    (
        '{"format":"1","nodeprep":"0.1.0","content":{}}',
        "$: found no version, wanted a whole number as format and text as nodeprep",
    ),
    (
        '{"format":true,"nodeprep":"0.1.0","content":{}}',
        "$: found no version, wanted a whole number as format and text as nodeprep",
    ),
    ('{"format":1,"format":1}', None),
    (
        '{"format":2,"nodeprep":"0.4.0","content":{}}',
        "$.format: found 2, wanted format 1; nodeprep 0.4.0, which wrote it, reads it",
    ),
    (CONTENT.replace('"Gid"', '"Gin"'), '$.content._: found "Gin", wanted Gid'),
    (CONTENT.replace('"Gid"', "[]"), "$.content._: found a list of 0, wanted Gid"),
    (CONTENT.replace('"_":"Gid",', ""), "$.content._: found nothing, wanted Gid"),
    (CONTENT.replace('"index":3,', ""), "$.content.index: found nothing, wanted a whole number or Unreadable"),
    (CONTENT.replace("3", "3.0"), "$.content.index: found 3.0, wanted a whole number or Unreadable"),
    (CONTENT.replace("3", "true"), "$.content.index: found true, wanted a whole number or Unreadable"),
    (CONTENT.replace("3", "NaN"), None),
    (CONTENT.replace("null", "7"), "$.content.kind: found 7, wanted text or null or Unreadable"),
    (CONTENT.replace("null", '{"_":"Gid"}'), '$.content.kind._: found "Gid", wanted text or null or Unreadable'),
    (
        CONTENT.replace("null", '{"_":"Unreadable","kind":"lost","path":""}'),
        f'$.content.kind.kind: found "lost", wanted one of {", ".join(Why)}',
    ),
]


@pytest.mark.parametrize(("text", "says"), ROWS, ids=range(len(ROWS)))
def test_an_error_names_place_found_and_wanted(text: str, says: str | None) -> None:
    if text.startswith('{"_"') or '"index"' in text:
        text = f'{{"format":1,"nodeprep":"0.1.0","content":{text}}}'
    with pytest.raises(CodecError) as error:
        CODEC.loads(Gid, text)
    assert says is None or str(error.value) == says
    assert "\n" not in str(error.value)


def test_a_number_beyond_all_bounds_is_refused() -> None:
    for number in ("1e999", "-1e999", "1" + "0" * 400):
        text = CODEC.dumps(rdma(port(rate=400.0)), by="0.1.0").replace("400.0", number)
        with pytest.raises(CodecError, match=r"\$\.content\.ports\[0\]\.rate: found a number beyond all bounds"):
            CODEC.loads(Rdma, text)


def test_a_whole_number_is_a_number_too() -> None:
    text = CODEC.dumps(rdma(port(rate=400.0)), by="0.1.0").replace("400.0", "400")
    rate = CODEC.loads(Rdma, text)[0].ports[0].rate
    assert rate == 400.0
    assert isinstance(rate, float)


def test_unknown_fields_are_kept_and_given_back() -> None:
    text = CODEC.dumps(rdma(port(), port(device="mlx5_4")), by="0.2.0")
    newer = json.loads(text)
    newer["content"]["ports"][1]["speed-limit"] = {"_": "Newer", "deep": [1, {"x": None}]}
    newer["content"]["fabric"] = "north"
    value, rest = CODEC.loads(Rdma, json.dumps(newer))
    assert value == rdma(port(), port(device="mlx5_4"))
    assert json.loads(CODEC.dumps(value, "0.2.0", rest)) == newer
    gone = rdma(port())
    assert json.loads(CODEC.dumps(gone, "0.2.0", rest))["content"]["fabric"] == "north"


class Two(Value):
    either: int | float


class Sets(Value):
    several: frozenset[str]


class Anything(Value):
    value: Any = None
    fact: object = None


class Elsewhere:
    class Two(Value):
        pass


@pytest.mark.parametrize("kinds", [(Two,), (Sets,), (Rdma, Port, Elsewhere.Two, type("Port", (Elsewhere.Two,), {}))])
def test_what_json_could_not_tell_apart_is_refused_at_the_start(kinds: tuple[type, ...]) -> None:
    with pytest.raises(TypeError):
        Codec(kinds)


def test_plain_json_and_any_known_class() -> None:
    codec = Codec((Anything, Gid))
    given = Anything({"a": (1, 2.5, None, {"b": ()})}, gid())
    assert codec.loads(Anything, codec.dumps(given, by="0.1.0")) == (given, ())
    with pytest.raises(CodecError, match="a class that this version knows"):
        codec.decode(Anything, {"_": "Anything", "value": None, "fact": {"_": "Rdma"}})


def test_plain_json_without_an_end_is_refused() -> None:
    deep = "[" * 900 + "]" * 900
    text = f'{{"format":1,"nodeprep":"0.1.0","content":{{"_":"Anything","value":{deep}}}}}'
    with pytest.raises(CodecError):
        Codec((Anything,)).loads(Anything, text)


@pytest.mark.parametrize("value", [Elsewhere.Two(), {1: 2}, {"a"}, Anything()])
def test_nothing_unknown_is_written(value: object) -> None:
    with pytest.raises(TypeError):
        CODEC.encode(value)


def test_no_number_is_written_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        CODEC.dumps(rdma(port(rate=float("nan"))), by="0.1.0")
