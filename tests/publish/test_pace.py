"""A bucket that fills slowly, and back-off that never comes before the server allows it."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.publish.pace import (
    BACKOFF_FIRST_SECONDS,
    BACKOFF_LIMIT_SECONDS,
    BURST_REQUESTS,
    GATE_TOKENS,
    RATE_PER_SECOND,
    Backoff,
    TokenBucket,
)


def test_a_burst_goes_out_at_once_and_then_what_fills() -> None:
    assert (BURST_REQUESTS, RATE_PER_SECOND) == (12.0, 2.0), "as docs/agent.md says"
    bucket = TokenBucket()
    for _ in range(int(BURST_REQUESTS)):
        assert bucket.wait(100.0) == 0.0
        bucket.take(100.0)
    assert bucket.wait(100.0) == 1.0 / RATE_PER_SECOND
    assert bucket.wait(100.0 + 1.0 / RATE_PER_SECOND) == 0.0


def test_what_can_wait_leaves_enough_to_close_a_gate() -> None:
    bucket = TokenBucket()
    while bucket.wait(100.0, GATE_TOKENS) == 0.0:
        bucket.take(100.0)
    assert bucket.tokens == GATE_TOKENS
    assert bucket.wait(100.0) == 0.0
    assert bucket.wait(100.0, GATE_TOKENS) == 1.0 / RATE_PER_SECOND


@given(steps=st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(1, 3)), max_size=200))
def test_no_window_holds_more_than_a_burst_and_what_filled(steps: list[tuple[float, int]]) -> None:
    bucket, now, sent = TokenBucket(), 1000.0, list[float]()
    for wait, size in steps:
        now += wait
        if bucket.wait(now) == 0.0:
            for _ in range(size):  # what began is not cut in the middle
                bucket.take(now)
                sent.append(now)
    for first, start in enumerate(sent):
        for last, end in enumerate(sent[first:], first):
            assert last - first + 1 <= BURST_REQUESTS + 2 + (end - start) * RATE_PER_SECOND + 1e-6


@given(seed=st.integers(), least=st.floats(0.0, 300.0), failures=st.integers(1, 60))
def test_a_server_in_trouble_is_left_alone_for_as_long_as_it_says(seed: int, least: float, failures: int) -> None:
    backoff = Backoff(Random(seed))
    for _ in range(failures):
        backoff.failed(1000.0, least)
    longest = min(BACKOFF_LIMIT_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** (failures - 1))
    assert 1000.0 + least < backoff.not_before <= 1000.0 + least + longest
    backoff.succeeded()
    assert backoff.not_before == 0.0


@given(seed=st.integers())
def test_what_is_refused_again_and_again_is_asked_for_seldom(seed: int) -> None:
    """A server that just started refuses for a moment what it will allow."""
    backoff = Backoff(Random(seed))
    waits = []
    for _ in range(6):
        backoff.refused(1000.0)
        waits.append(backoff.not_before - 1000.0)
    assert all(0.1 <= wait <= 2.0**index for index, wait in enumerate(waits[:3]))
    assert all(30.0 < wait <= 60.0 for wait in waits[3:])
    backoff.failed(1000.0)
    assert backoff.not_before <= 1000.0 + BACKOFF_LIMIT_SECONDS, (
        "the server is in trouble now, and may be another when it is back"
    )
    backoff.refused(1000.0)
    assert backoff.not_before <= 1000.0 + BACKOFF_LIMIT_SECONDS
    backoff.succeeded()
    backoff.refused(1000.0)
    assert backoff.not_before <= 1000.0 + BACKOFF_FIRST_SECONDS


def test_a_fleet_that_fails_together_does_not_come_back_together() -> None:
    each = [Backoff(Random(seed)) for seed in range(100)]
    for one in each:
        for _ in range(5):
            one.failed(0.0, 10.0)
    times = sorted(one.not_before for one in each)
    assert times[-1] - times[0] > 10.0
    assert len({round(at, 1) for at in times}) > 50
