"""Protobuf's wire format: what comes back is what was written, and whatever else comes is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.facts.kubernetes import protobuf
from nodeprep.facts.kubernetes.protobuf import NotProtobuf
from tests.kubelet_values import message

VALUES = st.one_of(st.integers(0, (1 << 64) - 1), st.binary(max_size=300))
FIELDS = st.lists(st.tuples(st.integers(1, protobuf.LAST_FIELD), VALUES), max_size=20)


@given(FIELDS)
def test_every_message_comes_back(fields: list[tuple[int, int | bytes]]) -> None:
    assert list(protobuf.fields(message(*fields))) == fields


@given(FIELDS, st.data())
def test_a_message_that_is_cut_is_refused_or_ends_at_a_field(
    fields: list[tuple[int, int | bytes]], data: st.DataObject
) -> None:
    whole = message(*fields)
    cut = data.draw(st.integers(0, len(whole)))
    try:
        found = list(protobuf.fields(whole[:cut]))
    except NotProtobuf:
        return
    assert found == fields[: len(found)]
    assert message(*found) == whole[:cut]


@given(st.binary(max_size=200))
def test_anything_else_is_refused_and_nothing_breaks(data: bytes) -> None:
    with suppress(NotProtobuf):
        list(protobuf.fields(data))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signs_come_back(number: int) -> None:
    ((_, value),) = protobuf.fields(message((1, number)))
    assert protobuf.signed(protobuf.whole(value, 1)) == number


KNOWN = [
    # bytes                                  fields (protobuf.dev, "Encoding")
    (b"", []),
    (b"\x08\x96\x01", [(1, 150)]),
    (b"\x12\x07testing", [(2, b"testing")]),
    (b"\x1a\x03\x08\x96\x01", [(3, b"\x08\x96\x01")]),
    (b"\x09" + bytes(7) + b"\1\x08\1", [(1, 1 << 56), (1, 1)]),  # fixed64, then a number
    (b"\x0d\1\0\0\0\x08\1", [(1, 1), (1, 1)]),  # fixed32
    (b"\x08\x80\x00", [(1, 0)]),  # longer than need be
]


@pytest.mark.parametrize(("data", "fields"), KNOWN)
def test_known_messages(data: bytes, fields: list[tuple[int, int | bytes]]) -> None:
    assert list(protobuf.fields(data)) == fields


REFUSED = [
    (b"\x08", "byte 1: a number that is cut or longer than 64 bits"),
    (b"\x08\x80", "byte 1: a number that is cut or longer than 64 bits"),
    (b"\x80", "byte 0: a number that is cut or longer than 64 bits"),
    (b"\x08" + b"\xff" * 10, "byte 1: a number that is cut or longer than 64 bits"),
    (b"\x08" + b"\xff" * 9 + b"\x02", "byte 1: a number that is cut or longer than 64 bits"),
    (b"\x12\x07test", "byte 2: field 2 has 7 bytes, and 4 are left"),
    (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "byte 10: field 2 has 9223372036854775807 bytes, and 0 are left"),
    (b"\x09\0\0", "byte 1: field 1 has 8 bytes, and 2 are left"),
    (b"\x0d\0", "byte 1: field 1 has 4 bytes, and 1 are left"),
    (b"\x00\x00", "byte 0: no field has the number 0"),
    (b"\x0b", "byte 0: field 1 is of the unknown wire type 3"),
    (b"\x0c", "byte 0: field 1 is of the unknown wire type 4"),
    (b"\x0e", "byte 0: field 1 is of the unknown wire type 6"),
    (b"\xf8\xff\xff\xff\x7f\x00", "byte 4: no field has the number 4294967295"),
]


@pytest.mark.parametrize(("data", "says"), REFUSED)
def test_what_is_wrong_is_said(data: bytes, says: str) -> None:
    with pytest.raises(NotProtobuf) as refused:
        list(protobuf.fields(data))
    assert str(refused.value) == says


def test_a_field_of_another_type_is_refused() -> None:
    with pytest.raises(NotProtobuf, match="field 1 is a number, wanted text or a message"):
        list(protobuf.parts(message((1, 5)), 1))
    with pytest.raises(NotProtobuf, match="field 3 is no number"):
        protobuf.whole(b"x", 3)
    with pytest.raises(NotProtobuf, match="field 2 is no UTF-8 at byte 1"):
        protobuf.text(b"x\xff", 2)
