"""The cluster as the scheduler sees it: Nodes with their labels, taints and room, and the unfinished pods on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nodeprep.jobs import node_terms, quantities, scheduler_requests
from nodeprep.jobs.node_terms import HostPort, NodeTaint
from nodeprep.values import Struct, Value, field

Object = Mapping[str, Any]

FINISHED = ("Succeeded", "Failed")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NO_MAPPING: Object = {}


class JobNode(Value):
    """A Node. `allocatable`: thousandths of processors, and whole units of other resources."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False
    allocatable: Mapping[str, int] = field(default_factory=dict)


class BoundPod(Value):
    """A pod that is bound to a Node and not finished. `requests` as those of a PodDemand.

    `repels`: it has a required anti-affinity, which may keep other pods away.
    """

    namespace: str
    name: str
    node: str
    requests: Mapping[str, int]
    ports: tuple[HostPort, ...] = ()
    repels: bool = False


class NodeUse(Struct):
    """What is taken of a Node, by pods that are there or that a plan puts there."""

    requests: dict[str, int] = field(default_factory=dict)
    ports: list[HostPort] = field(default_factory=list)
    pods: int = 0

    def take(self, requests: Mapping[str, int], ports: Iterable[HostPort], count: int = 1) -> None:
        for name, one in requests.items():
            self.requests[name] = self.requests.get(name, 0) + one * count
        self.ports.extend(ports)
        self.pods += count

    def copy(self) -> NodeUse:
        return NodeUse(dict(self.requests), list(self.ports), self.pods)


class JobCluster(Value):
    """Nodes by name, and what is taken of each. `used` is None where pods may not be read: room is not known then.

    `repelling` names pods with a required anti-affinity of their own.
    """

    nodes: Mapping[str, JobNode]
    used: Mapping[str, NodeUse] | None
    repelling: tuple[str, ...] = ()

    @classmethod
    def of(cls, nodes: Iterable[JobNode], pods: Iterable[BoundPod] | None) -> JobCluster:
        """Pods on Nodes that are not there count for nothing."""
        known = {node.name: node for node in nodes}
        if pods is None:
            return cls(known, None)
        used = {name: NodeUse() for name in known}
        repelling: list[str] = []
        for pod in pods:
            if pod.node in used:
                used[pod.node].take(pod.requests, pod.ports)
            if pod.repels:
                repelling.append(f"{pod.namespace}/{pod.name}")
        return cls(known, used, tuple(repelling))


def node(told: Object) -> JobNode:
    """A Node of the API server. Malformed parts count as missing."""
    metadata, spec, status = (_mapping(told.get(key)) for key in ("metadata", "spec", "status"))
    amounts = {name: quantities.nanos(value) for name, value in _mapping(status.get("allocatable")).items()}
    return JobNode(
        name=str(metadata.get("name", "")),
        labels={key: str(value) for key, value in _mapping(metadata.get("labels")).items()},
        taints=node_terms.taints(spec),
        unschedulable=spec.get("unschedulable") is True,
        allocatable=quantities.counted({name: amount for name, amount in amounts.items() if amount}),
    )


def pod(told: Object) -> BoundPod | None:
    """A pod of the API server; None for one that is finished or has no Node. One that is being deleted still counts."""
    metadata, spec, status = (_mapping(told.get(key)) for key in ("metadata", "spec", "status"))
    name = spec.get("nodeName")
    if not name or status.get("phase") in FINISHED:
        return None
    repels = _mapping(_mapping(spec.get("affinity")).get("podAntiAffinity"))
    return BoundPod(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        node=str(name),
        requests=quantities.counted(scheduler_requests.requests(spec, status)),
        ports=node_terms.host_ports(spec),
        repels=bool(repels.get(REQUIRED)),
    )


def _mapping(found: object) -> Object:
    return found if isinstance(found, Mapping) else NO_MAPPING
