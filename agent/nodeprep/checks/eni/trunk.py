"""Is the trunk ENI that this node's annotation names there, a trunk and in use?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import Ledger
from nodeprep.facts.kubernetes.cluster import TRUNK, Cluster
from nodeprep.facts.network.links import Links
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict, signs
from nodeprep.values import Value

TYPE, IN_USE = "Trunk", "InUse"  # ENITypeTrunk, ENIStatusInUse (terway pkg/apis, pkg/aliyun/client)


class Want(Value):
    """Whether a trunk ENI is demanded."""

    required: Annotated[
        bool,
        "whether this node must have a trunk ENI; else one without the annotation is not asked for any.",
    ] = False


def judge(seen: Seen) -> Iterator[Verdict]:
    books = ledger.ledger(seen)
    if books is None:
        return
    named = seen[Cluster].node.annotations.get(TRUNK, "")
    if named:
        verdict = signs(lambda: in_record(named, books), lambda: by_metadata(named, books))
        yield from (verdict,) if verdict is not None else ()
    elif seen[Want].required:
        message = (
            f"the node has no annotation {TRUNK}, so no trunk ENI; one is wanted {seen.wanted_by('required')}: "
            "set enable_eni_trunking in eni-config, and see whether this instance type can (EniTrunkSupported)"
        )
        yield Verdict(NODE, Status.FAIL, "NoTrunk", message, None, "no annotation", "a trunk ENI")


def by_metadata(named: str, books: Ledger) -> Verdict:
    """Terway's record has the type and the status, the node the link and the attachment."""
    shows = f"the node's annotation {TRUNK} names {named[:60]}"
    row = next((row for row in books.rows if row.eni == named), None)
    about = row.subject if row else Subject(named, None, named[:60])
    if row is None:
        message = f"{shows}, which the metadata does not list: not attached, and no pod with a member ENI can start"
        return Verdict(about, Status.FAIL, "NotAttached", message, None, "not in the metadata", "attached")
    if row.link is None:
        message = f"{shows}; the metadata has it ({row.mac}), and the kernel no link with that MAC: rescan the PCI bus"
        return Verdict(about, Status.FAIL, "NoLink", message, None, "no link", "a link")
    return Verdict(about, Status.OK, "Trunk", f"{shows}: {row.where}", observed=row.link.name)


def in_record(named: str, books: Ledger) -> Verdict | None:
    shows, terway = f"the node's annotation {TRUNK} names {named[:60]}", books.terway
    if terway is None:
        return None
    record = next((one for one in terway.enis if one.id == named), None)
    if record is None:
        about = Subject(named, None, named[:60])
        message = f"{shows}, which Terway's record does not have: was the trunk ENI deleted? See the node's events"
        return Verdict(about, Status.FAIL, "NotRecorded", message, None, "no record", f"{TYPE}, {IN_USE}")
    about = Subject(record.mac.lower(), None, record.id)
    if record.type != TYPE:
        message = f"{shows} ({record.mac}), which is a {record.type[:30]!r} ENI by Terway's record"
        return Verdict(about, Status.FAIL, "NotTrunk", message, None, record.type[:30], TYPE)
    if record.status != IN_USE:
        message = f"{shows} ({record.mac}), which is {record.status[:30]!r} by Terway's record"
        return Verdict(about, Status.FAIL, "NotInUse", message, None, record.status[:30], IN_USE)
    return None


CHECK = Check(
    id="eni.trunk",
    question="Is the trunk ENI that this node's annotation names there, a trunk and in use?",
    why="Member ENIs are VLANs of the trunk: without it the node offers aliyun/member-eni and starts no such pod.",
    fix="See events of the node and of nodes.network.alibabacloud.com; Terway makes a trunk ENI again when the "
    "annotation is gone and the pool synced.",
    reasons=(
        Reason(
            "NoTrunk",
            Status.FAIL,
            "Set enable_eni_trunking in eni-config (kubectl -n kube-system edit configmap eni-config), on an instance "
            "type that can.",
        ),
        Reason("NotAttached", Status.FAIL),
        Reason("NoLink", Status.FAIL, "echo 1 > /sys/bus/pci/rescan, then dmesg and lspci -nn."),
        Reason("Trunk", Status.OK),
        Reason("NotRecorded", Status.FAIL),
        Reason("NotTrunk", Status.FAIL),
        Reason("NotInUse", Status.FAIL),
    ),
    source="terway types/k8s.go (k8s.aliyun.com/trunk-on), pkg/controller/multi-ip/node",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Imds, Links, Cluster),
    after=("imds.identity",),
    judge=judge,
    want=Want,
)
