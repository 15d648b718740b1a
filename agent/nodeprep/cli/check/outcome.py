"""The result of a report: the verdict in a word, and the exit code (design 5, docs/adr/0033)."""

from __future__ import annotations

from nodeprep.cli.check import coverage
from nodeprep.cli.check.choices import FailOn
from nodeprep.cli.check.coverage import Coverage
from nodeprep.model import Finding, Report, Severity, Status
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value


class VerdictWord(StrEnum):
    """A verdict in a word.

    NO_FAULT: a copy of a node shows no fault. PASSED: no selected check found one. Neither says that the node is ready.
    NOT_JUDGED: no selected check judged anything. NOTHING: this node shows nothing that can be judged.
    """

    READY = "ready"
    NOT_READY = "not-ready"
    UNKNOWN = "unknown"
    NOTHING = "nothing-to-judge"
    NO_FAULT = "no-fault-seen"
    PASSED = "passed"
    NOT_JUDGED = "not-judged"


class CheckOutcome(Value):
    """The verdict and the exit code."""

    word: VerdictWord
    exit_code: int


UNKNOWN = CheckOutcome(VerdictWord.UNKNOWN, 3)


def outcome(report: Report, fail_on: FailOn, *, strict: bool = False) -> CheckOutcome:
    """1 if a finding is at or above `fail_on`; else 3 if gates were not judged that have to be, or nobody knows which.

    Else 0.

    Consequences and waived findings do not count. On a live node, and in a recording of one, each gate has to be
    judged; on a copy those that the profile rests on, and with `strict` all.
    """
    counted = [finding for finding in report.findings if finding.counts]
    if any(is_fault(finding, fail_on) for finding in counted):
        return CheckOutcome(VerdictWord.NOT_READY, 1)
    if any(is_gate_unknown(finding, report) for finding in counted):
        return UNKNOWN
    seen = coverage.coverage(report)
    lacks = seen.missing if report.basis.is_copy and not strict else seen.unjudged
    if report.basis.is_selection:
        return _of_selection(report, seen, is_short=bool(lacks))
    if report.basis.undecided and not (report.basis.is_copy and is_nothing(report, seen)):
        return UNKNOWN
    if is_nothing(report, seen) and not (lacks and not report.basis.is_copy):
        return CheckOutcome(VerdictWord.NOTHING, 3 if report.basis.is_named else 0)
    if report.basis.is_copy:
        return CheckOutcome(VerdictWord.NO_FAULT, 3 if lacks else 0)
    return UNKNOWN if lacks else CheckOutcome(VerdictWord.READY, 0)


def _of_selection(report: Report, seen: Coverage, *, is_short: bool) -> CheckOutcome:
    """A selection is judged, and not the node.

    One of which nothing could run is not judged at all. Nor is one that found nothing that it is about: whoever named a
    profile says that something is here.
    """
    if not report.findings and not report.basis.elsewhere:
        return CheckOutcome(VerdictWord.NOT_JUDGED, 3)
    if is_short:
        return UNKNOWN
    if not seen.judged:
        return CheckOutcome(VerdictWord.NOT_JUDGED, 3 if report.basis.is_named else 0)
    return CheckOutcome(VerdictWord.PASSED, 0)


def is_nothing(report: Report, seen: Coverage) -> bool:
    """Whether the node shows nothing to judge: no hardware, no NIC, or nothing of what the profile rests on.

    Absence does not prove health.
    """
    return bool(report.missing_hardware) or report.basis.nics == 0 or not seen.judged or seen.is_empty


def is_fault(finding: Finding, fail_on: FailOn) -> bool:
    return finding.status is Status.FAIL or (fail_on is FailOn.WARN and finding.status is Status.WARN)


def is_gate_unknown(finding: Finding, report: Report) -> bool:
    return finding.status is Status.UNKNOWN and (finding.severity is Severity.GATE or finding.check in report.gates)
