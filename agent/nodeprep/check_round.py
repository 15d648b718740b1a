"""Judges a look with every check whose facts exist. Silence is evidence. Consequences are folded under their roots."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial

from nodeprep import checks as all_checks
from nodeprep import fault_boundary, job_profile
from nodeprep.checks import CHECKS
from nodeprep.decide import fault_causes
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.alibaba import platform
from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.job_profile import Profile
from nodeprep.look import Look
from nodeprep.model import (
    CHECK_BROKE,
    NODE,
    NOTHING_HERE,
    OTHER_PLATFORM,
    SEVERAL,
    SILENT_DEVICE,
    CannotLook,
    Check,
    Fact,
    Finding,
    Lack,
    Seen,
    Severity,
    Shown,
    Skipped,
    Status,
    Subject,
    Unreadable,
    Verdict,
    Waived,
    WantedBy,
    Why,
    cannot_look,
    failing_anyway,
    grouped,
    raw,
)
from nodeprep.values import Value, replace

BAD = (Status.FAIL, Status.WARN, Status.UNKNOWN)
NOT_ANSWERING = (errno.EIO, errno.ENODEV, errno.ENXIO)

ELSEWHERE = Verdict(NODE, OTHER_PLATFORM.status, OTHER_PLATFORM.name, "this is no node of Alibaba Cloud")


def needed(checks: Iterable[Check]) -> tuple[Fact, ...]:
    """The facts that these checks need or can use. The inventory needs three of them and uses a fourth."""
    kinds = {kind for check in checks for kind in (*check.needs, *check.uses)}
    kinds |= {Pci, Rdma, Links, RdmaNetlink} if Expected in kinds else set()
    return tuple(fact for fact in FACTS if fact.kind in kinds)


def comparing(ids: Iterable[str]) -> frozenset[str]:
    """Those of these checks that compare two looks. None of a platform's own does, so none is imported for this."""
    return frozenset(one for one in ids if not all_checks.is_of_alibaba_cloud(one) and CHECKS[one].rates)


def elsewhere(ids: Iterable[str], look: Look) -> frozenset[str]:
    """Those of these checks that are about another platform than this node's."""
    if platform.is_alibaba(look.facts):
        return frozenset()
    return frozenset(filter(all_checks.is_of_alibaba_cloud, ids))


class UndeclaredReason(Exception):
    """A check gave a reason that its CHECK does not declare: a fault of ours."""


