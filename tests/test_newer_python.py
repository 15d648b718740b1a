"""What older Pythons lack is there, and reads the times that Kubernetes writes."""

from __future__ import annotations

from datetime import datetime

import pytest

from nodeprep import newer_python

TIMES = [
    ("2026-11-28T03:11:58Z", "2026-11-28T03:11:58+00:00"),
    ("2026-11-28T03:11:58.5Z", "2026-11-28T03:11:58.500000+00:00"),
    ("2026-11-28T03:11:58.123456Z", "2026-11-28T03:11:58.123456+00:00"),
    ("2026-11-28T03:11:58.123456789Z", "2026-11-28T03:11:58.123456+00:00"),
    ("2026-11-28T03:11:58.1+08:00", "2026-11-28T03:11:58.100000+08:00"),
    ("2026-11-28T03:11:58-05:00", "2026-11-28T03:11:58-05:00"),
    ("2026-11-28", "2026-11-28"),
]


@pytest.mark.parametrize(("text", "older"), TIMES)
def test_a_time_is_the_same_for_an_older_python(text: str, older: str) -> None:
    assert newer_python.as_older(text) == older
    assert newer_python.moment(text) == datetime.fromisoformat(older)


@pytest.mark.parametrize("text", ["", "Z", "yesterday", "2026-13-01T00:00:00Z", "."])
def test_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        newer_python.moment(text)
