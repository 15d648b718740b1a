"""Do the metadata and Terway's record agree on the addresses of every ENI?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import EniRow
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.links import Links
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict

VALID = "Valid"  # IPStatusValid (terway pkg/apis/network.alibabacloud.com/v1beta1)
ADDRESSES_IN_MESSAGE = 4  # addresses in a message


def judge(seen: Seen) -> Iterator[Verdict]:
    books = ledger.ledger(seen)
    if books is not None and books.terway is not None:
        yield from seen.each([row for row in books.rows if row.metadata], lambda row: verdict(row, seen[Cluster]))


def verdict(row: EniRow, cluster: Cluster) -> Verdict | None:
    if row.record is None or row.metadata is None:
        return None
    has, counted = set(row.metadata.addresses), {one.address: one.status for one in row.record.addresses}
    valid = {address for address, status in counted.items() if status == VALID}
    dead = sorted(valid - has)
    where = f"{row.where} has {len(has)} addresses by the metadata"
    if dead and not takes_prefixes(cluster):
        pods = {one.address: one.pod for one in row.record.addresses if one.pod}
        used = (
            ", ".join(f"{pods[one][:60]} on {one}" for one in dead[:ADDRESSES_IN_MESSAGE] if one in pods)
            or "free for the next pod"
        )
        message = (
            f"{where}; Terway's record counts on {listed(dead)} too, which the metadata does not have: a pod there "
            f"reaches nobody ({used}); see kubectl get nodes.network.alibabacloud.com, then terway-controlplane's log"
        )
        return Verdict(row.subject, Status.FAIL, "DeadAddress", message, None, listed(dead), "in the metadata")
    leaked = sorted(has - counted.keys() - {row.metadata.primary_address})
    if leaked:
        message = f"{where}; Terway's record does not know {listed(leaked)}: assigned in the cloud, given to no pod"
        return Verdict(row.subject, Status.WARN, "LeakedAddress", message, None, listed(leaked), "in Terway's record")
    return Verdict(row.subject, Status.OK, "Agree", f"{where}, and Terway's record the same", observed=str(len(has)))


def takes_prefixes(cluster: Cluster) -> bool:
    """Whether pods get addresses out of prefixes: the metadata does not list those one by one."""
    return cluster.eni_config is not None and cluster.eni_config.settings.get("enable_ip_prefix") is True


def listed(addresses: list[str]) -> str:
    more = len(addresses) - ADDRESSES_IN_MESSAGE
    return ", ".join(addresses[:ADDRESSES_IN_MESSAGE]) + (f" and {more} more" if more > 0 else "")


CHECK = Check(
    id="eni.addresses",
    question="Do the metadata and Terway's record agree on the addresses of every ENI?",
    why="An address that only Terway's record has gives the next pod a network that is dead; one that only the cloud "
    "has is lost to the pool.",
    fix="kubectl get nodes.network.alibabacloud.com NODE -o yaml, beside the addresses of {name} in the cloud.",
    reasons=(
        Reason(
            "DeadAddress",
            Status.FAIL,
            "Do not schedule here (kubectl cordon); delete the pods on {observed} and let Terway sync with the cloud "
            "(restart terway-controlplane).",
        ),
        Reason("LeakedAddress", Status.WARN, "Unassign {observed} from {name} in the cloud if nobody holds it."),
        Reason("Agree", Status.OK),
    ),
    source="ECS metadata private-ipv4s; terway pkg/apis/network.alibabacloud.com/v1beta1 IPStatus; terway-cli mapping",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Imds, Links, Cluster),
    after=("eni.missing-link", "imds.identity"),
    judge=judge,
)
