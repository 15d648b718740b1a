"""The requests to the API server for one look: by name or by selector, never a list where a name is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from nodeprep.facts.kubernetes import cluster_objects, cluster_records
from nodeprep.facts.kubernetes.cluster import Cluster, EniConfig, KubeNode, Pod, PodEni, TerwayNode
from nodeprep.facts.kubernetes.cluster_objects import Object
from nodeprep.model import Fact, Unreadable, Why, guarded

if TYPE_CHECKING:
    from nodeprep.doors.kube.reader import ApiReader
    from nodeprep.doors.node_host import Host

T = TypeVar("T")
TERWAY = "network.alibabacloud.com/v1beta1"
ERDMA = "network.alibabacloud.com/v1"
ENI_CONFIG = ("kube-system", "eni-config")
MORE_CONFIG = "terway-config"  # the node's label with the name of a ConfigMap to merge into that one


def observe(host: Host) -> Cluster | Unreadable:
    """Two requests on any node; the records of Alibaba Cloud's controllers only on theirs."""
    api = host.kubernetes()
    if isinstance(api, Unreadable):
        return api
    with api:
        return _asked(api, host.now())


def _asked(api: ApiReader, at: float) -> Cluster | Unreadable:
    """Unreadable as a whole where the server is out of reach or has no such Node."""
    told = api.get("v1", "nodes", api.node)
    if api.lost is not None:
        return api.lost
    if told is None:
        return Unreadable(Why.MISSING, f"Node {api.node}", detail="the cluster has none of this name; see --node")
    node = (
        told
        if isinstance(told, Unreadable)
        else cluster_objects.understood(f"Node {api.node}", lambda: cluster_objects.node(told, api.now))
    )
    return _cluster(api, at, node)


def _cluster(api: ApiReader, at: float, node: KubeNode | Unreadable) -> Cluster:
    pods = _pods(api)
    if isinstance(node, Unreadable):  # then it is also not known whether there are records of it
        return Cluster(at, guarded(node), guarded(pods), guarded(node), guarded(node), guarded(node), guarded(node))
    if not node.is_alibaba:
        return Cluster(at, node, guarded(pods), None, (), None, None)
    terway = _one(api, TERWAY, "nodes", node.name, lambda told: cluster_records.terway_node(told, api.now))
    return Cluster(
        at=at,
        node=node,
        pods=guarded(pods),
        terway=guarded(terway),
        pod_enis=guarded(_pod_enis(api, node, terway)),
        erdma=guarded(_one(api, ERDMA, "erdmadevices", node.name, cluster_records.erdma)),
        eni_config=guarded(_eni_config(api, node)),
    )


def _pods(api: ApiReader) -> tuple[Pod, ...] | Unreadable:
    # resourceVersion=0: from the server's memory; a second's age does not matter, etcd's time does.
    told = api.list("v1", "pods", fieldSelector=f"spec.nodeName={api.node}", resourceVersion="0")
    if isinstance(told, Unreadable):
        return told
    return cluster_objects.understood(f"pods of {api.node}", lambda: tuple(cluster_objects.pod(one) for one in told))


def _one(api: ApiReader, group: str, resource: str, name: str, read: Callable[[Object], T]) -> T | None | Unreadable:
    """A record. None where it does not exist, or where this cluster does not have this kind of record."""
    told = api.get(group, resource, name)
    if told is None or isinstance(told, Unreadable):
        return told
    return cluster_objects.understood(f"{resource}.{group.partition('/')[0]} {name}", lambda: read(told))


def _pod_enis(
    api: ApiReader, node: KubeNode, terway: TerwayNode | None | Unreadable
) -> tuple[PodEni, ...] | Unreadable:
    """All or none: a missing ENI would look like one that no pod holds."""
    told = api.list(TERWAY, "podenis", labelSelector=f"k8s.aliyun.com/node={node.name}")
    if isinstance(told, Unreadable):
        return told
    held = cluster_objects.understood(
        "podenis", lambda: tuple(eni for one in told for eni in cluster_records.pod_enis(one))
    )
    if isinstance(held, Unreadable) or not node.is_exclusive or terway is None:
        return held
    if isinstance(terway, Unreadable):
        return terway
    known = {eni.eni for eni in held}
    for eni in terway.enis:
        if eni.id in known:
            continue
        found = _one(api, TERWAY, "networkinterfaces", eni.id, cluster_records.network_interface)
        if isinstance(found, Unreadable):
            return found
        held += (found,) if found else ()
    return held


def _eni_config(api: ApiReader, node: KubeNode) -> EniConfig | None | Unreadable:
    namespace, name = ENI_CONFIG
    base = api.get("v1", "configmaps", name, namespace)
    if base is None or isinstance(base, Unreadable):
        return base
    named = node.labels.get(MORE_CONFIG)
    more = api.get("v1", "configmaps", named, namespace) if named else None
    if isinstance(more, Unreadable):
        return more
    return cluster_objects.understood(f"ConfigMap {namespace}/{name}", lambda: cluster_records.eni_config(base, more))


FACT = Fact(Cluster, observe, every=900.0, deadline=5.0, live=True, rest=15.0)
