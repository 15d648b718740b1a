"""Every obstacle between a pod and a Node, by the filters of kube-scheduler 1.36, which itself names the first alone.

NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts and NodeResourcesFit. A pod that names its Node
does not meet the scheduler: its kubelet heeds the same filters, but neither a cordon nor NoSchedule.
"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.jobs import node_terms, quantities
from nodeprep.jobs.job_cluster import JobNode, NodeUse
from nodeprep.jobs.node_terms import KEEPS_AWAY, NodeTaint
from nodeprep.jobs.pod_template import PodDemand
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value

CORDON = NodeTaint("node.kubernetes.io/unschedulable", "", "NoSchedule")
NO_EXECUTE = "NoExecute"
PODS = "pods"
OVERCOMMITTED = ("cpu", "memory")
NO_TERM = "a node affinity without any term"


class ObstacleKind(StrEnum):
    """What stands in the way."""

    CORDON = "cordon"
    NODE_NAME = "node-name"
    TAINT = "taint"
    SELECTOR = "selector"
    AFFINITY = "affinity"
    PORT = "port"
    RESOURCE = "resource"


class Obstacle(Value):
    """One obstacle.

    `about` is the key of a taint or label, or the name of a resource. `seen` and `wanted` are words for people.
    """

    kind: ObstacleKind
    about: str
    seen: str
    wanted: str

    def __str__(self) -> str:
        if self.kind is ObstacleKind.TAINT:
            return f"taint {self.seen}"
        if self.kind is ObstacleKind.CORDON:
            return "cordoned"
        if self.kind is ObstacleKind.RESOURCE:
            return f"{self.about}: {self.seen}, wanted {self.wanted}"
        if self.kind is ObstacleKind.PORT:
            return f"host port {self.wanted} in use"
        return f"{self.about}: found {self.seen}, wanted {self.wanted}"


def obstacles(demand: PodDemand, node: JobNode, use: NodeUse | None) -> tuple[Obstacle, ...]:
    """All of them, in the order of the scheduler's filters. Without `use`, what is taken is not judged."""
    found = [*_by_placement(demand, node), *_by_labels(demand, node)]
    if use is not None:
        found += _by_ports(demand, use)
        found += _by_overcommitment(demand, node, use)
    found += _by_room(demand, node, use)
    return tuple(found)


def copies(demand: PodDemand, node: JobNode, use: NodeUse) -> int:
    """How many such pods the room of a Node takes. Whether it may take any is not asked here."""
    if any(_by_ports(demand, use)) or any(_by_overcommitment(demand, node, use)):
        return 0
    room = [node.allocatable.get(PODS, 0) - use.pods]
    room += [
        (node.allocatable.get(name, 0) - use.requests.get(name, 0)) // count
        for name, count in demand.requests.items()
        if count > 0
    ]
    most = max(0, min(room))
    return min(most, 1) if demand.ports else most


def admits(demand: PodDemand, node: JobNode) -> bool:
    """Whether nothing but its room keeps such a pod from a Node."""
    return not any(_by_placement(demand, node)) and not any(_by_labels(demand, node))


def _by_placement(demand: PodDemand, node: JobNode) -> Iterator[Obstacle]:
    named = demand.node_name
    tolerated = any(one.tolerates(CORDON) for one in demand.tolerations)
    if node.unschedulable and not tolerated and not named:
        yield Obstacle(ObstacleKind.CORDON, CORDON.key, "unschedulable", "a toleration or kubectl uncordon")
    if named and named != node.name:
        yield Obstacle(ObstacleKind.NODE_NAME, "nodeName", node.name, named)
    effects = (NO_EXECUTE,) if named else KEEPS_AWAY
    for taint in node.taints:
        if node.unschedulable and taint == CORDON:
            continue  # the controller's sign of the same cordon
        if taint.effect in effects and not any(one.tolerates(taint) for one in demand.tolerations):
            yield Obstacle(ObstacleKind.TAINT, taint.key, str(taint), "a toleration")


def _by_labels(demand: PodDemand, node: JobNode) -> Iterator[Obstacle]:
    for key, wanted in demand.selector.items():
        seen = node.labels.get(key)
        if seen != wanted:
            found = "no such label" if seen is None else repr(seen)
            yield Obstacle(ObstacleKind.SELECTOR, key, found, repr(wanted))
    if demand.terms is not None:
        yield from _by_affinity(demand, node)


def _by_affinity(demand: PodDemand, node: JobNode) -> Iterator[Obstacle]:
    """One term has to hold. If none does, that which fails in the fewest requirements is told, the first of such."""
    failing = [one.failing(node.name, node.labels) for one in demand.terms or () if not one.is_empty]
    if not failing:
        yield Obstacle(ObstacleKind.AFFINITY, "nodeAffinity", NO_TERM, "a term that matches")
        return
    nearest = min(failing, key=len)
    for one in nearest:
        labels = {node_terms.NAME_FIELD: node.name} if one.key == node_terms.NAME_FIELD else node.labels
        seen = labels.get(one.key)
        found = "no such label" if seen is None else repr(seen)
        yield Obstacle(ObstacleKind.AFFINITY, one.key, found, str(one).removeprefix(f"{one.key} "))


def _by_ports(demand: PodDemand, use: NodeUse) -> Iterator[Obstacle]:
    for port in demand.ports:
        if any(port.conflicts(other) for other in use.ports):
            yield Obstacle(ObstacleKind.PORT, "hostPort", "in use", str(port))


def _by_overcommitment(demand: PodDemand, node: JobNode, use: NodeUse) -> Iterator[Obstacle]:
    """Volcano holds all processors and memory of a Node against any pod, also one that asks for none."""
    for name in OVERCOMMITTED if demand.heeds_overcommitment else ():
        taken, whole = use.requests.get(name, 0), node.allocatable.get(name, 0)
        if taken > whole and not demand.requests.get(name):
            seen = f"{quantities.shown(name, taken)} of {quantities.shown(name, whole)} taken"
            yield Obstacle(ObstacleKind.RESOURCE, name, seen, "no more than there is, by Volcano")


def _by_room(demand: PodDemand, node: JobNode, use: NodeUse | None) -> Iterator[Obstacle]:
    """Without `use`, what the whole Node lacks."""
    taken = NodeUse() if use is None else use
    slots = node.allocatable.get(PODS, 0)
    if taken.pods + 1 > slots:
        yield Obstacle(ObstacleKind.RESOURCE, PODS, f"{slots - taken.pods} of {slots} free", "1")
    for name, count in demand.requests.items():
        whole = node.allocatable.get(name, 0)
        free = whole - taken.requests.get(name, 0)
        if count > 0 and count > free:
            seen = f"{quantities.shown(name, max(free, 0))} of {quantities.shown(name, whole)} free"
            seen = seen if whole else "none on this node"
            yield Obstacle(ObstacleKind.RESOURCE, name, seen, quantities.shown(name, count))
