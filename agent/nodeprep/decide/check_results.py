"""What one fresh look at one check found: failures, subjects that it could not see, and values that passed."""

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
    """The findings of one check from a fresh look. There are none if the check was not run."""

    check: Check
    observation: CheckObservation
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> dict[Subject, Finding]:
        """The failed subjects that no waiver excuses. Of several failures of one subject, the root comes first."""
        found: dict[Subject, Finding] = {}
        for one in sorted((one for one in self.findings if one.waived is None), key=_rank):
            if one.status is Status.FAIL:
                found.setdefault(one.subject, one)
        return found

    @property
    def is_clean(self) -> bool:
        """Whether it found no fault and could look at everything. Waived findings do not count."""
        standing = (one.status for one in self.findings if one.waived is None)
        return bool(self.findings) and not {Status.FAIL, Status.UNKNOWN}.intersection(standing)

    @property
    def blind_message(self) -> str:
        """What it could not look at, for people. "" if it could, or if another finding says why."""
        unknown = (one for one in self.findings if one.status is Status.UNKNOWN and one.counts)
        return min((one.verdict.message for one in unknown), default="")

    def could_look_at(self, subject: Subject) -> bool:
        """Whether a pass or no finding tells anything about a subject. A waiver does not change that."""
        unknown = (one.subject for one in self.findings if one.status is Status.UNKNOWN)
        return bool(self.findings) and not any(_hides(one, subject) for one in unknown)

    @property
    def values(self) -> dict[Subject, str]:
        """The value at which each subject passed or was waived. "" if it failed or passed at several values."""
        failed = {one.subject for one in self.findings if one.status is Status.FAIL and one.waived is None}
        values: dict[Subject, set[str]] = {subject: set() for subject in failed}
        for one in self.findings:
            if one.status is Status.OK or (one.status is Status.FAIL and one.waived is not None):
                values.setdefault(one.subject, set()).add(one.verdict.observed)
        return {one: min(seen) if len(seen) == 1 and one not in failed else "" for one, seen in values.items()}


def check_results(
    findings: Iterable[Finding], observations: Mapping[str, CheckObservation], checks: Mapping[str, Check]
) -> tuple[CheckResult, ...]:
    """One result for each of our checks that has a fresh look, in the order of their ids."""
    found_by_check: dict[str, list[Finding]] = {}
    for one in findings:
        found_by_check.setdefault(one.check, []).append(one)
    observed = sorted(observations.keys() & checks.keys())
    return tuple(CheckResult(checks[one], observations[one], tuple(found_by_check.get(one, ()))) for one in observed)


def _rank(finding: Finding) -> tuple[bool, str, str, str, str]:
    """Any order, as long as it does not depend on the order of the findings."""
    verdict = finding.verdict
    remedy = "" if verdict.remedy is None else str(verdict.remedy)
    return finding.root is not None, verdict.reason, verdict.message, verdict.observed, remedy


def _hides(unknown: Subject, subject: Subject) -> bool:
    """Whether a failed look at `unknown` also hides `subject`: it is the whole node, or the device of the port."""
    if unknown in (NODE, SEVERAL):
        return True
    return unknown.place == subject.place and unknown.port in (None, subject.port)
