"""Findings in groups: one group per fault with its consequences, and one per unreadable thing."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.decide import fault_causes
from nodeprep.model import Finding, Status, Unreadable
from nodeprep.values import Struct, field


class Group(Struct):
    """The same fault on one or more devices, and the findings that follow from it."""

    check: str
    findings: list[Finding]
    consequences: list[Finding] = field(default_factory=list)


class UnreadableGroup(Struct):
    """Unreadable things of the same kind for the same checks; `findings` are the UNKNOWN ones because of them."""

    checks: tuple[str, ...]
    blinds: list[Unreadable]
    findings: list[Finding]


def is_bad(finding: Finding) -> bool:
    """Whether it fails, warns or could not look, and nothing excuses it."""
    return finding.status in (Status.FAIL, Status.WARN, Status.UNKNOWN) and finding.waived is None


def faults(findings: Iterable[Finding], status: Status) -> list[Group]:
    """The findings of a status that count, by check and reason, in the order of the checks."""
    groups: dict[tuple[str, str], Group] = {}
    for finding in findings:
        if finding.counts and finding.status is status:
            key = (finding.check, finding.verdict.reason)
            groups.setdefault(key, Group(finding.check, [])).findings.append(finding)
    for group in groups.values():
        group.findings.sort(key=lambda finding: (finding.subject.place, finding.subject.port or 0))
    return list(groups.values())


def attach(groups: list[Group], findings: Iterable[Finding]) -> list[Finding]:
    """Put each consequence under the group that it follows from. Returns the consequences without such a group."""
    found = tuple(findings)
    loose: list[Finding] = []
    for finding in found:
        if finding.root is None:
            continue
        top = _top(finding, found, set())
        home = next((group for group in groups if top is not None and top in group.findings), None)
        (home.consequences if home else loose).append(finding)
    return loose


def waived(findings: Iterable[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """The waived findings, each with what is excused because it follows from it."""
    excused = [one for one in findings if one.waived is not None and one.status not in (Status.OK, Status.ABSENT)]
    homes = {id(one): _home(one, excused) for one in excused}
    followers: dict[int, list[Finding]] = {id(one): [] for one in excused if homes[id(one)] is None}
    for one in excused:
        home = homes[id(one)]
        if home is not None:
            followers.setdefault(id(home), []).append(one)
    return [(one, followers[id(one)]) for one in excused if homes[id(one)] is None]


def _home(finding: Finding, excused: list[Finding]) -> Finding | None:
    """The waived finding that this one follows from, if the same waiver excuses both."""
    near = (
        other
        for other in excused
        if (other.check, other.waived, other.status) == (finding.root, finding.waived, Status.FAIL)
        and fault_causes.explains(other.subject, finding.subject)
    )
    return next((other for other in near if other.root is None), None)


def _top(finding: Finding, findings: tuple[Finding, ...], passed: set[str]) -> Finding | None:
    """The end of the chain of roots. The chain is longer than one if a node-wide finding links devices."""
    if finding.root in passed:
        return None
    near = [
        other
        for other in findings
        if other.check == finding.root
        and other.status is Status.FAIL
        and fault_causes.explains(other.subject, finding.subject)
    ]
    standing = next((other for other in near if other.root is None), None)
    if standing is not None or not near:
        return standing
    return _top(near[0], findings, passed | {finding.root or ""})


def blinds(findings: Iterable[Finding]) -> list[UnreadableGroup]:
    """What could not be read, and the checks that are UNKNOWN because of it; each path once."""
    by_path: dict[Unreadable, list[Finding]] = {}
    broken: list[UnreadableGroup] = []
    for finding in findings:
        if not finding.counts or finding.status is not Status.UNKNOWN:
            continue
        if finding.verdict.blind is None:
            broken.append(UnreadableGroup((finding.check,), [], [finding]))
        else:
            by_path.setdefault(finding.verdict.blind, []).append(finding)
    merged: dict[tuple[object, ...], UnreadableGroup] = {}
    for blind, left in by_path.items():
        checks = tuple(dict.fromkeys(finding.check for finding in left))
        one = merged.setdefault((checks, blind.kind, blind.errno, blind.detail), UnreadableGroup(checks, [], []))
        one.blinds.append(blind)
        one.findings += left
    return [*merged.values(), *broken]
