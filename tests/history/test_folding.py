"""A history stays within its size: the newest records are kept each, older ones as counts, for 30 days at least."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from nodeprep.history import fold_counts, folding, node_record, node_state, repeat_offenders
from nodeprep.history.fold_counts import DAY, HOUR, Count
from nodeprep.history.node_record import (
    BASE,
    FOLDED,
    FOLDED_AT_RECORDS,
    KEPT_RECORDS,
    SIZE_LIMIT_BYTES,
    NodeRecord,
    line,
    record_of,
)
from tests.history_values import EPOCH, PORT, outage, record, started


def written(records: list[NodeRecord], limit: int = SIZE_LIMIT_BYTES - node_record.ROOM_BYTES) -> list[bytes]:
    """The file after these records, folded as the agent folds it; in bytes never above the limit."""
    lines: list[bytes] = []
    single = size = 0
    for one in records:
        text = line(one)
        lines.append(text)
        single, size = single + 1, size + len(text)
        assert size <= SIZE_LIMIT_BYTES
        if node_record.is_due(single, size):
            lines = folding.folded([kept.rstrip(b"\n") for kept in lines], limit)
            single, size = sum(map(node_record.is_single, lines)), sum(map(len, lines))
    return lines


def read(lines: list[bytes]) -> list[NodeRecord]:
    found = [record_of(one) for one in lines]
    assert None not in found
    return [one for one in found if one is not None]


def flapping(days: float, ports: int = 1, an_hour: float = 20) -> list[NodeRecord]:
    records = started(10.0)
    for number in range(int(days * 24 * an_hour)):
        for port in range(ports):
            at = 100.0 + number * HOUR / an_hour + port * 0.5
            one = outage(at, seconds=30.0)
            other = {"subject": f"mlx5_{port}/1", "place": f"0000:{port:02x}:00.0/1"}
            records += [
                NodeRecord(it.time, it.at, it.boot, it.event, {**it.fields, **other}) if "check" in it.fields else it
                for it in one
            ]
    return records


def test_thirty_days_of_flapping_are_within_a_mebibyte_and_counted() -> None:
    days, an_hour = 30, 20
    records = flapping(days, an_hour=an_hour)
    lines = written(records)
    kept = read(lines)
    single = [one for one in kept if one.event not in (FOLDED, BASE)]
    assert KEPT_RECORDS <= len(single) < FOLDED_AT_RECORDS
    assert single == records[-len(single) :]
    counts = [one for one in kept if one.event == FOLDED]
    times = sum(count.convicted for one in counts for count in fold_counts.counts_of(one).values())
    assert times + sum(one.event == "convicted" for one in single) == days * 24 * an_hour
    assert counts[0].time <= records[0].time, "the first hour of 30 days is still there"
    assert {one.fields["seconds"] for one in counts} == {HOUR}, "one port needs no days"
    assert all(former.time < later.time for former, later in pairwise(counts))


@pytest.mark.parametrize("ports", [8, 70])
def test_many_ports_that_flap_are_within_a_mebibyte_for_thirty_days(ports: int) -> None:
    kept = read(written(flapping(31, ports=ports, an_hour=0.125)))
    counts = [one for one in kept if one.event == FOLDED]
    assert counts[0].time <= EPOCH + DAY
    seconds = {one.fields["seconds"] for one in counts}
    assert seconds <= {HOUR, DAY}
    hours = repeat_offenders.counted(kept).hours
    assert len(hours) >= min(ports, folding.CASES_LIMIT)


def test_what_held_before_the_first_kept_record_is_kept() -> None:
    records = [*flapping(8), record("configuration", 1e6, digest="ab", keys={"mode": "11"}), *outage(2e6)[:3]]
    lines = written([*records, *(record("policy-enforced", 2e6 + 10 + number) for number in range(2500))])
    kept = read(lines)
    was = node_state.replay(kept)
    assert (was.state, was.ready, was.keys) == ("Degraded", (), {"mode": "11"})
    assert [(one.check, one.place, one.since) for one in was.cases.values()] == [
        ("port.state", PORT["place"], EPOCH + 2e6)
    ]


def test_folding_twice_loses_no_count() -> None:
    records = flapping(5)
    once = folding.folded([line(one).rstrip(b"\n") for one in records])
    twice = folding.folded([one.rstrip(b"\n") for one in once])
    assert once == twice
    total = sum(one.event == "convicted" for one in records)
    single = sum(one.event == "convicted" for one in read(twice))
    folded = (count for one in read(twice) for count in fold_counts.counts_of(one).values())
    assert total == single + sum(count.convicted for count in folded)


def test_where_even_days_do_not_fit_the_oldest_go() -> None:
    lines = folding.folded([line(one).rstrip(b"\n") for one in flapping(60, ports=4, an_hour=2)], limit=40_000)
    assert sum(map(len, lines)) <= 40_000
    counts = [one for one in read(lines) if one.event == FOLDED]
    assert counts, "some are left"
    assert counts[0].time > EPOCH + DAY


def test_lines_that_are_no_records_do_not_stop_it() -> None:
    good = [line(one).rstrip(b"\n") for one in flapping(5)]
    lines = folding.folded([b"{", b'{"event":"folded"}', b'{"event":"base"}', *good, b"\x00"])
    assert sum(count.convicted for one in map(record_of, lines) if one for count in fold_counts.counts_of(one).values())


DAMAGED = [
    {"cases": {"a b c": [float("nan"), 0, 1]}},
    {"cases": {"a b c": ["x", 0, 1]}, "seconds": "x"},
    {"cases": [], "events": {"a": "x"}, "names": []},
    {"cases": {"a": None}, "seconds": None, "events": None},
]


@pytest.mark.parametrize("fields", DAMAGED)
def test_damaged_counts_stop_nobody(fields: dict[str, Any]) -> None:
    damaged = json.dumps({"time": EPOCH, "at": 0.0, "boot": "one", "event": "folded", **fields}).encode()
    odd = record("released", 5.0, **PORT, stood_seconds="x")
    lines = folding.folded(
        [damaged, node_record.line(odd).rstrip(b"\n"), *(node_record.line(one).rstrip(b"\n") for one in flapping(4))]
    )
    assert len(lines) > node_record.KEPT_RECORDS
    assert repeat_offenders.counted(read(lines)).hours


def test_counts_add_up() -> None:
    assert Count(1, 2.5, 1) + Count(2, 0.5, 1) == Count(3, 3.0, 2)
