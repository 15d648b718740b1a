"""Older records as counts, so that a history stays within its size: by hour and case, then by day, then none.

A record that is folded is no longer shown, and its hour still says how often each case was convicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from nodeprep.history import fold_counts, node_record, node_state
from nodeprep.history.fold_counts import DAY, HOUR, OTHERS_CASE, Count
from nodeprep.history.node_record import BASE, FOLDED, KEPT_RECORDS, ROOM_BYTES, SIZE_LIMIT_BYTES, NodeRecord

CASES_LIMIT = 64  # cases of one hour that are counted each; the others are counted together


def folded(lines: Iterable[bytes], limit: int = SIZE_LIMIT_BYTES - ROOM_BYTES) -> list[bytes]:
    """The lines of a file, each with its end, folded until they have at most `limit` bytes.

    First what was folded, then what held before the first single record, then the newest records as they are.
    """
    counts: list[NodeRecord] = []
    single: list[bytes] = []
    base: NodeRecord | None = None
    for one in lines:
        if node_record.is_single(one):
            single.append(one + b"\n")
            continue
        record = node_record.record_of(one)
        if record is not None and record.event == FOLDED:
            counts.append(record)
        elif record is not None and record.event == BASE:
            base = record
    old, kept = _split(single, limit)
    records = [record for record in map(node_record.record_of, old) if record is not None]
    hours = _hours(records)
    base = node_state.base(base, records) or base
    counts = _merged([*counts, *hours])
    tail = [*([] if base is None else [_line(base)]), *kept]
    return [*_fitting(counts, limit - sum(map(len, tail))), *tail]


def _split(single: list[bytes], limit: int) -> tuple[list[bytes], list[bytes]]:
    """What is folded, and what is kept: at most KEPT_RECORDS, and at most three quarters of the limit."""
    size, first = 0, len(single)
    for index in range(len(single) - 1, max(len(single) - KEPT_RECORDS, 0) - 1, -1):
        size += len(single[index])
        if size > limit * 3 // 4:
            break
        first = index
    return single[:first], single[first:]


def _hours(records: Iterable[NodeRecord]) -> Iterator[NodeRecord]:
    """One record for each hour of wall time and boot."""
    for (hour, boot), found in _by_hour(records).items():
        counts: dict[str, Count] = {}
        events: Counter[str] = Counter()
        for one in found:
            if one.event == "convicted":
                count = Count(1, hours=0 if _case(one) in counts and counts[_case(one)].hours else 1)
                counts[_case(one)] = counts.get(_case(one), Count()) + count
            elif one.event == "released":
                stood = fold_counts.number(one.fields.get("stood_seconds"), 0.0)
                counts[_case(one)] = counts.get(_case(one), Count()) + Count(0, stood)
            else:
                events[one.event] += 1
        names = {one.text("place"): one.text("subject") for one in found if one.text("place") and one.text("subject")}
        yield _record(hour, boot, HOUR, counts, events, names)


def _by_hour(records: Iterable[NodeRecord]) -> dict[tuple[float, str], list[NodeRecord]]:
    found: dict[tuple[float, str], list[NodeRecord]] = {}
    for one in records:
        found.setdefault((one.time // HOUR * HOUR, one.boot), []).append(one)
    return found


def _case(record: NodeRecord) -> str:
    return f"{record.case} {record.text('reason')}"


def _record(  # noqa: PLR0917 - the parts of a record
    time: float,
    boot: str,
    seconds: float,
    counts: Mapping[str, Count],
    events: Mapping[str, int],
    names: Mapping[str, str],
) -> NodeRecord:
    ranked = sorted(counts.items(), key=lambda one: (-one[1].convicted, one[0]))
    kept = dict(ranked[:CASES_LIMIT])
    for _, count in ranked[CASES_LIMIT:]:
        kept[OTHERS_CASE] = kept.get(OTHERS_CASE, Count()) + count
    cases = {case: [one.convicted, one.seconds, one.hours] for case, one in kept.items()}
    places = {case.split(" ")[1] for case in cases if case.count(" ") > 1}
    known = {place: name for place, name in names.items() if place in places}
    fields = {"seconds": seconds, "cases": cases, "events": dict(events), "names": known}
    return NodeRecord(time, 0.0, boot, FOLDED, fields)


def _merged(records: Iterable[NodeRecord], seconds: float = HOUR) -> list[NodeRecord]:
    """Records of the same hour (or day) and boot as one; longer spans stay as they are."""
    found: dict[tuple[float, str, float], tuple[dict[str, Count], Counter[str], dict[str, str]]] = {}
    for one in records:
        span = max(fold_counts.number(one.fields.get("seconds"), HOUR), seconds)
        cases, events, names = found.setdefault((one.time // span * span, one.boot, span), ({}, Counter(), {}))
        for case, count in fold_counts.counts_of(one).items():
            cases[case] = cases.get(case, Count()) + count
        more = one.fields.get("events")
        for event, times in more.items() if isinstance(more, dict) else ():
            events[str(event)] += int(fold_counts.number(times, 0.0))
        names |= fold_counts.names_of(one)
    return [_record(time, boot, span, *parts) for (time, boot, span), parts in found.items()]


def _fitting(records: list[NodeRecord], limit: int) -> list[bytes]:
    """Lines of at most `limit` bytes: the older half of the hours becomes days, then the oldest go."""
    lines = [_line(one) for one in records]
    if sum(map(len, lines)) > limit:
        half = len(records) // 2
        records = [*_merged(records[:half], DAY), *records[half:]]
        lines = [_line(one) for one in records]
    while lines and sum(map(len, lines)) > limit:
        del lines[: max(len(lines) // 20, 1)]
    return lines


def _line(record: NodeRecord) -> bytes:
    return node_record.line(record, node_record.LONG_LINE_LIMIT_BYTES)
