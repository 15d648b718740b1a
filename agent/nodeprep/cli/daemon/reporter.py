"""Writes reports for the agent of this node: one JSON file, again and again, from a pod that sees what it does not."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from nodeprep.cli import place, terminal
from nodeprep.cli.usage import UsageError
from nodeprep.doors import clock
from nodeprep.doors.files import reports
from nodeprep.doors.files.host_root import BOOT_ID
from nodeprep.doors.files.reports import NodeReport
from nodeprep.doors.node_host import Host
from nodeprep.values import Value


class Reporting(Value):
    """What is reported: `content` of a host as plain JSON, each `seconds`, as the file `name` of `directory`."""

    content: Callable[[Host], object]
    directory: str
    name: str
    seconds: float

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}"


def run(host_root: str | None, reporting: Reporting, *, once: bool = False) -> int:
    """Write reports until SIGTERM, or one if `once`. Raises UsageError."""
    signal.signal(signal.SIGTERM, _end)  # the first process of a container only gets signals that it handles
    host = place.place(None, host_root).host()
    boot_id = host.boot_id()
    if not boot_id:
        raise UsageError(f"{BOOT_ID}: cannot be read; wanted the id of this boot, which a report must name")
    said = ""
    while True:
        at = host.now()
        trouble = _write(reporting, NodeReport(boot_id, at, reporting.content(host)))
        if trouble and once:
            raise UsageError(trouble)
        if trouble != said:
            terminal.complain(trouble or f"{reporting.path} is written again")
        said = trouble
        if once:
            return 0
        clock.sleep(reporting.seconds)


def _write(reporting: Reporting, report: NodeReport) -> str:
    """Write a report; "" or why it could not be written. The agent takes an old one for none."""
    try:
        reports.write(reporting.directory, reporting.name, report)
    except OSError as error:
        return f"{reporting.path} cannot be written: {error.strerror}; the agent takes it for old"
    return ""


def _end(_signal: int, _frame: object) -> None:
    sys.exit(0)
