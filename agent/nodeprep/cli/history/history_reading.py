"""A node's history as it was read: on the node from its file, or from the JSON that the node's agent printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nodeprep import redaction
from nodeprep.cli.daemon import directories
from nodeprep.cli.history import moment
from nodeprep.cli.place import NodePlace
from nodeprep.cli.usage import UsageError
from nodeprep.doors import clock
from nodeprep.doors.files import state_store
from nodeprep.doors.files.alive_mark import AliveMark
from nodeprep.doors.files.host_root import BOOT_ID
from nodeprep.doors.files.line_file import LineFile
from nodeprep.history import node_record, timeline
from nodeprep.history.node_record import BASE, BOOT_DIGITS, FOLDED, MODE, NAME, NodeRecord
from nodeprep.history.timeline import Now
from nodeprep.job_profile import API_VERSION
from nodeprep.snapshot import Snapshot
from nodeprep.values import Value

ALIVE_SECONDS = 30.0  # an agent says at least each 10 s that it lives
HOSTNAME = "/proc/sys/kernel/hostname"


class HistoryReading(Value):
    """The records of a node, oldest first. `bad_lines` are no records; `is_torn`: the last one is half a line.

    `clock_steps` are the boot, the wall time (seconds since 1970) and the seconds of each.
    """

    node: str
    now: Now
    records: tuple[NodeRecord, ...] = ()
    bad_lines: int = 0
    is_torn: bool = False
    file: str = ""
    clock_steps: tuple[tuple[str, float, float], ...] = ()

    @property
    def single(self) -> list[NodeRecord]:
        """The records that are no counts, with the times of corrected clocks."""
        return timeline.corrected(self.records, self.now)

    @property
    def counts(self) -> list[NodeRecord]:
        """The counts of older hours and days."""
        return [one for one in self.records if one.event == FOLDED]

    @property
    def kept_since(self) -> float | None:
        """Wall time of the first record that is kept whole; None if there is none."""
        return next((one.time for one in self.single if one.event != BASE), None)


def of_place(at: NodePlace) -> HistoryReading:
    """This node's. Raises UsageError if it cannot be read, or if no agent ever kept one here."""
    where = directories.directories(at.root)
    file = LineFile(where.state, NAME, MODE)
    try:
        lines = list(file.lines())
    except OSError as error:
        raise UsageError(f"{file.path}: {error.strerror}; wanted to read the history that the agent keeps") from error
    if not lines:
        raise UsageError(f"{file.path}: no history; wanted a node on which nodeprep's agent runs")
    found = [node_record.record_of(one) for one in lines]
    runs = state_store.holder(where.state, where.socket) is not None
    now, files = clock.now(), at.host().files
    mark = AliveMark(where.socket).read()
    # The mark is some seconds old while an agent runs. One that hangs, or cannot keep its history, sets none.
    alive_at = now if runs and mark is not None and now - mark < ALIVE_SECONDS else mark
    boot = files.text(BOOT_ID)
    short = boot[:BOOT_DIGITS] if isinstance(boot, str) else ""
    name = files.text(HOSTNAME)
    return HistoryReading(
        name if isinstance(name, str) else "",
        Now(clock.wall(), now, short, alive_at),
        tuple(one for one in found if one is not None),
        sum(one is None for one in found[:-1]),
        found[-1] is None,
        file.path,
        _steps(tuple(one for one in found if one is not None)),
    )


def last_lines(at: NodePlace, count: int) -> tuple[str, ...]:
    """The last records of this node's history as lines, without what looks like a secret; none if there is none."""
    file = LineFile(directories.directories(at.root).state, NAME, MODE)
    try:
        lines = [one for one in file.lines() if node_record.is_single(one)][-count:]
    except OSError:
        return ()  # `nodeprep history` says why
    return tuple(redaction.masked(one.decode("ascii", "replace")) for one in lines)


def of_snapshot(recording: Snapshot, file: str) -> HistoryReading:
    """What a snapshot took with it. Raises UsageError if that is nothing."""
    if not recording.history:
        raise UsageError(f"{file}: no history; wanted a snapshot of a node on which nodeprep's agent runs")
    found = [node_record.record_of(one.encode()) for one in recording.history]
    records = tuple(one for one in found if one is not None)
    last = records[-1] if records else NodeRecord(0.0, 0.0, "", BASE)
    time = moment.seconds("when", recording.when, 0.0)
    now = Now(time, last.at + max(time - last.time, 0.0), last.boot)
    return HistoryReading(recording.node, now, records, sum(one is None for one in found), file=file)


def document(reading: HistoryReading, records: list[NodeRecord]) -> dict[str, Any]:
    """As docs/history.schema.json says, with these records."""
    return {
        "apiVersion": API_VERSION,
        "kind": "History",
        "node": reading.node,
        "now": {
            "time": moment.exact(reading.now.time),
            "at": reading.now.at,
            "boot": reading.now.boot,
            "aliveAt": reading.now.alive_at,
        },
        "badLines": reading.bad_lines,
        "torn": reading.is_torn,
        "clockSteps": [
            {"boot": boot, "time": moment.exact(time), "seconds": seconds}
            for boot, time, seconds in reading.clock_steps
        ],
        "records": [record_document(one) for one in records],
        "counts": [record_document(one) for one in reading.counts],
    }


def of_document(text: str, node: str) -> HistoryReading | None:
    """What another node's agent printed; None if it is no history."""
    try:
        said = json.loads(text)
        now = said["now"]
        records = [_of_record(one) for one in (*said["counts"], *said["records"])]
        time = moment.seconds("now", now["time"], 0.0)
        alive = now["aliveAt"]
        return HistoryReading(
            str(said["node"] or node),
            Now(time, float(now["at"]), str(now["boot"]), None if alive is None else float(alive)),
            tuple(records),
            int(said["badLines"]),
            bool(said["torn"]),
            clock_steps=tuple(
                (str(one["boot"]), moment.seconds("time", one["time"], 0.0), float(one["seconds"]))
                for one in said["clockSteps"]
            ),
        )
    except (ValueError, TypeError, LookupError, AttributeError, UsageError):
        return None


def _steps(records: tuple[NodeRecord, ...]) -> tuple[tuple[str, float, float], ...]:
    """Where the clock stepped, with the time that the last clock of that boot gives the record after it."""
    right = {(one.boot, one.at): one.time for one in timeline.corrected(records)}
    return tuple((one.boot, right[one.boot, one.at], step) for one, step in timeline.steps(records))


def record_document(record: NodeRecord) -> dict[str, Any]:
    """A record as docs/history.schema.json says."""
    return {
        "time": moment.exact(record.time),
        "at": record.at,
        "boot": record.boot,
        "event": record.event,
        "details": dict(record.fields),
    }


def _of_record(said: Mapping[str, Any]) -> NodeRecord:
    time = moment.seconds("time", said["time"], 0.0)
    return NodeRecord(time, float(said["at"]), str(said["boot"]), str(said["event"]), dict(said["details"]))
