"""Records as incidents: from a conviction until its gates are open again, whatever comes between."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.history import incidents, node_state, record_words
from nodeprep.history.incidents import Selection
from nodeprep.history.node_record import NodeRecord
from tests.history_values import EPOCH, PORT, outage, record, started

OTHER: dict[str, Any] = {"check": "limits.memlock", "subject": "", "place": "", "reason": "TooLow"}


def told(records: list[NodeRecord]) -> list[tuple[float, float | None, int]]:
    return [
        (one.began - EPOCH, None if one.ended is None else round(one.ended - EPOCH, 1), len(one.records))
        for one in incidents.grouped(records)
    ]


def test_an_outage_is_one_incident() -> None:
    assert told([*started(10.0), *outage(1000.0)]) == [
        (10.0, 10.0, 1),
        (10.0, 10.0, 1),
        (11.0, 11.0, 1),
        (11.0, 11.0, 1),
        (1000.0, 1070.0, 6),
    ]


def test_a_gate_that_was_open_before_the_first_record_counts_as_open() -> None:
    """The base of a folded history names it."""
    base = node_state.base(None, started(10.0))
    assert base is not None
    (one,) = incidents.grouped([base, *outage(1000.0)])
    assert one.ended == EPOCH + 1070.0


def test_what_stands_has_no_end() -> None:
    assert told(outage(1000.0)[:3]) == [(1000.0, None, 3)]


def test_a_second_fault_within_it_belongs_to_it() -> None:
    records = outage(1000.0)
    records[3:3] = [record("convicted", 1005.0, **OTHER), record("released", 1020.0, **OTHER)]
    (one,) = (found for found in incidents.grouped([*started(10.0), *records]) if len(found.records) > 1)
    assert list(map(record_words.words, one.convictions)) == [
        "port.state NoSignal mlx5_5/1",
        "limits.memlock TooLow",
    ]


def test_a_restart_within_it_does_not_end_it() -> None:
    first, rest = outage(1000.0)[:3], outage(1000.0, seconds=500.0)[3:]
    again = [record("stopped", 1100.0), record("started", 1110.0), record("still-convicted", 1111.0, **PORT)]
    records = [*started(10.0)[3:], *first, *again, *rest]
    (one,) = (found for found in incidents.grouped(records) if len(found.records) > 1)
    assert (one.began - EPOCH, one.ended) == (1000.0, EPOCH + 1510.0)
    assert len(one.convictions) == 1


def test_a_boot_that_mended_the_fault_ends_it() -> None:
    """What stood before it and is not told again by the agent that starts is over."""
    records = [*started(10.0), *outage(1000.0)[:3], *started(20.0, "two", EPOCH + 1100.0)]
    (one,) = (found for found in incidents.grouped(records) if len(found.records) > 1)
    assert one.ended == EPOCH + 1121.0
    stays = [*records[:-2], record("still-convicted", 20.5, "two", EPOCH + 1100.0, **PORT), *records[-2:-1]]
    (one,) = (found for found in incidents.grouped(stays) if len(found.records) > 1)
    assert one.ended is None


def test_a_selection_is_by_device_check_and_time() -> None:
    records = [*started(10.0), *outage(1000.0), *outage(3000.0)]

    def began(wanted: Selection) -> list[float]:
        return [one.began - EPOCH for one in incidents.selected(incidents.grouped(records), wanted)]

    assert began(Selection(device="mlx5_5/1")) == [1000.0, 3000.0]
    assert began(Selection(device="0000:5d:00.0")) == [1000.0, 3000.0]
    assert began(Selection(check="port.*", since=EPOCH + 2000)) == [3000.0]
    assert began(Selection(device="mlx5_6*")) == []
    assert began(Selection(since=EPOCH + 1050)) == [1000.0, 3000.0], "one that stood then is told"


EVENTS = st.sampled_from(["convicted", "released", "profile-closed", "profile-ready", "started", "stopped", "state"])


@given(events=st.lists(EVENTS, max_size=30))
def test_no_record_is_lost_or_told_twice(events: list[str]) -> None:
    records = [record(event, number, profile="rdma", **PORT) for number, event in enumerate(events)]
    found = [one for incident in incidents.grouped(records) for one in incident.records]
    assert sorted(found, key=lambda one: one.at) == records
