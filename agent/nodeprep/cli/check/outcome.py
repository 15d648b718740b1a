"""The result of a report: ready or not, and the exit code (design 5)."""

from __future__ import annotations

from enum import StrEnum

from nodeprep.cli.check.choices import FailOn
from nodeprep.model import Finding, Report, Severity, Status
from nodeprep.values import Value


class VerdictWord(StrEnum):
    """A verdict in a word. NOTHING: this node shows nothing that can be judged."""

    READY = "ready"
    NOT_READY = "not-ready"
    UNKNOWN = "unknown"
    NOTHING = "nothing-to-judge"


class CheckOutcome(Value):
    """The verdict and the exit code."""

    word: VerdictWord
    exit_code: int


def outcome(report: Report, fail_on: FailOn) -> CheckOutcome:
    """1 if a finding is at or above `fail_on`; else 3 if a gate check could not look; else 0.

    Consequences and waived findings do not count.
    """
    counted = [finding for finding in report.findings if finding.counts]
    if any(is_fault(finding, fail_on) for finding in counted):
        return CheckOutcome(VerdictWord.NOT_READY, 1)
    if any(is_gate_unknown(finding) for finding in counted):
        return CheckOutcome(VerdictWord.UNKNOWN, 3)
    # Absence does not prove health: a node that shows nothing is not called ready.
    judged = any(finding.status in (Status.OK, Status.WARN) for finding in report.findings)
    nothing = bool(report.missing_hardware) or not judged
    return CheckOutcome(VerdictWord.NOTHING if nothing else VerdictWord.READY, 0)


def is_fault(finding: Finding, fail_on: FailOn) -> bool:
    return finding.status is Status.FAIL or (fail_on is FailOn.WARN and finding.status is Status.WARN)


def is_gate_unknown(finding: Finding) -> bool:
    return finding.status is Status.UNKNOWN and finding.severity is Severity.GATE
