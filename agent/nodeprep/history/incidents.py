"""Records grouped as a person reads them: from a conviction until its gates are open again is one incident."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from nodeprep.history import node_state
from nodeprep.history.node_record import BASE, CONVICTED, READY, RELEASED, STARTED, STILL_CONVICTED, STOPPED, NodeRecord
from nodeprep.values import Struct, Value, field

CLOSED_EVENTS = ("profile-closed", "profile-device-ready")
# What belongs to an incident while one is open; everything else stands alone, as it does without one.
WITHIN = frozenset({CONVICTED, STILL_CONVICTED, RELEASED, READY, *CLOSED_EVENTS, "state", "latched", "deferred"})


class Selection(Value):
    """Which records are asked for: since a wall time, of devices and checks by glob."""

    since: float = 0.0
    device: str = "*"
    check: str = "*"

    @property
    def is_narrow(self) -> bool:
        """Whether it asks for some devices or checks alone."""
        return (self.device, self.check) != ("*", "*")

    def means(self, record: NodeRecord) -> bool:
        """Whether a conviction or release is of such a device and check."""
        whole = (record.text("subject"), record.text("place"))
        called = (*whole, *(one.partition("/")[0] for one in whole))  # a port, or the device that has it
        return fnmatchcase(record.text("check"), self.check) and any(fnmatchcase(one, self.device) for one in called)


EVERYTHING = Selection()


class Incident(Struct):
    """What happened from a conviction to the end of what it brought. `ended` is None while something of it stands."""

    records: list[NodeRecord]
    ended: float | None = None
    open_cases: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)  # profiles that were ready before it and are not yet again
    is_starting: bool = False  # an agent that starts tells again what still stands, and then the state

    @property
    def began(self) -> float:
        """Wall time of its first record."""
        return self.records[0].time

    @property
    def convictions(self) -> list[NodeRecord]:
        """The convictions of it, each case once."""
        found = {one.case: one for one in reversed(self.records) if one.event in (CONVICTED, STILL_CONVICTED)}
        return list(reversed(found.values()))


def grouped(records: Iterable[NodeRecord]) -> Iterator[Incident]:
    """Every record in an incident, oldest first: one that belongs to none is alone in one that has ended."""
    incident: Incident | None = None
    ready: set[str] = set()
    for one in records:
        if one.event == BASE:
            ready = set(node_state.replay([one]).ready)
            continue
        if incident is None and one.event in (CONVICTED, STILL_CONVICTED):
            incident = Incident([])
        if incident is not None and (one.event in WITHIN or one.event in (STARTED, STOPPED) or _is_repair(one)):
            _take(incident, one, ready)
            if not (incident.open_cases or incident.closed or incident.is_starting):
                incident.ended = one.time
                yield incident
                incident = None
        else:
            yield Incident([one], one.time)
        _note_ready(ready, one)
    if incident is not None:
        yield incident


def selected(incidents: Iterable[Incident], wanted: Selection = EVERYTHING) -> list[Incident]:
    """Those that are asked for: that stood after `since`, and have such a conviction if the selection is narrow."""
    found = []
    for one in incidents:
        is_late = one.ended is None or one.ended >= wanted.since
        if is_late and (not wanted.is_narrow or any(map(wanted.means, one.convictions))):
            found.append(one)
    return found


def _is_repair(record: NodeRecord) -> bool:
    return record.event.startswith(("repair-", "remedy-", "attempt-", "drill-"))


def _take(incident: Incident, record: NodeRecord, ready: set[str]) -> None:
    incident.records.append(record)
    profile = record.text("profile")
    if record.event in (CONVICTED, STILL_CONVICTED):
        incident.open_cases.add(record.case)
    elif record.event == RELEASED:
        incident.open_cases.discard(record.case)
    elif record.event == STARTED:
        incident.open_cases.clear()
        incident.is_starting = True
    elif record.event == "state":
        incident.is_starting = False
    elif record.event in CLOSED_EVENTS and profile in ready:
        incident.closed.add(profile)
    elif record.event in (READY, "profile-gone"):
        incident.closed.discard(profile)


def _note_ready(ready: set[str], record: NodeRecord) -> None:
    if record.event == READY:
        ready.add(record.text("profile"))
    elif record.event in (*CLOSED_EVENTS, "profile-gone"):
        ready.discard(record.text("profile"))
