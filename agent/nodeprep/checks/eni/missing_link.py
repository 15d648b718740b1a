"""Has every ENI that the cloud attached a link in the kernel, or a pod that holds it?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import BOUND_PHASE, MEMBER_TYPE, EniRow
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.links import Links
from nodeprep.model import (
    Check,
    Confirmation,
    Reason,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    Why,
    cannot_look,
)

KUBERNETES = Unreadable(
    Why.MISSING, "the ENIs that pods hold", detail="exclusive ENIs leave the host: give --kubeconfig FILE --node NAME"
)


def judge(seen: Seen) -> Iterator[Verdict]:
    books = ledger.ledger(seen)
    if books is not None:
        yield from seen.each([row for row in books.rows if row.metadata], verdict)


def verdict(row: EniRow) -> Verdict:
    shows = f"{row.where} is attached by the metadata"
    if row.link is not None:
        return Verdict(row.subject, Status.OK, "Link", f"{shows} and the kernel has its link", observed="link")
    books = row.books
    if not row.is_primary and not books.is_shown_kubernetes and books.may_be_exclusive:
        return cannot_look(row.subject, KUBERNETES)
    if row.is_primary:  # no pod gets this ENI, so no record of a pod can explain it
        return missing(row, shows)
    holder = row.holder
    if holder is not None and holder.phase == BOUND_PHASE:
        in_pod = f"{shows}; {holder.record[:80]} holds it ({holder.phase})"
        return Verdict(row.subject, Status.OK, "InPod", in_pod, observed="in a pod")
    if MEMBER_TYPE in (holder.type if holder else "", row.record.type if row.record else ""):
        return Verdict(row.subject, Status.OK, "Member", f"{shows}; a member ENI is a VLAN of its trunk")
    if holder is not None:
        message = f"{shows}, the kernel has no link with that MAC; {holder.record[:80]} is {holder.phase or 'new'!r}"
        return Verdict(row.subject, Status.WARN, "Changing", message, None, holder.phase, f"a link, or {BOUND_PHASE}")
    return missing(row, f"{shows}, {'no pod holds it' if books.is_shown_kubernetes else 'pods hold no ENIs here'}")


def missing(row: EniRow, shows: str) -> Verdict:
    message = f"{shows}, and the kernel has no link with that MAC"
    if not (row.is_primary or row.books.has_terway):
        message += ": bound to vfio-pci, in another network namespace, or never plugged in? lspci -nnk, ip netns"
        return Verdict(row.subject, Status.WARN, "NotHere", message, None, "no link", "a link")
    message += ": rescan the PCI bus, then see dmesg and lspci -nn"
    return Verdict(row.subject, Status.FAIL, "NoLink", message, Remedy("pci_rescan"), "no link", "a link")


CHECK = Check(
    id="eni.missing-link",
    question="Has every ENI that the cloud attached a link in the kernel, or a pod that holds it?",
    why="A hot-plug that the kernel missed leaves an ENI that Terway counts on and cannot find: pods that get an "
    "address of it stay in ContainerCreating.",
    fix="echo 1 > /sys/bus/pci/rescan. If it stays away: lspci -nn (function without driver?), dmesg; then detach and "
    "attach {name} in the cloud.",
    reasons=(
        Reason("Link", Status.OK),
        Reason("InPod", Status.OK),
        Reason("Member", Status.OK),
        Reason(
            "Changing",
            Status.WARN,
            "Wait for the record to be bound or gone; if it stays: kubectl get podenis,networkinterfaces -A, then "
            "terway-controlplane's log.",
        ),
        Reason(
            "NotHere",
            Status.WARN,
            "lspci -nnk (bound to vfio-pci?), ip netns; if nobody has it: echo 1 > /sys/bus/pci/rescan.",
        ),
        Reason("NoLink", Status.FAIL),
    ),
    source="ECS metadata network/interfaces/macs; terway pkg/link (an ENI is found by its MAC, 10 tries of 1 s)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.RECORDS,
    needs=(Imds, Links),
    uses=(Cluster, Terway),
    after=("imds.reachable",),
    remedies=("pci_rescan",),
    judge=judge,
)
