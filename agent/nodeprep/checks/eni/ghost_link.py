"""Does the metadata list every ENI that the kernel has a link of?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import ENI_MACS, EniRow
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.links import Links
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    books = ledger.ledger(seen)
    if books is not None:
        yield from seen.each([row for row in books.rows if row.link], verdict)


def verdict(row: EniRow) -> Verdict | None:
    if row.metadata is not None:
        return Verdict(row.subject, Status.OK, "Listed", f"{row.where} is in the metadata")
    knows = [name for name, said in (("Terway's record", row.record), ("erdma-controller's", row.eri)) if said]
    if not knows and not row.mac.startswith(ENI_MACS):
        return None  # a NIC that the cloud did not attach, such as one of a bare-metal instance's own fabric
    known = f"{' and '.join(knows)} still has it" if knows else "no other book that was read knows it"
    message = (
        f"the kernel has {row.where} and the metadata does not list it; {known}: detached in the cloud and still "
        f"plugged in here, if it stays; see curl 100.100.100.200/latest/meta-data/network/interfaces/macs/"
    )
    about = {"interface": row.link.name if row.link else ""}
    return Verdict(
        row.subject, Status.WARN, "NotInMetadata", message, None, "link only", "link and metadata", args=about
    )


CHECK = Check(
    id="eni.ghost-link",
    question="Does the metadata list every ENI that the kernel has a link of?",
    why="A link whose ENI the cloud took away sends into nothing: rules that still name it lose pods' packets.",
    fix="Wait for the metadata (Terway gives it 10 s). If it stays: detach the ENI again in the cloud, or remove the "
    "function (readlink -f /sys/class/net/{interface}/device; echo 1 > /sys/bus/pci/devices/ADDRESS/remove) once no "
    "pod uses its addresses.",
    reasons=(
        Reason("Listed", Status.OK),
        Reason("NotInMetadata", Status.WARN),
    ),
    source="ECS metadata network/interfaces/macs; terway pkg/aliyun/metadata (10 s for the metadata to catch up)",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.RECORDS,
    needs=(Imds, Links),
    uses=(Cluster,),
    after=("imds.reachable",),
    judge=judge,
)
