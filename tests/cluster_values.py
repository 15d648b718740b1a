"""Builders for tests: Kubernetes' records of a healthy ECS node with Terway in shared ENI mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeprep.facts.kubernetes.cluster import (
    Cluster,
    Container,
    EniAddress,
    EniConfig,
    EniRecord,
    ErdmaDevice,
    ErdmaRecord,
    KubeNode,
    Owner,
    Pod,
    PodEni,
    StatedCondition,
    TerwayNode,
)

NODE = "cn-hangzhou.192.168.0.117"
INSTANCE = "i-bp1node"
ENI, MAC = "eni-bp1second", "00:16:3e:aa:bb:01"
LIMITS = '{"EniQuantity": 8, "EniTotalQuantity": 20, "EniPrivateIpAddressQuantity": 30, "EriQuantity": 2}'


def condition(**different: Any) -> StatedCondition:
    """SufficientIP, two minutes old."""
    usual: dict[str, Any] = {
        "type": "SufficientIP",
        "status": "True",
        "reason": "SufficientIP",
        "message": "node has sufficient IP",
        "age": 120.0,
    }
    return StatedCondition(**(usual | different))


def node_object(**different: Any) -> KubeNode:
    """An ECS node of an ACK cluster. `labels` and `annotations` given here are added to the usual ones."""
    labels = {"topology.kubernetes.io/zone": "cn-hangzhou-j", "node.kubernetes.io/instance-type": "ecs.g8i.16xlarge"}
    annotations = {"alibabacloud.com/instance-type-info": LIMITS}
    usual: dict[str, Any] = {
        "name": NODE,
        "uid": "6c1b8c9e-0000-4000-8000-000000000001",
        "provider_id": f"cn-hangzhou.{INSTANCE}",
        "address": "192.168.0.117",
        "labels": labels | different.pop("labels", {}),
        "annotations": annotations | different.pop("annotations", {}),
        "capacity": {"cpu": "64", "aliyun/eni": "7"},
        "allocatable": {"cpu": "64", "aliyun/eni": "7"},
        "conditions": (condition(),),
    }
    return KubeNode(**(usual | different))


def container(**different: Any) -> Container:
    """The container terway, running and ready."""
    usual: dict[str, Any] = {
        "name": "terway",
        "init": False,
        "ready": True,
        "restarts": 0,
        "state": "running",
        "message": "",
    }
    return Container(**(usual | different))


def pod(**different: Any) -> Pod:
    """default/client-b6989bf87-2bgtc, running on an address of the second ENI."""
    usual: dict[str, Any] = {
        "namespace": "default",
        "name": "client-b6989bf87-2bgtc",
        "uid": "6c1b8c9e-0000-4000-8000-000000000002",
        "phase": "Running",
        "ready": True,
        "host_network": False,
        "deleted": False,
        "addresses": ("192.168.0.134",),
        "labels": {},
        "annotations": {},
        "requests": {},
        "containers": (container(name="client"),),
    }
    return Pod(**(usual | different))


def terway_pod(**different: Any) -> Pod:
    """kube-system/terway-eniip-x7k2p, Ready, with its init container done."""
    init = container(name="terway-init", init=True, state="terminated: Completed")
    usual: dict[str, Any] = {
        "namespace": "kube-system",
        "name": "terway-eniip-x7k2p",
        "host_network": True,
        "addresses": ("192.168.0.117",),
        "labels": {"app": "terway-eniip"},
        "owner": Owner("apps/v1", "DaemonSet", "terway-eniip"),
        "containers": (init, container(), container(name="policy")),
    }
    return pod(**(usual | different))


def erdma_agent(**different: Any) -> Pod:
    """kube-system/alibabacloud-erdma-agent-7xk2p, Ready."""
    usual: dict[str, Any] = {
        "namespace": "kube-system",
        "name": "alibabacloud-erdma-agent-7xk2p",
        "labels": {"tier": "agent"},
        "owner": Owner("apps/v1", "DaemonSet", "alibabacloud-erdma-agent"),
        "containers": (container(name="agent"),),
    }
    return pod(**(usual | different))


def eni_address(**different: Any) -> EniAddress:
    """192.168.0.134, given to `pod()`."""
    usual: dict[str, Any] = {
        "address": "192.168.0.134",
        "primary": False,
        "status": "Valid",
        "pod": "default/client-b6989bf87-2bgtc",
    }
    return EniAddress(**(usual | different))


def eni_record(**different: Any) -> EniRecord:
    """The second ENI, 192.168.0.130 with 192.168.0.134 for `pod()`."""
    usual: dict[str, Any] = {
        "id": ENI,
        "mac": MAC,
        "status": "InUse",
        "type": "Secondary",
        "traffic_mode": "Standard",
        "primary_address": "192.168.0.130",
        "addresses": (eni_address(address="192.168.0.130", primary=True, pod=""), eni_address()),
        "troubles": (),
    }
    return EniRecord(**(usual | different))


def terway_node(*enis: EniRecord, **different: Any) -> TerwayNode:
    """Terway's record of `node_object()`; without any given, `eni_record()` is its only ENI."""
    usual: dict[str, Any] = {
        "instance": INSTANCE,
        "zone": "cn-hangzhou-j",
        "labels": {},
        "enis": enis or (eni_record(),),
        "synced": 60.0,
    }
    return TerwayNode(**(usual | different))


