"""Reports: one JSON file in which another pod of ours says what it saw of this node.

That pod has mounts that the agent must not have, and no rights. The agent takes its file for a stranger's word: anybody
who breaks into that pod may write there. So no link is followed, nothing but a plain file of limited size is read, and
a report of another boot or of a writer that has stopped is no report.
"""

from __future__ import annotations

import json
from typing import Any

from nodeprep.doors.files import atomic
from nodeprep.doors.files.reader import Files
from nodeprep.model import Unreadable, Why
from nodeprep.values import Value

MISSED_PERIODS = 3  # a report that is older by so many periods of its writer is old (as of `probes.MISSED_PERIODS`)
FUTURE_SECONDS = 1.0  # both clocks are CLOCK_BOOTTIME of one kernel
MODE = 0o644


class NodeReport(Value):
    """What a report says. `at` is when it was observed, in CLOCK_BOOTTIME seconds; `content` is plain JSON."""

    boot_id: str
    at: float
    content: Any


class ReportTerms(Value):
    """Which report counts: of this boot, of at most `limit` bytes, and not older at `now` than `max_age` seconds."""

    boot_id: str
    now: float
    max_age: float
    limit: int


def write(directory: str, name: str, report: NodeReport) -> None:
    """Replace a report as a whole. Raises OSError."""
    text = json.dumps({"boot-id": report.boot_id, "at": report.at, "content": report.content}, separators=(",", ":"))
    atomic.put(directory, name, f"{text}\n".encode(), MODE)


def read(files: Files, path: str, terms: ReportTerms) -> NodeReport | None | Unreadable:
    """The report at `path`; None where there is none."""
    data = files.plain(path, terms.limit)
    if data is None or isinstance(data, Unreadable):
        return data
    try:
        given = json.loads(data)
        boot_id, at, content = given["boot-id"], given["at"], given["content"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return _bad(path, f"{len(data)} bytes that are no report: wanted JSON with boot-id, at and content")
    if not isinstance(boot_id, str) or not isinstance(at, float | int) or isinstance(at, bool):
        return _bad(path, "no report: wanted text as boot-id and a number of seconds as at")
    if boot_id != terms.boot_id:
        return _bad(path, "written before this boot: its writer does not run")
    age = terms.now - at
    if not -FUTURE_SECONDS <= age <= terms.max_age:  # NaN is neither
        when = f"{age:.0f} s old" if age > 0 else "of a moment that has not come"
        return _bad(path, f"{when}, wanted at most {terms.max_age:.0f} s: does its writer still run?")
    return NodeReport(boot_id, float(at), content)


def _bad(path: str, detail: str) -> Unreadable:
    return Unreadable(Why.MALFORMED, path, detail=detail)
