"""A bucket that fills slowly, and back-off that never comes before the server allows it."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.publish.pace import BURST, FIRST, MOST, RATE, Pace


def test_a_burst_goes_out_at_once_and_then_one_a_second() -> None:
    pace = Pace(Random(1))
    for _ in range(int(BURST)):
        assert pace.wait(100.0) == 0.0
        pace.take(100.0)
    assert pace.wait(100.0) == 1.0 / RATE
    assert pace.wait(101.0) == 0.0


@given(waits=st.lists(st.floats(0.0, 5.0), max_size=200))
def test_no_window_holds_more_than_a_burst_and_what_filled(waits: list[float]) -> None:
    pace, now, sent = Pace(Random(1)), 1000.0, list[float]()
    for wait in waits:
        now += wait
        if pace.wait(now) == 0.0:
            pace.take(now)
            sent.append(now)
    for first, start in enumerate(sent):
        for last, end in enumerate(sent[first:], first):
            assert last - first + 1 <= BURST + (end - start) * RATE + 1e-6


@given(seed=st.integers(), retry_after=st.floats(0.0, 300.0), failures=st.integers(1, 60))
def test_a_server_in_trouble_is_left_alone_for_as_long_as_it_says(seed: int, retry_after: float, failures: int) -> None:
    pace = Pace(Random(seed))
    for _ in range(failures):
        pace.failed(1000.0, retry_after)
    longest = min(MOST, FIRST * 2.0 ** (failures - 1))
    assert retry_after < pace.wait(1000.0) <= retry_after + longest
    pace.succeeded()
    assert pace.wait(1000.0) == 0.0


def test_a_fleet_that_fails_together_does_not_come_back_together() -> None:
    paces = [Pace(Random(seed)) for seed in range(100)]
    for pace in paces:
        for _ in range(5):
            pace.failed(0.0, 10.0)
    waits = sorted(pace.wait(0.0) for pace in paces)
    assert waits[-1] - waits[0] > 10.0
    assert len({round(wait, 1) for wait in waits}) > 50
