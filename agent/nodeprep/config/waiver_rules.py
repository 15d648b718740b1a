"""Findings that an operator excused until a date: shown with the reason and the days left, but not counted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from fnmatch import fnmatchcase

from nodeprep.model import Finding, Status, Subject, Waived
from nodeprep.values import Value, replace

WAIVER_LIMIT_DAYS = 90  # days that a waiver may last (design 2.3)
EXCUSABLE = (Status.FAIL, Status.WARN, Status.UNKNOWN)


class Waiver(Value):
    """Excuses findings of the checks, devices and nodes that its patterns match, up to and including the date `until`.

    `device` is compared with the PCI address, with `address/port`, and with the names of the device and its port, or of
    the interface that a finding is about: `0000:5d:00.0`, `0000:5d:00.0/1`, `mlx5_0`, `mlx5_0/1`, `eth0`. `until` is
    YYYY-MM-DD.
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
        return fnmatchcase(finding.check, self.check) and self.means(finding.subject) and self.is_of(node)

    def means(self, subject: Subject) -> bool:
        """Whether its device is this subject, or what this subject is a port or an interface of."""
        return subject.is_called(self.device)

    def is_in_force(self, today: str) -> bool:
        return 0 <= self.days_left(today) <= WAIVER_LIMIT_DAYS

    def is_of(self, node: str) -> bool:
        return any(fnmatchcase(node, pattern) for pattern in self.nodes)


def excused_devices(waivers: Iterable[Waiver], node: str, today: str) -> tuple[str, ...]:
    """The patterns of devices of which something is excused by name on this node and day."""
    named = {one.device for one in waivers if one.device != "*" and one.is_in_force(today) and one.is_of(node)}
    return tuple(sorted(named))


def apply_waivers(
    findings: Iterable[Finding], waivers: Iterable[Waiver], node: str, today: str
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """The findings, excused if a waiver in force covers them, and notes on the other waivers.

    Said is of a waiver that ran out how many findings count again, and of one in force that it excuses nothing: its
    checks were run, and it is one of this node.

    A waiver is in force if it has not expired and ends within WAIVER_LIMIT_DAYS days. `today` is the UTC date of the
    look, so that a recorded node is judged as it was.
    """
    given = tuple(waivers)
    if not given:
        return tuple(findings), ()
    in_force = [waiver for waiver in given if waiver.is_in_force(today)]
    expired = [waiver for waiver in given if waiver not in in_force]
    excused: list[Finding] = []
    judged = tuple(findings)
    used: set[Waiver] = set()
    missed: dict[Waiver, int] = {}
    for finding in judged:
        bad = finding.status in EXCUSABLE
        waiver = next((one for one in in_force if bad and one.covers(finding, node)), None)
        if waiver is not None:
            used |= {one for one in in_force if one.covers(finding, node)}
            finding = replace(finding, waived=Waived(waiver.reason, waiver.until, waiver.days_left(today)))  # noqa: PLW2901
        else:
            for one in expired:
                missed[one] = missed.get(one, 0) + (bad and one.covers(finding, node))
        excused.append(finding)
    again = (_note(waiver, count, today) for waiver, count in missed.items() if count)
    idle = (_idle(waiver, judged) for waiver in dict.fromkeys(in_force) if waiver not in used and waiver.is_of(node))
    return tuple(excused), (*again, *filter(None, idle))


def _idle(waiver: Waiver, judged: tuple[Finding, ...]) -> str:
    """What is to be said of a waiver that excuses nothing; "" where its checks were not run."""
    own = [finding for finding in judged if fnmatchcase(finding.check, waiver.check)]
    if not own:
        return ""
    whose = f"the waiver of {waiver.check}{'' if waiver.device == '*' else f' for {waiver.device}'} ({waiver.reason})"
    if any(waiver.means(finding.subject) for finding in own):
        return f"{whose} excuses nothing: no fault of it is seen"
    return f"{whose} matches nothing: no finding is about {waiver.device}"


def _note(waiver: Waiver, count: int, today: str) -> str:
    findings = "1 finding" if count == 1 else f"{count} findings"
    if waiver.days_left(today) > WAIVER_LIMIT_DAYS:
        far = f"until {waiver.until} is more than {WAIVER_LIMIT_DAYS} days after today, {today} (see date)"
        return f"the waiver of {waiver.check} ({waiver.reason}) does not count: {far}; {findings} count"
    return f"the waiver of {waiver.check} ({waiver.reason}) expired on {waiver.until}: {findings} count again"
