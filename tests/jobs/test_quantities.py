"""Quantities as k8s.io/apimachinery reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.jobs import quantities

READ = [
    ("1", 10**9),
    ("500m", 5 * 10**8),
    ("1k", 10**12),
    ("0.5", 5 * 10**8),
    (".5", 5 * 10**8),
    ("2.", 2 * 10**9),
    ("1Ki", 1024 * 10**9),
    ("1.5Gi", 1536 * 2**20 * 10**9),
    ("1e3", 10**12),
    ("1E3", 10**12),
    ("1E", 10**27),
    ("2Ei", 2**61 * 10**9),
    ("12e-1", 12 * 10**8),
    ("+3", 3 * 10**9),
    ("100n", 100),
    ("0.1n", 1),  # what is finer is rounded up
    (0, 0),
    (4, 4 * 10**9),
    (0.5, 5 * 10**8),
]
REFUSED = ["", "-1", -1, "1 Gi", "one", "1GiB", "0x10", "1e", "--1", None, True, [], "1_000", "1e100"]


@pytest.mark.parametrize(("text", "nanos"), READ)
def test_what_is_a_quantity(text: object, nanos: int) -> None:
    assert quantities.nanos(text) == nanos


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_none(text: object) -> None:
    assert quantities.nanos(text) is None


def test_the_scheduler_rounds_up_at_the_end() -> None:
    assert quantities.counted({"cpu": 1_500_001, "memory": 1, "a/b": 2 * 10**9, "none": 0}) == {
        "cpu": 2,
        "memory": 1,
        "a/b": 2,
    }


SHOWN = [
    ("cpu", 1500, "1.5"),
    ("cpu", 64000, "64"),
    ("memory", 200 << 30, "200Gi"),
    ("memory", 1 << 20, "1Mi"),
    ("memory", 10**9, "953.674Mi"),
    ("memory", 10**10, "9.31323Gi"),
    ("nvidia.com/gpu", 8, "8"),
    ("memory", 0, "0"),
]


@pytest.mark.parametrize(("name", "count", "text"), SHOWN)
def test_for_people(name: str, count: int, text: str) -> None:
    assert quantities.shown(name, count) == text


@given(st.integers(0, 10**9), st.sampled_from(("", "m", "k", "Ki", "Mi", "G")))
def test_a_larger_number_is_no_smaller_quantity(count: int, suffix: str) -> None:
    one, other = quantities.nanos(f"{count}{suffix}"), quantities.nanos(f"{count + 1}{suffix}")
    assert one is not None
    assert other is not None
    assert one < other
