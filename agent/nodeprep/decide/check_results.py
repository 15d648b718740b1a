"""What one fresh look at one check said: who failed, at whom it could not look, and what passed at which value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep.model import NODE, SEVERAL, Check, Finding, Status, Subject
from nodeprep.values import Value


class CheckObservation(Value):
    """When the facts of one fresh look at a check were observed: the first began at `began`, the last at `ended`.

    CLOCK_BOOTTIME seconds. The next look counts as fresh only if all of its facts were observed after `ended`.
    """

    began: float
    ended: float


class CheckResult(Value):
    """The findings of a check that was looked at afresh; there are none where it was not run."""

    check: Check
    observation: CheckObservation
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> dict[Subject, Finding]:
        """Whom it found at fault and nobody excused; of several faults of one subject, the root comes first."""
        found: dict[Subject, Finding] = {}
        for one in sorted((one for one in self.findings if one.waived is None), key=_rank):
            if one.status is Status.FAIL:
                found.setdefault(one.subject, one)
        return found

    @property
    def is_clean(self) -> bool:
        """Whether it found no fault and could look at everything, but for what an operator excused."""
        standing = (one.status for one in self.findings if one.waived is None)
        return bool(self.findings) and not {Status.FAIL, Status.UNKNOWN}.intersection(standing)

    @property
    def blind(self) -> str:
        """At what it could not look, for people; "" where it could, and where another finding says why."""
        unknown = (one for one in self.findings if one.status is Status.UNKNOWN and one.counts)
        return min((one.verdict.message for one in unknown), default="")

    def could_look_at(self, subject: Subject) -> bool:
        """Whether silence about a subject, or a pass, is a word about it. A waiver does not make it one."""
        unknown = (one.subject for one in self.findings if one.status is Status.UNKNOWN)
        return bool(self.findings) and not any(_hides(one, subject) for one in unknown)

    @property
    def values(self) -> dict[Subject, str]:
        """The value at which each subject passed; "" for those that failed or passed at several."""
        failed = {one.subject for one in self.findings if one.status is Status.FAIL}
        told: dict[Subject, set[str]] = {subject: set() for subject in failed}
        for one in self.findings:
            if one.status is Status.OK:
                told.setdefault(one.subject, set()).add(one.verdict.observed)
        return {one: min(said) if len(said) == 1 and one not in failed else "" for one, said in told.items()}


def check_results(
    findings: Iterable[Finding], fresh: Mapping[str, CheckObservation], checks: Mapping[str, Check]
) -> tuple[CheckResult, ...]:
    """One for each check of ours that was looked at afresh, in the order of their ids."""
    said: dict[str, list[Finding]] = {}
    for one in findings:
        said.setdefault(one.check, []).append(one)
    looked = sorted(fresh.keys() & checks.keys())
    return tuple(CheckResult(checks[one], fresh[one], tuple(said.get(one, ()))) for one in looked)


def _rank(finding: Finding) -> tuple[bool, str, str, str, str]:
    """Any order will do that is the same whatever the order of the findings."""
    verdict = finding.verdict
    remedy = "" if verdict.remedy is None else str(verdict.remedy)
    return finding.root is not None, verdict.reason, verdict.message, verdict.observed, remedy


def _hides(unknown: Subject, subject: Subject) -> bool:
    """Whether looking at the one in vain leaves the other in the dark: the whole, or the device of the port."""
    if unknown in (NODE, SEVERAL):
        return True
    return unknown.place == subject.place and unknown.port in (None, subject.port)