def pod_eni(**different: Any) -> PodEni:
    """An ENI that the pod default/worker-0 holds for itself."""
    usual: dict[str, Any] = {
        "record": "default/worker-0",
        "phase": "Bind",
        "eni": "eni-bp1third",
        "mac": "00:16:3e:aa:bb:02",
        "type": "Secondary",
        "trunk": "",
    }
    return PodEni(**(usual | different))


def erdma_device(**different: Any) -> ErdmaDevice:
    """A Ready ERI that is not the primary ENI."""
    usual: dict[str, Any] = {
        "eni": "eni-bp1eri",
        "mac": "00:16:3e:aa:bb:03",
        "primary": False,
        "status": "Ready",
        "message": "",
    }
    return ErdmaDevice(**(usual | different))


def erdma_record(*devices: ErdmaDevice, **different: Any) -> ErdmaRecord:
    """erdma-controller's record; without any given, `erdma_device()` is its only ERI."""
    usual: dict[str, Any] = {"jumbo": False, "devices": devices or (erdma_device(),)}
    return ErdmaRecord(**(usual | different))


def eni_config(**settings: Any) -> EniConfig:
    """The ConfigMap eni-config of CRD IPAM. Settings given here are added to the usual ones."""
    usual: dict[str, Any] = {
        "version": "1",
        "max_pool_size": 5,
        "min_pool_size": 0,
        "vswitches": {"cn-hangzhou-j": ["vsw-bp1first"]},
        "security_groups": ["sg-bp1first"],
        "service_cidr": "10.96.0.0/16",
        "ip_stack": "ipv4",
        "ipam_type": "crd",
    }
    return EniConfig("kube-system/eni-config", usual | settings)


def cluster(**different: Any) -> Cluster:
    """`node_object()` with its Terway pod and `pod()`, and the records that Terway keeps of it."""
    usual: dict[str, Any] = {
        "at": 0.0,
        "node": node_object(),
        "pods": (terway_pod(), pod()),
        "terway": terway_node(),
        "pod_enis": (),
        "erdma": None,
        "eni_config": eni_config(),
    }
    return Cluster(**(usual | different))


def advertising(capacity: Mapping[str, str], offers: Mapping[str, str] | None = None, **different: Any) -> Cluster:
    """The view of a node with this capacity, and the same allocatable unless it is given."""
    told = node_object(capacity=capacity, allocatable=capacity if offers is None else offers)
    return cluster(node=told, **different)
