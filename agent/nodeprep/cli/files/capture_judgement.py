"""What stands against a node as the model for others: `profile capture` judges before it writes."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep import check_round
from nodeprep.checks import CHECKS, IDS
from nodeprep.cli import terminal
from nodeprep.cli.check import check_selection
from nodeprep.cli.usage import UsageError
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.expected.kinds import Role
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.look import Look
from nodeprep.model import CannotLook, Finding, Status, Subject
from nodeprep.profile_selection import ProfileSelection
from nodeprep.values import Value


class Acceptance(Value):
    """`--accept CHECK[@DEVICE]`: the operator takes findings of this check although they stand against a capture.

    `device` is a device's or port's name or address; "" is every device of this check.
    """

    check: str
    device: str = ""

    def covers(self, finding: Finding) -> bool:
        subject = finding.subject
        names = (subject.place, subject.key, subject.name, subject.name.partition("/")[0])
        return finding.check == self.check and (not self.device or self.device in names)

    def __str__(self) -> str:
        return f"--accept {self.check}@{self.device}" if self.device else f"--accept {self.check}"


class CaptureJudgement(Value):
    """Findings of a node to be captured. `refused` stand against it, `accepted` would, `listed` do not."""

    refused: tuple[Finding, ...] = ()
    accepted: tuple[Finding, ...] = ()
    listed: tuple[Finding, ...] = ()


def acceptances(words: Iterable[str]) -> tuple[Acceptance, ...]:
    """The acceptances of `--accept`. Raises UsageError for a check that does not exist."""
    found = []
    for word in words:
        check, at, device = word.strip().partition("@")
        if check not in IDS:
            raise UsageError(f"--accept {word!r}: no check {check!r}; {check_selection.nearest(check, list(IDS))}")
        if at and not device:
            raise UsageError(f"--accept {word!r}: found no device after @, wanted a name or an address")
        found.append(Acceptance(check, device))
    return tuple(found)


def judge(findings: Iterable[Finding], accepted: Iterable[Acceptance], rails: frozenset[str]) -> CaptureJudgement:
    """Which findings stand against a capture. `rails` are the places of devices that a job needs.

    A FAIL does, and a WARN that holds a rail against its likes. A waiver excuses nothing here: it is for one node, and
    the profile is for others. A consequence goes with its cause. Raises UsageError for an acceptance of no finding.
    """
    bad = (Status.FAIL, Status.WARN, Status.UNKNOWN)
    causes = [finding for finding in findings if finding.status in bad and finding.root is None]
    given = tuple(accepted)
    for one in given:
        if not any(one.covers(finding) for finding in causes):
            where = f" with {one.device!r}" if one.device else ""
            raise UsageError(f"{one}: {one.check} finds nothing wrong{where}")
    taken = [finding for finding in causes if any(one.covers(finding) for one in given)]
    refused = [finding for finding in causes if finding not in taken and is_refused(finding, rails)]
    listed = [finding for finding in causes if finding not in taken and finding not in refused]
    return CaptureJudgement(tuple(refused), tuple(taken), tuple(listed))


def is_refused(finding: Finding, rails: frozenset[str]) -> bool:
    against_likes = CHECKS[finding.check].is_against_likes(finding.verdict) and finding.subject.place in rails
    return finding.status is Status.FAIL or against_likes


def rails(look: Look, selection: ProfileSelection) -> frozenset[str]:
    """The places of RDMA ports and of their bonds, without those of the front end.

    A port of the same card as a rail is no front end, whatever it speaks: it may be a rail in the wrong mode. One that
    carries traffic in that mode, slower than any rail, is used so.
    """
    expected, rdma, links = check_round.expect(look, selection.profile), look.get(Rdma), look.get(Links)
    if rdma is None or not isinstance(expected, Expected):
        return frozenset()
    cards = {port.hardware for port in rdma.ports if not is_front_end(port, expected)}
    ports = [port for port in rdma.ports if port.hardware in cards and not is_slower_network(port, expected)]
    bonds = [bond for port in ports if links and (bond := links.bond_of(port.netdev, port.bdf)) is not None]
    return frozenset((*(port.place for port in ports), *(bond.subject.place for bond in bonds)))


def is_front_end(port: Port, expected: Expected) -> bool:
    """Whether no job needs it; what cannot be read may be a rail."""
    try:
        member = expected.kinds.of(port)
        return member is not None and member.role is Role.FRONT_END and expected.of_rail(port) is None
    except CannotLook:
        return False


def is_slower_network(port: Port, expected: Expected) -> bool:
    """Whether it carries traffic, in another mode and slower than each rail that is up."""
    member = expected.kinds.of(port)
    if member is None or not member.sound or member.rate is None or not is_front_end(port, expected):
        return False
    rails = [one for one in expected.kinds.rails if one.rate is not None]
    others = all(one.kind.layer != member.kind.layer and member.rate < (one.rate or 0.0) for one in rails)
    return bool(rails) and others


def rows(findings: Iterable[Finding]) -> list[tuple[str, ...]]:
    """Status, what `--accept` takes, and what was seen."""
    return [(finding.status, name(finding), finding.verdict.message) for finding in findings]


def name(finding: Finding) -> str:
    """A finding as `--accept` takes it."""
    return f"{finding.check}@{terminal.clean(address(finding.subject))}"


def address(subject: Subject) -> str:
    """The key of a device; of the node, and of several devices together, the name."""
    return subject.key if ":" in subject.place else subject.name
