"""A report in one line, for many hosts in one terminal: the host, the verdict, and the first fault."""

from __future__ import annotations

from nodeprep.cli.check import coverage, finding_groups, outcome
from nodeprep.cli.check.choices import FailOn
from nodeprep.cli.check.outcome import VerdictWord
from nodeprep.model import Finding, Report, Status

NAMELESS = "-"  # in place of what a node does not show


def line(report: Report, fail_on: FailOn, *, strict: bool = False) -> str:
    """`HOST VERDICT CHECK REASON DEVICE PLACE (+N)`. Without a fault, what keeps the verdict from being READY."""
    end = outcome.outcome(report, fail_on, strict=strict)
    host = report.node or NAMELESS
    said = f"{host} {end.word.replace('-', ' ').upper()}"
    if fault := first_fault(report, fail_on):
        return f"{said} {fault}"
    if end.word is VerdictWord.UNKNOWN:
        unjudged = coverage.coverage(report).unjudged
        more = f" (+{len(unjudged) - 1})" if unjudged[1:] else ""
        return f"{said} {unjudged[0].check}: {unjudged[0].why}{more}" if unjudged else said
    return said


def first_fault(report: Report, fail_on: FailOn) -> str:
    """The first fault, and how many more there are; "" without one."""
    faults = _faults(report, fail_on)
    more = f" (+{len(faults) - 1})" if faults[1:] else ""
    return f"{_told(faults[0])}{more}" if faults else ""


def _faults(report: Report, fail_on: FailOn) -> list[Finding]:
    statuses = (Status.FAIL, Status.WARN) if fail_on is FailOn.WARN else (Status.FAIL,)
    groups = [group for status in statuses for group in finding_groups.faults(report.findings, status)]
    return [finding for group in groups for finding in group.findings]


def _told(finding: Finding) -> str:
    subject = finding.subject
    device = dict.fromkeys((subject.name, subject.place)) if subject.place else ()
    return " ".join((finding.check, finding.verdict.reason, *filter(None, device)))
