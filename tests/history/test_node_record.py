"""A record is one line: whole or nothing, short whatever a message says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.history.node_record import HEAD, LINE_LIMIT_BYTES, NodeRecord, line, record_of
from tests.history_values import record

TEXTS = st.text(max_size=2000)
VALUES = st.one_of(TEXTS, st.integers(-(10**9), 10**9), st.booleans(), st.lists(TEXTS, max_size=5))
FIELDS = st.dictionaries(st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1, max_size=20), VALUES)


@given(fields=FIELDS)
def test_a_line_is_short_ascii_and_one_record(fields: dict[str, Any]) -> None:
    fields = {name: value for name, value in fields.items() if name not in HEAD}
    text = line(record("convicted", 5.25, **{f"x{name}": value for name, value in fields.items()}))
    assert len(text) <= LINE_LIMIT_BYTES or len(fields) > 3
    assert text.isascii()
    assert text.count(b"\n") == 1
    found = record_of(text)
    assert found is not None
    assert (found.event, found.at, found.boot) == ("convicted", 5.25, "one")


def test_what_fits_is_read_as_it_was() -> None:
    one = record("configuration", 1.5, digest="ab", changed=["mode", "assign"], keys={"mode": "12"})
    assert record_of(line(one)) == one


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"time":1,"at":1,"boot":"b"}',
        b'{"time":"1","at":1,"boot":"b","event":"e"}',
        b'{"time":1,"at":NaN,"boot":"b","event":"e"}',
        b'{"time":1,"at":1,"boot":7,"event":"e"}',
        b"\x00\xff",
        b'{"time":1e999,"at":1,"boot":"b","event":"e"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_record_is_none(text: bytes) -> None:
    assert record_of(text) is None


def test_each_half_of_a_line_is_no_record() -> None:
    whole = line(NodeRecord(1.0, 2.0, "b", "convicted", {"check": "port.state"})).rstrip()
    assert record_of(whole) is not None
    assert not any(record_of(whole[:cut]) for cut in range(len(whole)))
