"""Is this the ECS instance that Kubernetes takes the node for?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.door_values import Instance
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.kubernetes.cluster import Cluster, KubeNode
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict, raw

TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"


def judge(seen: Seen) -> Iterator[Verdict]:
    if raw(seen[Imds])["instance"] is None:
        return
    node = seen[Cluster].node
    found = None if node.is_lingjun else seen[Imds].instance
    if found is None:
        return
    at_odds = False
    for verdict in differences(node, found):
        at_odds = True
        yield verdict
    if not at_odds and is_of_ecs(node):
        message = f"the metadata and Kubernetes agree: node {node.name} is {found.id}, {found.type} in {found.zone}"
        yield Verdict(NODE, Status.OK, "SameInstance", message, None, found.id)


def differences(node: KubeNode, found: Instance) -> Iterator[Verdict]:
    own = f"{found.region}.{found.id}"
    if is_of_ecs(node) and instance_of(node) != own:
        shows = f"the metadata says that this is {own}, providerID of node {node.name} is {node.provider_id[:60]!r}"
        cause = (
            "either --node (NODE_NAME) names another node (kubectl get nodes -o wide), or a disk image was cloned with "
            "another node's kubelet identity"
        )
        message = f"{shows}: {cause}"
        yield Verdict(NODE, Status.FAIL, "OtherInstance", message, None, own, node.provider_id[:60])
    if not is_of_ecs(node):
        return  # the labels are the cluster's own words
    for label, told, reason, cause in (
        (TYPE, found.type, "OtherType", "the instance was resized, or the label set by hand"),
        (ZONE, found.zone, "OtherZone", "volumes and ENIs of that zone cannot come here"),
    ):
        said = node.labels.get(label, told)
        if said != told:
            shows = f"the metadata says {told}, label {label} of node {node.name} says {said[:60]!r}"
            message, about = f"{shows}: {cause}", {"node": node.name}
            yield Verdict(NODE, Status.WARN, reason, message, None, told, said[:60], args=about)


def is_of_ecs(node: KubeNode) -> bool:
    """Whether the providerID names an ECS instance, and not what another cloud provider's controller wrote."""
    return instance_of(node).partition(".")[2].startswith("i-")


def instance_of(node: KubeNode) -> str:
    """`cn-hangzhou.i-bp1...`, of which the part up to the first dot is the region."""
    return node.provider_id.rpartition("://")[2]


CHECK = Check(
    id="imds.identity",
    question="Is this the ECS instance that Kubernetes takes the node for?",
    why="Terway and the cloud's controllers look the node's ENIs up by providerID: on a cloned image they attach and "
    "free those of another machine.",
    fix="kubectl get node {node} -o yaml, beside curl http://100.100.100.200/latest/meta-data/instance-id.",
    reasons=(
        Reason("SameInstance", Status.OK),
        Reason(
            "OtherInstance",
            Status.FAIL,
            "See whether --node is this node. If it is: drain, kubeadm reset (or remove the node from its node pool), "
            "clear /var/lib/kubelet/pki, join again.",
        ),
        Reason(
            "OtherType",
            Status.WARN,
            "kubectl delete node {node}, then systemctl restart kubelet, so that it registers again.",
        ),
        Reason(
            "OtherZone",
            Status.WARN,
            "kubectl delete node {node}, then systemctl restart kubelet, so that it registers again.",
        ),
    ),
    source="Terway docs/ecs.md (providerID REGION.INSTANCE); Kubernetes well-known labels",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Imds, Cluster),
    after=("imds.reachable",),
    judge=judge,
)
