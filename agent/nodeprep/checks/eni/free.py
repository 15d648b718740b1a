"""Is an ENI left for the next pod that wants one for itself?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.ledger import MEMBER_TYPE
from nodeprep.facts.kubernetes.cluster import TRUNK, Cluster
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict
from nodeprep.values import Value

ORDINARY = "EniQuantity"  # of the ECS instance type (terway pkg/aliyun/client/limit.go)
TOTAL = "EniTotalQuantity"  # with member ENIs
ENI, MEMBER_ENI = "aliyun/eni", "aliyun/member-eni"


class Want(Value):
    """How many ENIs must be left."""

    at_least: Annotated[int, "of a kind that this node hands out whole; 1 is what one pod of a job takes."] = 1


def judge(seen: Seen) -> Iterator[Verdict]:
    if seen[Imds].instance is None:
        return
    cluster, least, by = seen[Cluster], seen[Want].at_least, seen.wanted_by("at-least")
    ordinary, total = cluster.node.limit(ORDINARY), cluster.node.limit(TOTAL)
    if cluster.node.is_exclusive and ordinary is not None:
        yield verdict(ENI, ordinary - 1, held(cluster, member=False), least, by)  # one is the node's own
    if cluster.node.annotations.get(TRUNK) and ordinary is not None and total is not None:
        yield verdict(MEMBER_ENI, total - ordinary, held(cluster, member=True), least, by)


def held(cluster: Cluster, *, member: bool) -> int:
    """ENIs that records of pods hold, bound or not yet released. A pod and its NetworkInterface may name the same."""
    return len({one.mac or one.eni or one.record for one in cluster.pod_enis if (one.type == MEMBER_TYPE) is member})


def verdict(resource: str, most: int, used: int, least: int, by: str) -> Verdict:
    about = Subject(resource, None, resource)
    left = max(most - used, 0)
    shows = f"{resource}: pods hold {used} of the {most} ENIs that this instance type can give them"
    if left >= least:
        return Verdict(about, Status.OK, "Free", shows, observed=str(left), expected=f"at least {least}")
    message = (
        f"{shows}; {left} left, {least} wanted {by}: the next pod waits; see kubectl get podenis,networkinterfaces -A"
    )
    return Verdict(about, Status.WARN, "NoneFree", message, None, str(left), f"at least {least}")


CHECK = Check(
    id="eni.free",
    question="Is an ENI left for the next pod that wants one for itself?",
    why="A job of one pod a node that gets an ENI each waits for the node where old pods still hold theirs.",
    fix="Delete finished pods that hold {name}, let Terway collect records in Unbind or Deleting, or take an instance "
    "type with more ENIs.",
    reasons=(
        Reason("Free", Status.OK),
        Reason("NoneFree", Status.WARN),
    ),
    source="terway pkg/aliyun/client/limit.go (exclusive: EniQuantity-1, member: EniTotalQuantity-EniQuantity)",
    severity=Severity.WARN,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Imds, Cluster),
    after=("imds.identity",),
    want=Want,
    judge=judge,
)
