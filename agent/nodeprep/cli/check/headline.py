"""The first line of a report: the verdict, and what it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from nodeprep.cli.check import coverage, finding_groups, outcome
from nodeprep.cli.check.check_selection import DESELECTED
from nodeprep.cli.check.coverage import COULD_NOT_LOOK, NO_RECORD, Coverage
from nodeprep.cli.check.finding_groups import Group
from nodeprep.cli.check.outcome import CheckOutcome, VerdictWord
from nodeprep.model import OTHER_PLATFORM, Report, Skipped, Status

IDS_IN_HEADLINE = 4
NOT_PASSED = (Status.FAIL, Status.WARN)


def headline(report: Report, end: CheckOutcome) -> str:
    """The verdict and its basis, in one line."""
    seen = coverage.coverage(report)
    warnings = number(len(finding_groups.faults(report.findings, Status.WARN)), "warning")
    blind = {one.check for one in report.findings if one.counts and one.status is Status.UNKNOWN}
    open_ = f"{number(len(blind), 'check')} could not look" if blind else ""
    match end.word:
        case VerdictWord.NOT_READY:
            failing = finding_groups.faults(report.findings, Status.FAIL)
            fault = f"{number(len(failing), 'fault')} on {_places(failing)}" if failing else ""
            return f"NOT READY: {listed(fault, warnings, open_)}"
        case VerdictWord.UNKNOWN:
            return f"UNKNOWN: {listed('no fault seen, but ' + _doubt(report, seen), warnings)}"
        case VerdictWord.NOTHING:
            return f"NOTHING TO JUDGE: {listed(_nothing(report, seen), warnings, open_)}"
        case VerdictWord.NO_FAULT:
            return f"NO FAULT SEEN: {listed(_of_copy(report, seen), warnings, open_)}{_rests(seen)}"
        case VerdictWord.PASSED:
            return listed(_passed(report, seen), warnings, open_)
        case VerdictWord.NOT_JUDGED:
            why = not_run(_selected(report)) or f"{number(seen.absent, 'check')} found nothing here to judge"
            return f"NOT JUDGED: 0 of {seen.selected} selected: {listed(why, open_)}"
        case VerdictWord.READY:
            return f"READY{listed(_basis(report), warnings, open_)}"


def _basis(report: Report) -> str:
    """What a node was held against, and by how many checks."""
    basis = report.basis
    nics = f"{number(basis.nics, 'NIC')} seen" if basis.nics is not None else "NICs not counted"
    if basis.baseline:
        held = f": {nics}, held against {basis.baseline}"
    else:
        held = f", without a baseline: {nics}, a missing one cannot be noticed"
    judged = coverage.coverage(report).judged
    return f"{held}; by {judged} of {max(basis.checks, judged)} checks"


def _doubt(report: Report, seen: Coverage) -> str:
    """Which gates keep a node from being ready, though no fault was seen, or why nobody knows its gates."""
    blind = {
        one.check
        for one in report.findings
        if one.counts and one.status is Status.UNKNOWN and outcome.is_gate_unknown(one, report)
    }
    looked = f"{number(len(blind), 'gate check')} could not look" if blind else ""
    gates = seen.missing if report.basis.is_copy else seen.unjudged
    left = [one for one in gates if one.why != COULD_NOT_LOOK]
    why = "; ".join(dict.fromkeys(one.why for one in left))
    unjudged = f"{number(len(left), 'gate check')} not judged: {_ids(left)} ({why})" if left else ""
    undecided = report.basis.undecided
    return listed(looked, unjudged, f"the profile is not known: {'; '.join(undecided)}" if undecided else "")


def _nothing(report: Report, seen: Coverage) -> str:
    if report.missing_hardware:
        return report.missing_hardware
    if report.basis.nics == 0:
        return "neither a NIC nor an RDMA device was seen"
    if seen.is_empty and seen.judged:
        return f"nothing here that profile {report.profile} rests on: {', '.join(report.basis.rests_on)}"
    asked = len({one.check for one in report.findings if one.verdict.reason != OTHER_PLATFORM.name})
    return f"{number(asked, 'check')} found nothing that {'it is' if asked == 1 else 'they are'} about"


def _passed(report: Report, seen: Coverage) -> str:
    """How many of a selection passed. PASSED is said where all did of which there was anything to judge."""
    of = f"{seen.passed} of {seen.selected} selected"
    absent = f"{seen.absent} found nothing to judge" if seen.absent else ""
    waived = len({one.check for one in report.findings if one.waived is not None and one.status in NOT_PASSED})
    words = f"PASSED: {of}" if seen.passed == seen.judged else f"NO FAULT: {of} passed"
    return listed(words, absent, not_run(_selected(report)), f"{waived} waived" if waived else "")


def _of_copy(report: Report, seen: Coverage) -> str:
    if seen.gates:
        judged = f"{seen.gates - len(seen.unjudged)} of {seen.gates} gates of profile {report.profile} judged"
        return listed(judged, *coverage.reasons(seen.unjudged))
    left = _selected(report)
    return listed(f"no profile, {seen.selected - len(left)} of {seen.selected} checks judged", *coverage.reasons(left))


def _rests(seen: Coverage) -> str:
    return f"; the profile rests on what was not judged: {_ids(seen.missing)}" if seen.missing else ""


def _selected(report: Report) -> tuple[Skipped, ...]:
    """Checks that were asked for and not run."""
    return tuple(one for one in report.skipped if one.why != DESELECTED)


def _ids(gates: Iterable[Skipped]) -> str:
    ids = [one.check for one in gates]
    more = f" and {len(ids) - IDS_IN_HEADLINE} more" if len(ids) > IDS_IN_HEADLINE else ""
    return f"{', '.join(ids[:IDS_IN_HEADLINE])}{more}"


def not_run(skipped: Iterable[Skipped]) -> str:
    """Why checks were not run, each reason once with the number of checks."""
    reasons = Counter(one.why for one in skipped)
    paths = [why.removeprefix(NO_RECORD) for why in reasons if why.startswith(NO_RECORD)]
    unrecorded = sum(count for why, count in reasons.items() if why.startswith(NO_RECORD))
    said = []
    for why, count in reasons.items():
        verb, blank, rest = why.partition(" ")
        if not why.startswith(NO_RECORD):
            # "needs a live node" is said of one check.
            said.append(f"{number(count, 'check')} {verb if count == 1 else verb.removesuffix('s')}{blank}{rest}")
    if paths:
        said.append(f"{number(unrecorded, 'check')}: this tree has no record of {', '.join(paths)}")
    return "; ".join(said)


def _places(groups: Iterable[Group]) -> str:
    places = {finding.subject.place for group in groups for finding in group.findings}
    devices = number(len(places - {""}), "device") if places - {""} else ""
    return " and ".join(filter(None, (devices, "the node" if "" in places else "")))


def number(count: int, what: str) -> str:
    """A count with its noun, "" for no warnings."""
    return f"{count} {what}{'' if count == 1 else 's'}" if count or what != "warning" else ""


def listed(*parts: str) -> str:
    """The parts that say something, with commas."""
    return ", ".join(filter(None, parts))
