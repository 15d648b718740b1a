"""Dates in headers of the API server, held against those that the standard library writes."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.doors.kube import requests


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
