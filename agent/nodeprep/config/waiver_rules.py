"""Findings that an operator excused until a date: shown with the reason and the days left, but not counted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from fnmatch import fnmatchcase

from nodeprep.model import Finding, Status, Waived
from nodeprep.values import Value, replace

WAIVER_LIMIT_DAYS = 90  # days that a waiver may last (design 2.3)
EXCUSABLE = (Status.FAIL, Status.WARN, Status.UNKNOWN)


class Waiver(Value):
    """Excuses findings of the checks, devices and nodes that its patterns match, up to and including the date `until`.

    `device` is compared with the PCI address, `address/port` and the device's name. `until` is YYYY-MM-DD.
    """

    check: str
    until: str
    reason: str
    device: str = "*"
    nodes: tuple[str, ...] = ("*",)

    def days_left(self, today: str) -> int:
        """The days until it ends; negative if it has expired."""
        return (date.fromisoformat(self.until) - date.fromisoformat(today)).days

    def covers(self, finding: Finding, node: str) -> bool:
        subject = finding.subject
        names = (subject.place, subject.key, subject.name)
        return (
            fnmatchcase(finding.check, self.check)
            and any(fnmatchcase(name, self.device) for name in names)
            and any(fnmatchcase(node, pattern) for pattern in self.nodes)
        )


def apply_waivers(
    findings: Iterable[Finding], waivers: Iterable[Waiver], node: str, today: str
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """The findings, excused if a waiver in force covers them, and notes on waivers that would cover them.

    A waiver is in force if it has not expired and ends within WAIVER_LIMIT_DAYS days. `today` is the UTC date of the
    look, so that a recorded node is judged as it was.
    """
    given = tuple(waivers)
    if not given:
        return tuple(findings), ()
    in_force = [waiver for waiver in given if 0 <= waiver.days_left(today) <= WAIVER_LIMIT_DAYS]
    expired = [waiver for waiver in given if waiver not in in_force]
    excused: list[Finding] = []
    missed: dict[Waiver, int] = {}
    for finding in findings:
        bad = finding.status in EXCUSABLE
        waiver = next((one for one in in_force if bad and one.covers(finding, node)), None)
        if waiver is not None:
            finding = replace(finding, waived=Waived(waiver.reason, waiver.until, waiver.days_left(today)))  # noqa: PLW2901
        else:
            for one in expired:
                missed[one] = missed.get(one, 0) + (bad and one.covers(finding, node))
        excused.append(finding)
    return tuple(excused), tuple(_note(waiver, count, today) for waiver, count in missed.items() if count)


def _note(waiver: Waiver, count: int, today: str) -> str:
    findings = "1 finding" if count == 1 else f"{count} findings"
    if waiver.days_left(today) > WAIVER_LIMIT_DAYS:
        far = f"until {waiver.until} is more than {WAIVER_LIMIT_DAYS} days after today, {today} (see date)"
        return f"the waiver of {waiver.check} ({waiver.reason}) does not count: {far}; {findings} count"
    return f"the waiver of {waiver.check} ({waiver.reason}) expired on {waiver.until}: {findings} count again"
