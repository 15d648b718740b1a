"""The cluster as the scheduler sees it: Nodes with their labels, taints and room, and the unfinished pods on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nodeprep.jobs import node_terms, quantities, scheduler_requests
from nodeprep.jobs.node_terms import IN, HostPort, NodeRequirement, NodeTaint
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


class PodSelector(Value):
    """Pods by labels and namespaces, as an anti-affinity selects them. `any_namespace`: maybe in others too."""

    requirements: tuple[NodeRequirement, ...]
    namespaces: tuple[str, ...]
    any_namespace: bool = False

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it may select such a pod."""
        there = self.any_namespace or namespace in self.namespaces
        return there and all(one.holds(labels) for one in self.requirements)


class BoundPod(Value):
    """A pod that is bound to a Node and not finished. `requests` as those of a PodDemand.

    `repels` are the pods that its required anti-affinity keeps away.
    """

    namespace: str
    name: str
    node: str
    requests: Mapping[str, int]
    ports: tuple[HostPort, ...] = ()
    repels: tuple[PodSelector, ...] = ()


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

    `repelling` are pods with a required anti-affinity of their own.
    """

    nodes: Mapping[str, JobNode]
    used: Mapping[str, NodeUse] | None
    repelling: tuple[BoundPod, ...] = ()

    @classmethod
    def of(cls, nodes: Iterable[JobNode], pods: Iterable[BoundPod] | None) -> JobCluster:
        """Pods on Nodes that are not there count for nothing."""
        known = {node.name: node for node in nodes}
        if pods is None:
            return cls(known, None)
        used = {name: NodeUse() for name in known}
        repelling: list[BoundPod] = []
        for pod in pods:
            if pod.node in used:
                used[pod.node].take(pod.requests, pod.ports)
            if pod.repels:
                repelling.append(pod)
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
    namespace = str(metadata.get("namespace", ""))
    anti = _mapping(_mapping(spec.get("affinity")).get("podAntiAffinity")).get(REQUIRED)
    return BoundPod(
        namespace=namespace,
        name=str(metadata.get("name", "")),
        node=str(name),
        requests=quantities.counted(scheduler_requests.requests(spec, status)),
        ports=node_terms.host_ports(spec),
        repels=tuple(_selector(_mapping(one), namespace) for one in anti) if isinstance(anti, list) else (),
    )


def _selector(term: Object, namespace: str) -> PodSelector:
    """A term without a selector selects no pod; one of unknown form may select any."""
    named, selector = term.get("namespaces"), term.get("labelSelector")
    namespaces = tuple(map(str, named)) if isinstance(named, list) and named else (namespace,)
    if not isinstance(selector, Mapping):
        return PodSelector((), ())
    wanted = [NodeRequirement(key, IN, (str(value),)) for key, value in _mapping(selector.get("matchLabels")).items()]
    for one in selector.get("matchExpressions") or ():
        values = one.get("values") or ()
        wanted.append(NodeRequirement(str(one.get("key")), str(one.get("operator")), tuple(map(str, values))))
    return PodSelector(tuple(wanted), namespaces, "namespaceSelector" in term)


def _mapping(found: object) -> Object:
    return found if isinstance(found, Mapping) else NO_MAPPING
