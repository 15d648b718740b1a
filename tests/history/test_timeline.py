"""Times by the last clock of a boot, and what a node was at one of them: or that nobody knows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.history import timeline
from nodeprep.history.node_record import NodeRecord
from nodeprep.history.timeline import Now
from tests.history_values import EPOCH, outage, record, started

RUNS = Now(EPOCH + 5000, 5000, "one", 5000)
HOUR = 3600.0


def past(records: list[NodeRecord], then: float, now: Now = RUNS) -> tuple[str, tuple[str, ...], str]:
    found = timeline.past(records, then, now)
    return found.state.state, found.state.ready, found.unknown


NORMAL = [*started(10.0), *outage(1000.0)]
CASES: list[tuple[str, list[NodeRecord], float, Now, str, bool | None]] = [
    ("ready", NORMAL, 500, RUNS, "", True),
    ("in the outage", NORMAL, 1030, RUNS, "", False),
    ("in the second of the conviction", NORMAL, 1000, RUNS, "", False),
    ("a second before it", NORMAL, 998, RUNS, "", True),
    ("between release and opening", NORMAL, 1065, RUNS, "", False),
    ("after it", NORMAL, 4000, RUNS, "", True),
    ("before anything", NORMAL, 5, RUNS, "before what this history keeps", None),
    ("tomorrow", NORMAL, 90000, RUNS, "has not come yet", None),
    ("just started", NORMAL, 10, RUNS, "had not judged yet", None),
    ("an agent that died unseen", NORMAL, 4000, Now(EPOCH + 5000, 5000, "one", 2000.0), "last known to run", None),
    ("before it died", NORMAL, 1999, Now(EPOCH + 5000, 5000, "one", 2000.0), "", True),
    ("no mark", NORMAL, 1500, Now(EPOCH + 5000, 5000, "one", None), "last known to run", None),
    ("another boot now", NORMAL, 4000, Now(EPOCH + 9000, 100, "two", 100), "last known to run", None),
    (
        "stopped",
        [*NORMAL, record("stopped", 2000, signal="SIGTERM")],
        3000,
        RUNS,
        "(SIGTERM) and has not started since",
        None,
    ),
    (
        "stopped and started",
        [*NORMAL, record("stopped", 2000), *started(2500)],
        3000,
        RUNS,
        "",
        True,
    ),
    (
        "killed, and the next start knows until when it ran",
        [*NORMAL, *started(2500, former_alive_at=2490.0)],
        2480,
        RUNS,
        "",
        True,
    ),
    (
        "in the gap after it was killed",
        [*NORMAL, *started(2500, former_alive_at=2300.0)],
        2400,
        RUNS,
        "last known to run",
        None,
    ),
    (
        "power was lost: the next boot cannot know",
        [*NORMAL, *started(20, "two", EPOCH + 3000, former_alive_at=5.0)],
        2000,
        Now(EPOCH + 9000, 6000, "two", 6000),
        "last known to run",
        None,
    ),
    (
        "after that boot",
        [*NORMAL, *started(20, "two", EPOCH + 3000)],
        3500,
        Now(EPOCH + 9000, 6000, "two", 6000),
        "",
        True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[one[0] for one in CASES])
def test_what_a_node_was(case: tuple[str, list[NodeRecord], float, Now, str, bool | None]) -> None:
    name, records, then, now, unknown, ready = case
    found = timeline.past(records, EPOCH + then, now)
    assert unknown in found.unknown
    assert bool(found.unknown) is bool(unknown), name
    if ready is not None:
        assert found.state.ready == (("rdma",) if ready else ())


LOST = record("lost", 3000.0, count=2, why="No space left on device")
CLOSED_LATE = [record("profile-ready", 1500.9, profile="rdma"), *outage(2000.3, seconds=0.2)]


def test_nobody_knows_what_lost_records_said() -> None:
    records = [*NORMAL, LOST]
    assert "last known to run" in past(records, EPOCH + 2500)[2]
    assert "records before that time are lost" in past(records, EPOCH + 3500)[2]
    assert past([*records, *started(4000.0)[1:]], EPOCH + 4500)[1:] == (("rdma",), "")


def test_a_second_that_is_named_is_ready_in_all_of_it() -> None:
    assert past([*NORMAL, record("profile-closed", 1500.2, profile="rdma"), CLOSED_LATE[0]], EPOCH + 1500)[1] == ()
    closed = [record("profile-closed", 1400.0, profile="rdma"), CLOSED_LATE[0]]
    assert past([*NORMAL, *closed], EPOCH + 1500)[1] == ()
    assert past([*NORMAL, *closed], EPOCH + 1501)[1] == ("rdma",)


def test_counts_of_hours_are_no_steps_of_a_clock() -> None:
    folded = [record("folded", 0.0, offset=EPOCH + hour * HOUR, seconds=HOUR, cases={}) for hour in range(5)]
    assert timeline.steps([*folded, *NORMAL]) == []


def test_the_half_hour_before_is_told() -> None:
    found = timeline.past(NORMAL, EPOCH + 1030, RUNS)
    assert [one.event for one in found.before] == [one.event for one in NORMAL if one.at <= 1030]
    later = timeline.past(NORMAL, EPOCH + 3500, RUNS)
    assert later.before == ()


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_clock_that_steps_changes_no_order_and_is_said(step: float) -> None:
    """NTP sets the clock an hour after the boot; what was before it is told by the corrected clock."""
    wrong = [*started(10.0, offset=EPOCH - step), *outage(1000.0, offset=EPOCH - step)]
    right = outage(4000.0)
    records = timeline.corrected([*wrong, *right], RUNS)
    assert [one.at for one in records] == [one.at for one in [*wrong, *right]]
    assert [one.time for one in records] == sorted(one.time for one in records)
    assert records[4].time == EPOCH + 1000.0
    ((first, by),) = timeline.steps([*wrong, *right])
    assert (first.at, by) == (4000.0, step)
    assert past([*wrong, *right], EPOCH + 1030) == ("Degraded", (), "")
    assert past([*wrong, *right], EPOCH + 3000) == ("Ready", ("rdma",), "")


def test_a_time_that_two_boots_claim_is_known_to_nobody() -> None:
    """The clock of the second boot was an hour behind, and nobody set it."""
    records = [*NORMAL, record("stopped", 3000), *started(20, "two", EPOCH), *outage(2000, "two", EPOCH)]
    now = Now(EPOCH + 2500, 2500, "two", 2500)
    assert "two boots claim" in past(records, EPOCH + 1500, now)[2]


TIMES = st.floats(0, 5000, allow_nan=False)


@given(then=TIMES, cut=st.integers(0, 20), alive=st.none() | TIMES, lost=st.none() | TIMES)
def test_nobody_is_called_ready_without_a_record_that_says_so(
    then: float, cut: int, alive: float | None, lost: float | None
) -> None:
    """Whatever is missing of a history: told by an oracle of its own, which knows only spans of seconds."""
    whole = [*NORMAL, record("stopped", 2000), *started(2500)]
    if lost is not None:
        whole = sorted([*whole, record("lost", lost, count=1, why="full")], key=lambda one: one.at)
    records = whole[cut:]
    found = timeline.past(records, EPOCH + then, Now(EPOCH + 5000, 5000, "one", alive))
    if found.unknown or not found.state.ready:
        return
    before = [one for one in records if one.at <= then + 1]
    openings = [index for index, one in enumerate(before) if one.event == "profile-ready"]
    assert openings, "no record says that a gate opened"
    since = before[openings[-1] :]
    assert not {"profile-closed", "stopped", "started", "lost"} & {one.event for one in since}
    assert any(one.event == "started" for one in before)
    later = [one for one in records if one.at > then + 1]
    if later:
        assert later[0].event not in {"started", "lost"} or then <= before[-1].at + 1
    else:
        assert then <= before[-1].at + 1 or (alive is not None and then <= alive + 1)
