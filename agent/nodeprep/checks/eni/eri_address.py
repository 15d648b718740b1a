"""Has every elastic RDMA interface its own address, and not the node's?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.door_values import Interface
from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import EniRow, Ledger
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    books = ledger.ledger(seen)
    if books is None:
        return
    # The primary ENI may be an ERI: then it rightly has the node's address.
    yield from seen.each([row for row in books.attached if not row.is_primary], verdict)


def verdict(row: EniRow) -> Verdict | None:
    if row.metadata is None or (row.device is None and row.eri is None):
        return None
    return judged(row, row.metadata)


def judged(row: EniRow, metadata: Interface) -> Verdict:
    known = f"an ERI by {'its RDMA device ' + row.device.name if row.device else 'the ErdmaDevice record'}"
    wants = f"{metadata.primary_address}/{metadata.prefix}" if metadata.prefix else metadata.primary_address
    found = row.addresses()
    has = ", ".join(f"{one.address}/{one.prefix}" for one in found[:4]) or "no address"
    shows, link = f"{row.where}, {known}, holds {has}", {"interface": row.link.name if row.link else ""}
    own = next((one for one in found if one.address == metadata.primary_address), None)
    if own is not None and metadata.prefix in (None, own.prefix):
        return Verdict(row.subject, Status.OK, "OwnAddress", shows, observed=has, expected=wants)
    if own is not None:
        message = f"{shows}; its network is {wants} by the metadata: peers of its vSwitch are reached by another way"
        return Verdict(row.subject, Status.WARN, "OtherPrefix", message, None, has, wants, args=link)
    node = row.books.instance.primary
    if node is not None and any(one.address == node.primary_address for one in found):
        if is_terways(row.books):
            return Verdict(row.subject, Status.OK, "TerwayOwns", f"{shows}; Terway runs eRDMA here (enable_erdma)")
        message = (
            f"{shows}, the node's address, and not its own {wants}: Terway took it for pods; exclude it "
            "(tag terway.alibabacloud.com/excluded=true, or eni_tag_filter), then detach and attach it"
        )
        return Verdict(row.subject, Status.FAIL, "TakenByTerway", message, None, has, wants)
    message = f"{shows}; its own is {wants} by the metadata: without it no RoCE v2 GID; see the erdma agent's log"
    return Verdict(row.subject, Status.FAIL, "NoOwnAddress", message, None, has, wants, args=link)


def is_terways(books: Ledger) -> bool:
    """Whether Terway hands out eRDMA itself: terway-init notes it, if the driver could be loaded."""
    terway = books.seen.get(Terway)
    return terway is not None and (terway.capabilities or {}).get("erdma") == "true"


CHECK = Check(
    id="eni.eri-address",
    question="Has every elastic RDMA interface its own address, and not the node's?",
    why="RoCE v2 GIDs are made of the interface's addresses: an ERI that Terway took for pods carries the node's, "
    "which answers elsewhere, and no queue pair connects.",
    fix="ip address show dev {interface}, beside {expected}.",
    reasons=(
        Reason("OwnAddress", Status.OK),
        Reason(
            "OtherPrefix",
            Status.WARN,
            "ip address add {expected} dev {interface}, then ip address del what it has beside that; restart "
            "alibabacloud-erdma-agent if it comes back.",
        ),
        Reason("TerwayOwns", Status.OK),
        Reason(
            "TakenByTerway",
            Status.FAIL,
            "Exclude ERIs in Terway (tag or eni_tag_filter; newer releases do it by themselves), detach and attach "
            "{name}.",
        ),
        Reason(
            "NoOwnAddress",
            Status.FAIL,
            "Restart alibabacloud-erdma-agent, or set the address by hand: ip address add {expected} dev {interface}",
        ),
    ),
    source="AliyunContainerService alibabacloud-erdma-controller netdev.go, docs/erdma-coexistence.md",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.RECORDS,
    needs=(Imds, Links, Rdma),
    uses=(Cluster, Terway),
    judge=judge,
)
