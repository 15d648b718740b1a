"""The same device convicted again and again: hours are counted, not flaps."""

from __future__ import annotations

from nodeprep.history import repeat_offenders
from nodeprep.history.node_record import NodeRecord
from nodeprep.history.repeat_offenders import RepeatPolicy
from tests.history_values import EPOCH, PORT, outage, record

HOUR, DAY = 3600.0, 86400.0


def found(records: list[NodeRecord], now: float, policy: RepeatPolicy = repeat_offenders.SHIPPED_POLICY) -> list[int]:
    return [one.hours for one in repeat_offenders.counted(records).offenders(EPOCH + now, policy)]


def outages(*hours: float) -> list[NodeRecord]:
    return [one for hour in hours for one in outage(hour * HOUR)]


def test_three_different_hours_within_fourteen_days() -> None:
    assert found(outages(1, 2), 3 * HOUR) == []
    assert found(outages(1, 1.1, 1.2, 1.3), 3 * HOUR) == [], "one bad hour is one incident"
    assert found(outages(1, 2, 30), 31 * HOUR) == [3]
    assert found(outages(1, 2, 30), 15 * DAY) == [], "two of them are too old"
    assert found(outages(1, 2), 3 * HOUR, RepeatPolicy(2, 1)) == [2]
    assert found(outages(1, 30), 31 * HOUR, RepeatPolicy(2, 1)) == []


def test_it_says_who_and_when() -> None:
    (one,) = repeat_offenders.counted(outages(1, 2, 3)).offenders(EPOCH + 4 * HOUR)
    assert (one.check, one.place, one.device) == (PORT["check"], PORT["place"], "mlx5_5/1")
    assert one.last <= EPOCH + 3 * HOUR < one.last + HOUR


def test_a_restart_that_tells_a_conviction_again_counts_none() -> None:
    again = [record("still-convicted", hour * HOUR, **PORT) for hour in (2, 3, 4)]
    assert found([*outages(1), *again], 5 * HOUR) == []


def test_hours_that_were_folded_count() -> None:
    cases = {f"{PORT['check']} {PORT['place']} NoSignal": [20, 600.0, 1], "limits.memlock TooLow": [1, 5.0, 1]}
    folded = [record("folded", hour * HOUR, seconds=HOUR, cases=cases) for hour in (1, 2)]
    counter = repeat_offenders.counted([*folded, *outages(3)])
    assert set(counter.hours) == {(PORT["check"], PORT["place"]), ("limits.memlock", "")}
    assert [one.hours for one in counter.offenders(EPOCH + 4 * HOUR)] == [3]


def test_what_is_old_is_forgotten_by_newer_hours_and_not_by_a_wrong_clock() -> None:
    counter = repeat_offenders.counted(outages(1, 2, 3))
    assert counter.offenders(EPOCH + 900 * DAY) == ()
    assert [one.hours for one in counter.offenders(EPOCH + 4 * HOUR)] == [3]
    for one in outages(1 + 40 * 24):
        counter.add(one)
    (hours,) = counter.hours.values()
    assert len(hours) == 1


def test_what_is_counted_together_is_no_device_and_a_day_has_its_hours() -> None:
    cases = {"others": [9, 9.0, 9], f"{PORT['check']} {PORT['place']} NoSignal": [20, 600.0, 5]}
    names = {PORT["place"]: PORT["subject"]}
    (one,) = repeat_offenders.counted([record("folded", HOUR, seconds=DAY, cases=cases, names=names)]).offenders(
        EPOCH + DAY
    )
    assert (one.device, one.hours) == ("mlx5_5/1", 5)


def test_the_note_on_the_node_is_short() -> None:
    def offender(number: int) -> repeat_offenders.RepeatOffender:
        return repeat_offenders.RepeatOffender("port.state", f"0000:{number:02x}:00.0", f"mlx5_{number}/1", 3, EPOCH)

    assert repeat_offenders.note(()) == ""
    assert repeat_offenders.note([offender(5)]) == "port.state mlx5_5/1 in 3 hours"
    many = repeat_offenders.note(map(offender, range(200)))
    assert len(many.encode()) <= repeat_offenders.NOTE_LIMIT_BYTES
    assert many.endswith(f"; {200 - many.count('in 3 hours')} more")
