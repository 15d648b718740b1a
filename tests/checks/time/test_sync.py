"""time.sync by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.time.sync import CHECK, Want
from nodeprep.facts.machine.clock import Clock
from tests.values import say, verdicts

ROWS = [
    # synchronised  offset  max_error  says
    (True, 0.0, 0.02, "ok Kept"),
    (True, 0.0, 1.0, "ok Kept"),
    (True, 0.0, 1.001, "warn ErrorLarge"),
    (True, 0.1, 0.02, "ok Kept"),
    (True, 0.101, 0.02, "warn OffsetLarge"),
    (True, -0.101, 0.02, "warn OffsetLarge"),
    (True, -0.1, 0.02, "ok Kept"),
    (True, 0.0, 16.0, "warn ErrorLarge"),
    (False, 0.0, 16.0, "warn NotSynchronised"),  # after boot, and where nothing runs
    (False, 0.0, 15.999, "warn ErrorLarge"),
    (False, 0.0, 0.02, "ok Kept"),  # chronyd without rtcsync
]


@pytest.mark.parametrize(("synchronised", "offset", "max_error", "says"), ROWS)
def test_says(synchronised: bool, offset: float, max_error: float, says: str) -> None:
    assert say(CHECK, Clock(0.0, synchronised, offset, max_error)) == says


@pytest.mark.parametrize(
    ("want", "says"),
    [
        (Want(max_error=0.2, max_offset=0.05), "ok Kept"),
        (Want(max_error=0.199, max_offset=0.05), "warn ErrorLarge"),
        (Want(max_error=0.2, max_offset=0.049), "warn OffsetLarge"),
    ],
)
def test_the_bounds_are_the_operators(want: Want, says: str) -> None:
    assert say(CHECK, Clock(0.0, True, 0.05, 0.2), want=want) == says


def test_messages_say_how_far_and_where_to_look() -> None:
    (unkept,) = verdicts(CHECK, Clock(0.0, False, 0.0, 16.0))
    assert "no NTP or PTP service runs, or it reaches no server; see chronyc tracking" in unkept.message
    (large,) = verdicts(CHECK, Clock(0.0, True, 0.25, 1.5))
    assert large.message.startswith(
        "the clock is off by 0.250 s, at most by 1.500 s; 1 s at most are wanted by default (max-error)"
    )
    (offset,) = verdicts(CHECK, Clock(0.0, True, 0.25, 0.5))
    assert offset.message.startswith(
        "the clock is off by 0.250 s, at most by 0.500 s; 0.1 s at most are wanted by default (max-offset)"
    )
