"""A report for programs: JSON by docs/report.schema.json. But for `time`, equal looks give equal bytes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from nodeprep import __version__
from nodeprep.cli.check import coverage, finding_groups, outcome, unread
from nodeprep.cli.check.choices import FailOn
from nodeprep.job_profile import API_VERSION
from nodeprep.model import Finding, Remedy, Report, Status, Unreadable, Waived


def document(
    report: Report, fail_on: FailOn, *, time: str, strict: bool = False, failing: bool = False
) -> dict[str, Any]:
    """The report as plain values; findings in the order of the checks, and by place and port within a check.

    `time` is that of the look, UTC (RFC 3339). `failing`: only findings that fail, warn or could not look are listed.
    """
    end = outcome.outcome(report, fail_on, strict=strict)
    order = {check: index for index, check in enumerate(dict.fromkeys(finding.check for finding in report.findings))}
    findings = sorted(report.findings, key=lambda one: (order[one.check], one.subject.place, one.subject.port or 0))
    return {
        "apiVersion": API_VERSION,
        "kind": "Report",
        "version": __version__,
        "time": time,
        "node": report.node,
        "bootId": report.boot_id,
        "profile": report.profile,
        "chosenBy": report.chosen_by,
        "verdict": str(end.word),
        "exitCode": end.exit_code,
        "basis": _basis(report),
        "gates": list(report.gates),
        "agent": report.agent,
        "lookedFor": report.missing_hardware,
        "notes": list(report.notes),
        "counts": _counts(report.findings),
        "findings": [_finding(one) for one in findings if not failing or finding_groups.is_bad(one)],
        "skipped": [{"check": one.check, "why": one.why} for one in report.skipped],
    }


def text(value: object) -> str:
    """JSON in ASCII: bytes of a name that are not UTF-8 become backslash escapes."""
    return json.dumps(_unicode(value), indent=2, ensure_ascii=True)


def _basis(report: Report) -> dict[str, Any]:
    """What the verdict rests on beside findings."""
    basis, seen = report.basis, coverage.coverage(report)
    return {
        "copy": basis.is_copy,
        "selection": basis.is_selection,
        "nics": basis.nics,
        "baseline": basis.baseline,
        "checks": {"judged": seen.judged, "selected": seen.selected, "of": max(basis.checks, seen.selected)},
        "gates": {"judged": seen.gates - len(seen.unjudged), "of": seen.gates},
        "restsOn": list(basis.rests_on),
        "unjudged": [{"check": one.check, "why": one.why} for one in seen.unjudged],
    }


def _counts(findings: tuple[Finding, ...]) -> dict[str, int]:
    """Findings that count, by status; then the numbers of consequences and of waived findings."""
    standing = Counter(finding.status for finding in findings if finding.counts)
    counts = {str(status): standing[status] for status in Status}
    waived = sum(finding.waived is not None for finding in findings)
    folded = sum(finding.root is not None and finding.waived is None for finding in findings)
    return counts | {"folded": folded, "waived": waived}


def _finding(finding: Finding) -> dict[str, Any]:
    verdict = finding.verdict
    return {
        "check": finding.check,
        "severity": str(finding.severity),
        "status": str(finding.status),
        "reason": verdict.reason,
        "subject": {"place": finding.subject.place, "port": finding.subject.port, "name": finding.subject.name},
        "message": verdict.message,
        "observed": str(verdict.observed),
        "expected": str(verdict.expected),
        "blind": _blind(verdict.blind),
        "fix": _fix(finding),
        "remedy": _remedy(verdict.remedy),
        "root": finding.root,
        "waived": _waived(finding.waived),
        "drill": finding.drill,
    }


def _fix(finding: Finding) -> str:
    """What to do; if something could not be read, what lets it be read."""
    blind = finding.verdict.blind
    return unread.cure(blind) if blind is not None and finding.status is Status.UNKNOWN else finding.fix


def _blind(blind: Unreadable | None) -> dict[str, Any] | None:
    if blind is None:
        return None
    return {"kind": str(blind.kind), "path": blind.path, "errno": blind.errno, "detail": blind.detail}


def _remedy(remedy: Remedy | None) -> dict[str, Any] | None:
    return None if remedy is None else {"name": remedy.playbook, "args": dict(remedy.args)}


def _waived(waived: Waived | None) -> dict[str, Any] | None:
    if waived is None:
        return None
    return {"reason": waived.reason, "until": waived.until, "daysLeft": waived.days_left}


def _unicode(value: object) -> object:
    """The value without lone surrogates: Python uses them for undecodable bytes, and JSON does not have them."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case Mapping():
            return {_unicode(key): _unicode(one) for key, one in value.items()}
        case list():
            return [_unicode(one) for one in value]
        case _:
            return value
