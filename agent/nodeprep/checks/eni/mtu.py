"""Is the MTU of every ENI alike, and as large as the pods'?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import EniRow
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.cni import Cni
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Unreadable, Verdict, Why, raw

PLUGIN = "terway"
MTU = 1500  # terway plugin/driver/types: what the plugin takes where its configuration has no mtu, or 0


def judge(seen: Seen) -> Iterator[Verdict]:
    books = ledger.ledger(seen)
    if books is None or not books.has_terway:
        return
    pods = of_pods(seen.get(Cni))
    primary = next((row.link.mtu for row in books.attached if row.is_primary and row.link), None)
    yield from seen.each(books.attached, lambda row: verdict(row, pods, primary))


def of_pods(cni: Cni | None) -> int | None:
    """What Terway's plugin gives pods, by the first configuration that names it."""
    for file in (cni.files or ()) if cni else ():
        blind = raw(file)["network"]
        if isinstance(blind, Unreadable) and blind.kind in (Why.MALFORMED, Why.MISSING):
            continue  # it gives pods nothing, and cni.parse says so
        for plugin in file.network.plugins:
            if plugin.type == PLUGIN:
                said = plugin.option("mtu")
                return said if isinstance(said, int) and said > 0 else MTU
    return None


def verdict(row: EniRow, pods: int | None, primary: int | None) -> Verdict | None:
    if row.link is None or not (row.is_primary or row.is_for_pods):
        return None
    has = row.link.mtu
    shows = f"{row.where} has MTU {has}"
    if pods is not None and has < pods:
        message = f"{shows}; pods get {pods} by Terway's CNI configuration: their large packets are lost on the way out"
        about = {"interface": row.link.name, "mtu": str(pods)}
        return Verdict(row.subject, Status.WARN, "BelowPods", message, None, str(has), f"at least {pods}", args=about)
    if primary is not None and has != primary:
        message = f"{shows}; the primary ENI has {primary}: pods of one node differ in what they can send"
        about = {"interface": row.link.name, "mtu": str(primary)}
        return Verdict(row.subject, Status.WARN, "Uneven", message, None, str(has), str(primary), args=about)
    return Verdict(row.subject, Status.OK, "Mtu", shows, observed=str(has), expected=str(pods or primary))


CHECK = Check(
    id="eni.mtu",
    question="Is the MTU of every ENI alike, and as large as the pods'?",
    why="A pod whose interface takes larger packets than its ENI connects, and hangs in the first large transfer.",
    fix="ip link set {interface} mtu {mtu}, and the same in what sets it at boot; or set auto_mtu in Terway's "
    "eni-config. Jumbo frames are 8500.",
    reasons=(
        Reason("BelowPods", Status.WARN),
        Reason("Uneven", Status.WARN, against_likes=True),
        Reason("Mtu", Status.OK),
    ),
    source="terway plugin/driver/types (mtu, 1500 if 0), cmd/terway-cli/cni.go (auto_mtu takes that of eth0)",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Imds, Links, Terway),
    uses=(Cni, Rdma, Cluster),
    judge=judge,
)
