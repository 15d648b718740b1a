"""Is every ENI up whose addresses pods have?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import EniRow
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.expected.soundness import RUNNING
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.network.routes import Routes
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import CannotLook, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    books = ledger.ledger(seen)
    if books is None or not books.has_terway:
        return
    yield from seen.each(books.attached, lambda row: verdict(row, row.link) if row.link else None)


def verdict(row: EniRow, link: Link) -> Verdict | None:
    shows = f"{row.where} is {link.operstate}"
    if is_running(link):
        return Verdict(row.subject, Status.OK, "Up", shows, observed=link.operstate)
    pods = carried(row)
    if not (pods or row.is_primary or row.is_for_pods):
        return None
    if not pods and not row.is_primary:  # Terway brings it up when it gives the first of its addresses to a pod
        return Verdict(row.subject, Status.OK, "NotInUse", f"{shows}; no pod has an address of it")
    who = "this node and its pods" if row.is_primary else f"{len(pods)} pod address{'es' if len(pods) > 1 else ''}"
    shows = f"{shows} and carries {who}{' (' + ', '.join(pods[:3]) + ')' if pods else ''}"
    about = {"interface": link.name}
    if link.set_down:
        up = Remedy("link_up", about)
        message = f"{shows}; it was set down here: ip link set {link.name} up"
        return Verdict(row.subject, Status.FAIL, "AdministrativelyDown", message, up, link.operstate, "up")
    if link.set_down is None:
        message = f"{shows}; either it was set down here or it has no carrier: ip link show {link.name} tells which"
    else:
        see = f"ethtool {link.name}, dmesg, then the attachment in the cloud"
        message = f"{shows}; it is set up and has no carrier: {see}"
    return Verdict(row.subject, Status.FAIL, "NoCarrier", message, None, link.operstate, "up", args=about)


def carried(row: EniRow) -> tuple[str, ...]:
    """The pods that it carries. The primary ENI carries the node in any case: its pods are only told."""
    try:
        return row.pods()
    except CannotLook:
        if row.is_primary:
            return ()
        raise


def is_running(link: Link) -> bool:
    """The carrier counts where it is told: the operational state follows it up to a second later (link_watch.c)."""
    if link.set_down:
        return False
    running = (
        link.operstate in RUNNING if link.carrier is None else link.carrier and link.operstate in (*RUNNING, "down")
    )
    return running and link.up  # flags that cannot be read are no pass


CHECK = Check(
    id="eni.up",
    question="Is every ENI up whose addresses pods have?",
    why="Setting a link down takes the routes of its table with it: the pods' packets then leave by eth0 with an "
    "address that the cloud drops there, and no rule of the node shows it.",
    fix="ip link set {interface} up, then restart the node's Terway pod: it writes the table's default route again.",
    reasons=(
        Reason("Up", Status.OK),
        Reason("NotInUse", Status.OK),
        Reason("AdministrativelyDown", Status.FAIL),
        Reason(
            "NoCarrier",
            Status.FAIL,
            "ip link show {interface}: without the flag UP, as for AdministrativelyDown. With it: ethtool {interface}, "
            "dmesg | grep {interface}; then detach and attach {name} in the cloud, and restart "
            "the node's Terway pod: it writes the table's default route again.",
        ),
    ),
    source="terway plugin/datapath (LinkSetUp on ENIs); Linux Documentation/networking/operstates.rst",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Imds, Links, Terway),
    uses=(Routes, Rdma, Cluster),
    after=("eni.missing-link",),
    remedies=("link_up",),
    judge=judge,
)
