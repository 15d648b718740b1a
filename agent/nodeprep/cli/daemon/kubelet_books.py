"""`nodeprep kubelet-books`: in a pod of its own, it tells the agent what lies in the kubelet's directory of plugins."""

from __future__ import annotations

import signal
import sys

from nodeprep.cli import place, terminal
from nodeprep.cli.usage import UsageError
from nodeprep.doors import clock
from nodeprep.doors.files import reports
from nodeprep.doors.files.host_root import BOOT_ID
from nodeprep.doors.files.reports import Report
from nodeprep.facts.kubernetes import device_plugins
from nodeprep.facts.kubernetes.device_plugins import REPORT_NAME, REPORT_SECONDS


def run(host_root: str | None, directory: str, *, once: bool = False) -> int:
    """Write a report each `REPORT_SECONDS` until SIGTERM, or one if `once`. Raises UsageError."""
    signal.signal(signal.SIGTERM, _end)  # the first process of a container only gets signals that it handles
    host = place.place(None, host_root).host()
    boot_id = host.boot_id()
    if not boot_id:
        raise UsageError(f"{BOOT_ID}: cannot be read; wanted the id of this boot, which a report must name")
    said = ""
    while True:
        found = device_plugins.observe(host)
        trouble = _write(directory, Report(boot_id, host.now(), device_plugins.as_content(found)))
        if trouble and once:
            raise UsageError(trouble)
        if trouble != said:
            terminal.complain(trouble or f"{directory}/{REPORT_NAME} is written again")
        said = trouble
        if once:
            return 0
        clock.sleep(REPORT_SECONDS)


def _write(directory: str, report: Report) -> str:
    """Write a report; "" or why it could not be written. The agent takes an old one for none."""
    try:
        reports.write(directory, REPORT_NAME, report)
    except OSError as error:
        return f"{directory}/{REPORT_NAME} cannot be written: {error.strerror}; the agent takes it for old"
    return ""


def _end(_signal: int, _frame: object) -> None:
    sys.exit(0)
