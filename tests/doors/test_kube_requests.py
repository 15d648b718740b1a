"""Headers of the API server: dates, held against those that the standard library writes, and how long to wait."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.doors.kube import requests
from nodeprep.doors.kube.requests import Peer, Wire
from tests.rigs.api_server import Server, sent


@given(st.integers(0, 4_000_000_000))
def test_each_second_is_read_as_it_was_written(seconds: int) -> None:
    assert requests.http_date(formatdate(seconds, usegmt=True)) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yesterday",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 06 Nop 1994 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT\n",
    ],
)
def test_what_is_no_date(value: str) -> None:
    assert requests.http_date(value) is None


def test_a_leap_second_is_the_one_before() -> None:
    assert requests.http_date("Sat, 31 Dec 2016 23:59:60 GMT") == requests.http_date("Sat, 31 Dec 2016 23:59:59 GMT")


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("300", 300.0),
        ("301", 300.0),  # who is in front of the server may want a day, and no gate would close meanwhile
        ("86400", 300.0),
        ("9" * 10, 0.0),
        ("-7", 0.0),
        ("7.5", 0.0),
        ("Sun, 06 Nov 2094 08:49:37 GMT", 0.0),
    ],
)
def test_a_server_may_let_us_wait_for_minutes_only(told: str, seconds: float) -> None:
    with Server({"/busy": sent(b"{}", 429, Retry_After=told)}) as server:
        wire = Wire(Peer(server.url), 60.0, connect=30.0, read=30.0)
        try:
            assert wire.get("/busy", {}).retry_after == seconds
        finally:
            wire.close()
