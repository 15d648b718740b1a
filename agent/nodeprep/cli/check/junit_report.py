"""A report as JUnit's XML, which CI systems show: a test case for each check and device.

The form is that of Jenkins' junit plugin and GitLab's test reports: testsuites, testsuite, testcase, failure, error,
skipped. A failed check is a failure, one that could not look an error, one that found nothing or was waived skipped.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from nodeprep.cli.check import coverage, outcome, table, unread
from nodeprep.cli.check.choices import FailOn
from nodeprep.model import Finding, Report, Status

NOT_JUDGED = 3  # the exit code
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 has not


def text(report: Report, fail_on: FailOn, *, strict: bool = False, time: str) -> str:
    """The whole document. `time` is UTC (RFC 3339)."""
    host = _clean(report.node) or "node"
    cases = [_case(host, one, fail_on) for one in report.findings]
    for skipped in report.skipped:
        case = Element("testcase", classname=f"{host}.{_family(skipped.check)}", name=skipped.check)
        SubElement(case, "skipped", message=_clean(skipped.why))
        cases.append(case)
    end = outcome.outcome(report, fail_on, strict=strict)
    if end.exit_code == NOT_JUDGED and not any(case.find("error") is not None for case in cases):
        # The exit code says that nobody knows, and so does the document.
        unjudged = ", ".join(one.check for one in coverage.coverage(report).unjudged) or "no gate"
        case = Element("testcase", classname=host, name="verdict")
        SubElement(case, "error", type=end.word, message=_clean(f"not judged: {unjudged}; see nodeprep check"))
        cases.append(case)
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": sum(case.find("error") is not None for case in cases),
        "skipped": sum(case.find("skipped") is not None for case in cases),
    }
    told = {name: str(count) for name, count in counts.items()}
    suites = Element("testsuites", {"name": "nodeprep check", **told})
    suite = SubElement(suites, "testsuite", {"name": host, "timestamp": time, "hostname": host, **told})
    suite.extend(cases)
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode")


def _case(host: str, finding: Finding, fail_on: FailOn) -> Element:
    verdict, subject = finding.verdict, finding.subject
    where = f" {subject.name or subject.place}" if subject.place else ""
    case = Element(
        "testcase", classname=_clean(f"{host}.{_family(finding.check)}"), name=_clean(f"{finding.check}{where}")
    )
    message = _clean(f"{verdict.reason}: {table.told(finding)}")
    if finding.waived is not None and finding.status in (Status.FAIL, Status.WARN, Status.UNKNOWN):
        SubElement(case, "skipped", message=_clean(f"waived until {finding.waived.until}: {finding.waived.reason}"))
    elif finding.root is not None:
        SubElement(case, "skipped", message=f"follows from {finding.root}")
    elif outcome.is_fault(finding, fail_on):
        SubElement(case, "failure", type=_clean(verdict.reason), message=message).text = _clean(finding.fix)
    elif finding.status is Status.UNKNOWN:
        cure = unread.cure(verdict.blind) if verdict.blind is not None else finding.fix
        SubElement(case, "error", type=_clean(verdict.reason), message=message).text = _clean(cure)
    elif finding.status is Status.ABSENT:
        SubElement(case, "skipped", message=message)
    elif finding.status is Status.WARN:
        SubElement(case, "system-out").text = message
    return case


def _family(check: str) -> str:
    return check.partition(".")[0]


def _clean(words: str) -> str:
    return NOT_XML.sub("\ufffd", words)