class RoundFindings(Value):
    """The findings of the checks, in the order of the checks, and the checks that were not run."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]


def judge(
    checks: Iterable[Check],
    look: Look,
    before: Look | None,
    profile: Profile,
    wants: Mapping[str, object],
    *,
    insisted: frozenset[str] = frozenset(),
) -> RoundFindings:
    """Run every check on a look. `before` is the look before it, for rates. `wants` replaces numbers of checks by id.

    Without access, the gates of the profile and the `insisted` checks are unknown. Other checks are then not run.
    """
    given = tuple(checks)
    judged = unfolded(given, look, before, profile, wants, insisted=insisted)
    return RoundFindings(fold(judged.findings, {check.id: check.after for check in given}), judged.skipped)


def unfolded(
    checks: Iterable[Check],
    look: Look,
    before: Look | None,
    profile: Profile,
    wants: Mapping[str, object],
    *,
    insisted: frozenset[str] = frozenset(),
    expected: Expected | Unreadable | None = None,
) -> RoundFindings:
    """As `judge`, but no finding has a root. A caller that judges only some checks folds when all findings exist.

    `expected` is the result of `expect`, if it is already known.
    """
    expected = expect(look, profile) if expected is None else expected
    given = tuple(checks)
    others = elsewhere((check.id for check in given), look)
    said: list[tuple[Check, Verdict]] = []
    skipped: list[Skipped] = []
    for check in given:
        sure = check.id in insisted.union(profile.gates)
        if not sure and check.id in others:
            said.append((check, ELSEWHERE))
            continue
        why = _not_run(check, look, before, insisted=sure)
        if why:
            skipped.append(Skipped(check.id, why))
            continue
        want = wants.get(check.id) or (check.want() if check.want else None)
        by = WantedBy(job_profile.stated_by(profile, check.id))
        earlier = None if before is None else Seen(_values(check, before, expected, want, by))
        seconds = 0.0 if before is None else look.at - before.at
        seen = Seen(_values(check, look, expected, want, by), earlier, seconds)
        said += ((check, verdict) for verdict in run_check(check, seen))
    return RoundFindings(
        tuple(check.finding(verdict) for check, verdict in _convict(said, look, before)), tuple(skipped)
    )


def expect(look: Look, profile: Profile) -> Expected | Unreadable:
    """The inventory, compared with this look. It is Unreadable if the RDMA devices are."""
    rdma = look.facts.get(Rdma)
    return (
        rdma
        if isinstance(rdma, Unreadable)
        else inventory.derive(profile, look.get(Pci), look.get(Rdma), look.get(Links), look.get(RdmaNetlink))
    )


def _not_run(check: Check, look: Look, before: Look | None, *, insisted: bool) -> str:
    """Why a check is not run, "" if it is."""
    if check.rates and before is None and not (look.live and _has_no_ports(look)):
        return "compares two looks at a live node (--settle SECONDS)" if look.live else "needs a live node"
    for kind in check.needs:
        value = look.facts.get(kind)
        if kind is not Expected and value is None:
            return "needs a live node"
        if isinstance(value, Unreadable) and value.not_recorded:
            return f"no record of {value.path}"
        if isinstance(value, Unreadable) and value.is_not_mounted and not insisted:
            return value.detail
        if isinstance(value, Unreadable) and value.not_asked and not insisted:
            return f"needs access to {value.path} (--kubeconfig FILE --node NAME)"
    return ""


def _has_no_ports(look: Look) -> bool:
    """Whether there is nothing to compare: then such a check is absent after any number of looks."""
    rdma = look.get(Rdma)
    return rdma is not None and not rdma.ports


def _values(
    check: Check, look: Look, expected: Expected | Unreadable, want: object, by: WantedBy
) -> dict[type, object]:
    """What a check may see: the facts that it names, if this kind of look shows them, and its own Want."""
    values: dict[type, object] = {}
    for kind in (*check.needs, *check.uses):
        value = expected if kind is Expected else look.facts.get(kind)
        if value is not None and not (isinstance(value, Unreadable) and _is_no_loss(value, kind, check)):
            values[kind] = value
    if check.want is not None:
        values |= {check.want: want, WantedBy: by}
    return values


def _is_no_loss(blind: Unreadable, kind: type, check: Check) -> bool:
    """Whether the check can run without it: a tree does not record it, or the check only `uses` Kubernetes.

    If the API server is silent, the node is judged by what it shows itself.
    """
    return blind.not_recorded or (kind is Cluster and kind not in check.needs)


def run_check(check: Check, seen: Seen) -> Iterator[Verdict]:
    """Run one check on facts. Its verdicts; ABSENT if it gives none, UNKNOWN if it could not look or broke.

    A check that gives an undeclared reason is broken too. If it could not look, it keeps the failures that stand
    whatever it could not read.
    """
    told = iter(() if check.rates and seen.before is None else check.judge(seen))
    said, failed = False, set[Subject]()
    while True:
        verdict, broke = fault_boundary.contained(lambda: _declared(check, next(told, None)))
        if isinstance(broke, CannotLook):
            faults, _ = fault_boundary.contained(partial(failing_anyway, partial(check.judge, seen), broke))
            yield from (fault for fault in faults or () if fault.subject not in failed)
            if NODE not in {fault.subject for fault in faults or ()} - failed:
                yield cannot_look(NODE, broke.blind)
            return
        if broke is not None:
            message = f"{check.id} broke: {fault_boundary.words_of(broke)}; please report it"
            yield Verdict(NODE, CHECK_BROKE.status, CHECK_BROKE.name, message)
            return
        if verdict is None:
            break
        said = True
        failed |= {verdict.subject} if verdict.status is Status.FAIL else set()
        yield verdict
    if not said:
        message = "this node has nothing that the question is about"
        yield Verdict(NODE, NOTHING_HERE.status, NOTHING_HERE.name, message)


def _declared(check: Check, verdict: Verdict | None) -> Verdict | None:
    """The verdict. Raises UndeclaredReason for one that the check does not declare."""
    if verdict is None or check.declares(verdict.reason, verdict.status):
        return verdict
    raise UndeclaredReason(f"{verdict.status} {verdict.reason} is not among its reasons")


def _convict(said: list[tuple[Check, Verdict]], look: Look, before: Look | None) -> Iterable[tuple[Check, Verdict]]:
    """Turn silence into evidence: a device that the bus still shows and that twice did not answer is faulty."""
    pci = look.get(Pci)
    if before is None or pci is None or not any(_is_silence(verdict.blind) for _, verdict in said):
        return said
    paths = {blind.path for value in before.facts.values() for blind in unreadables(value) if _is_silence(blind)}
    return [(check, _convicted(check, verdict, pci, paths)) for check, verdict in said]


def _is_silence(blind: Unreadable | None) -> bool:
    return blind is not None and (blind.kind is Why.TIMEOUT or blind.errno in NOT_ANSWERING)


def _convicted(check: Check, verdict: Verdict, pci: Pci, paths: set[str]) -> Verdict:
    blind, place = verdict.blind, verdict.subject.place
    if blind is None or not _is_silence(blind) or blind.path not in paths or pci.at_address(place) is None:
        return verdict
    status = Status.FAIL if check.severity is Severity.GATE else Status.WARN
    (reason,) = (one for one in SILENT_DEVICE if one.status is status)
    message = f"{verdict.subject.name} at {place} is on the bus and did not answer twice: {blind}"
    return replace(verdict, status=status, reason=reason.name, message=message)


def unreadables(value: object) -> Iterator[Unreadable]:
    """Every Unreadable in a fact, at any depth."""
    if isinstance(value, Unreadable):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from unreadables(one)
    elif isinstance(value, Shown):
        yield from unreadables(tuple(raw(value).values()))


def fold(findings: Iterable[Finding], after: Mapping[str, tuple[str, ...]]) -> tuple[Finding, ...]:
    """Fold each finding below its cause: a failure of a check in its `after`. `root` is then the id of that check.

    A cause is about the same device or port, or one of the two is about the whole node. A waived cause excuses what
    follows from it at its own place, and nothing else: such a finding gets its `waived`. A finding that only a waived
    cause elsewhere explains has no root, so it counts. What lacks n things follows from n faults or more, waived or
    not (docs/adr/0033). Of the given findings, only those that a waiver names are waived.
    """
    found = tuple(findings)
    causes = cache(lambda check, follows=None: fault_causes.ancestors(check, after, follows))
    failed = [finding for finding in found if finding.status is Status.FAIL]
    if not failed and all(one.root is None for one in found):
        return found  # as on most nodes, most of the time
    order = list(after)
    places = grouped(range(len(failed)), lambda number: failed[number].subject.place)

    def explaining(finding: Finding) -> list[Finding]:
        known, place = causes(finding.check, finding.verdict.follows), finding.subject.place
        around = [number for one in {place, NODE.place} for number in places.get(one, ())]
        everywhere = place in (NODE.place, SEVERAL.place)
        others = failed if everywhere else [failed[number] for number in sorted(around)]
        near = [one for one in others if one.check in known and fault_causes.explains(one.subject, finding.subject)]
        return near if finding.verdict.lack is None else _enough(near, finding.verdict.lack)

    def waiver(finding: Finding, near: list[Finding]) -> Waived | None:
        here = (one.waived for one in near if one.waived and fault_causes.is_same_place(one.subject, finding.subject))
        return finding.waived or next(here, None)

    waived_ones = any(one.waived for one in failed)
    excused = {id(one): waiver(one, explaining(one)) for one in failed} if waived_ones else {}

    def folded(finding: Finding) -> Finding:
        if finding.status not in BAD:
            return finding if finding.root is None else replace(finding, root=None)
        near = explaining(finding)
        standing = [one for one in near if excused.get(id(one)) is None]
        waived = waiver(finding, near)
        elsewhere = [one for one in near if one.subject.place != NODE.place]
        if waived is None and finding.verdict.lack is not None and elsewhere and not standing:
            waived = excused.get(id(elsewhere[0]))
        # A waived cause elsewhere is no cause of what counts.
        roots = {one.check for one in (near if waived is not None else standing)}
        # The one that no other of them explains; among several, the first that a person would look at.
        first = [one for one in roots if not causes(one) & roots]
        root = min(first, key=order.index, default=None)
        same = root == finding.root and waived == finding.waived
        return finding if same else replace(finding, root=root, waived=waived)

    return tuple(map(folded, found))


def _enough(near: list[Finding], lack: Lack) -> list[Finding]:
    """The failures that explain a count that lacks something: all, if there are as many; else those of the node."""
    places = fault_causes.explain_lack((one.subject.place for one in near), lack)
    return [one for one in near if one.subject.place in places]
