"""Kubernetes' objects of the netns rig's node: Node, pods and Terway's records, kept in a real API server.

    with Records(cluster, shared(shape)) as records, records.changed({"terway-pod": None}):
        ...

A change is a merge patch (RFC 7396) of an object by its name here; None removes it. If a change names an object that is
not there, it comes from SPARE.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from tests import api_objects
from tests.api_objects import ago
from tests.rigs.cluster import ALIBABA, Cluster
from tests.rigs.netns_node import NODE_ADDRESS, Shape

Object = dict[str, Any]
Changes = Mapping[str, Object | None]

NAME = f"cn-hangzhou.{NODE_ADDRESS}"
INSTANCE, TYPE, ZONE = "i-bp1exemplar", "ecs.g8i.4xlarge", "cn-hangzhou-j"  # tests/trees/imds/two-enis.json
LIMITS = {"EniQuantity": 4, "EniTotalQuantity": 14, "EriQuantity": 1}
EXCLUSIVE = {"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}
SETTINGS = {
    "version": "1",
    "max_pool_size": 5,
    "min_pool_size": 0,
    "vswitches": {ZONE: ["vsw-bp1exemplar"]},
    "security_groups": ["sg-bp1exemplar"],
    "ipam_type": "crd",
}
PATHS = {
    ("v1", "Node"): "/api/v1/nodes",
    ("v1", "Pod"): "/api/v1/namespaces/{}/pods",
    ("v1", "ConfigMap"): "/api/v1/namespaces/{}/configmaps",
    (f"{ALIBABA}/v1beta1", "Node"): f"/apis/{ALIBABA}/v1beta1/nodes",
    (f"{ALIBABA}/v1beta1", "PodENI"): f"/apis/{ALIBABA}/v1beta1/namespaces/{{}}/podenis",
    (f"{ALIBABA}/v1beta1", "NetworkInterface"): f"/apis/{ALIBABA}/v1beta1/networkinterfaces",
    (f"{ALIBABA}/v1", "ERdmaDevice"): f"/apis/{ALIBABA}/v1/erdmadevices",
}
LONGEST = 30.0  # seconds until the server's list of pods has a write


def settings(**different: Any) -> Object:
    """A change of the ConfigMap eni-config."""
    return {"data": {"eni_conf": json.dumps(SETTINGS | different)}}


def limits(**different: int) -> Object:
    """A change of the Node: the limits of its instance type."""
    told = json.dumps(LIMITS | different)
    return {"metadata": {"annotations": {"alibabacloud.com/instance-type-info": told}}}


def node(**labels: str) -> Object:
    told = api_objects.node(NAME, **labels)
    told["metadata"]["labels"] |= {"node.kubernetes.io/instance-type": TYPE, "topology.kubernetes.io/zone": ZONE}
    told["metadata"]["annotations"] = limits()["metadata"]["annotations"]
    told["spec"]["providerID"] = f"cn-hangzhou.{INSTANCE}"
    told["status"]["addresses"] = [{"type": "InternalIP", "address": NODE_ADDRESS}]
    told["status"]["conditions"][0]["lastHeartbeatTime"] = ago(0)
    return told


def pod(name: str, address: str, namespace: str = "default", **labels: str) -> Object:
    """A pod with one container that runs and is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "nodeName": NAME,
            "hostNetwork": address == NODE_ADDRESS,
            "containers": [{"name": "main", "image": "main"}],
        },
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [api_objects.status("main", {"running": {"startedAt": ago(60)}}, ready=True)],
        },
    }


def terway(shape: Shape, **labels: str) -> Object:
    """Terway's record, which agrees with the metadata."""
    told = api_objects.terway_node(NAME)
    told["metadata"]["labels"] |= labels
    told["spec"]["nodeMetadata"] = {"instanceID": INSTANCE, "zoneID": ZONE}
    told["status"]["networkInterfaces"] = {f"eni-{eni}": _eni(shape, eni) for eni in range(1, shape.enis + 1)}
    return told


def _eni(shape: Shape, eni: int) -> Object:
    own, *others = shape.addresses(eni)
    pods = {shape.pod(number): f"default/worker-{number}" for number in range(shape.pods)}
    addresses = {own: {"ip": own, "primary": True, "status": "Valid"}}
    addresses |= {one: {"ip": one, "status": "Valid", "podID": pods[one]} for one in others}
    return {
        "id": f"eni-{eni}",
        "macAddress": shape.mac(eni).upper(),
        "status": "InUse",
        "networkInterfaceType": "Secondary",
        "networkInterfaceTrafficMode": "Standard",
        "primaryIPAddress": own,
        "ipv4": addresses,
    }


def shared(shape: Shape) -> dict[str, Object]:
    """A node whose pods share ENIs."""
    pods = {f"worker-{number}": pod(f"worker-{number}", shape.pod(number)) for number in range(shape.pods)}
    return {"node": node(), "terway": terway(shape), **pods, **_common()}


def exclusive(shape: Shape) -> dict[str, Object]:
    """A node with exclusive ENIs. A PodENI names the first, a NetworkInterface the second; the others wait for pods."""
    pods = {}
    for eni in (1, 2):
        name = f"worker-{eni - 1}"
        pods[name] = pod(name, shape.addresses(eni)[0])
        pods[name]["metadata"]["annotations"] = {"k8s.aliyun.com/pod-eni": "true"}
    held = pod_eni(1, shape.mac(1))
    interface = api_objects.network_interface("eni-2", NAME)
    interface["spec"]["eni"]["mac"] = shape.mac(2)
    objects = {"node": node(**EXCLUSIVE), "terway": terway(shape, **EXCLUSIVE), **pods, **_common()}
    return objects | {"pod-eni": held, "interface": interface}


def pod_eni(eni: int, mac: str, kind: str = "Secondary") -> Object:
    """The PodENI of pod default/worker-0."""
    told = api_objects.pod_eni("worker-0", NAME)
    told["spec"]["allocations"] = [{"eni": {"id": f"eni-{eni}", "mac": mac}, "ipv4": "192.168.0.130"}]
    told["status"] = {"phase": "Bind", "instanceID": INSTANCE, "eniInfos": {f"eni-{eni}": {"type": kind}}}
    return told


def _common() -> dict[str, Object]:
    daemon = pod("terway-eniip-x7k2p", NODE_ADDRESS, "kube-system", app="terway-eniip")
    daemon["metadata"]["ownerReferences"] = [api_objects.daemon_set("terway-eniip")]
    daemon["spec"]["initContainers"] = [{"name": "terway-init", "image": "terway"}]
    done = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    daemon["status"]["initContainerStatuses"] = [api_objects.status("terway-init", done, ready=True)]
    return {"terway-pod": daemon, "eni-config": api_objects.config_map(settings=SETTINGS)}


def _eri() -> Object:
    told = api_objects.erdma_device(NAME)
    told["spec"]["devices"] = [{"id": "eni-eri", "mac": "00:16:3e:aa:cc:01"}]
    told["status"]["devices"] = [{"id": "eni-eri", "status": "Ready"}]
    return told


def _erdma_agent() -> Object:
    told = pod("alibabacloud-erdma-agent-8kq2z", NODE_ADDRESS, "kube-system", tier="agent")
    told["metadata"]["ownerReferences"] = [api_objects.daemon_set("alibabacloud-erdma-agent")]
    return told


SPARE = {
    "erdma": _eri(),
    "agent": _erdma_agent(),
    "member": pod_eni(9, "00:16:3e:aa:dd:01", "Member"),
    "newcomer": pod("newcomer-0", "192.168.0.201"),
}


class Records:
    """The objects in the server while the context lasts, with the present changes."""

    def __init__(self, cluster: Cluster, objects: dict[str, Object]) -> None:
        self.cluster = cluster
        self.objects = objects

    def __enter__(self) -> Self:
        for one in self.objects.values():
            self._put(one)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self.objects.values():
            self._remove(one)

    @contextmanager
    def changed(self, changes: Changes) -> Iterator[None]:
        """Delete and create the objects: so fields can change that a patch may not change, such as a providerID."""
        usual = {name: self.objects.get(name) or SPARE[name] for name in changes}
        try:
            for name, change in changes.items():
                if change is None:
                    self._remove(usual[name])
                else:
                    self._put(_merged(usual[name], change))
            yield
        finally:
            for name, one in usual.items():
                if name in self.objects:
                    self._put(one)
                else:
                    self._remove(one)

    def _put(self, one: Object) -> None:
        self._remove(one)
        made = self.cluster.create(_path(one), one)
        if one["kind"] == "Pod":
            self._await(one, made["metadata"]["resourceVersion"])

    def _remove(self, one: Object) -> None:
        code, told = self.cluster.call("DELETE", f"{_path(one)}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})
        if code not in (200, 404):
            raise RuntimeError(f"DELETE {_path(one)}: {code} {told.get('message')}")
        if one["kind"] == "Pod":
            self._await(one, None)

    def _await(self, pod: Object, version: str | None) -> None:
        """nodeprep lists pods from the server's memory, which has a write a moment later."""
        end = time.monotonic() + LONGEST
        while True:
            listed = self.cluster.call("GET", f"{_path(pod)}?resourceVersion=0")[1]["items"]
            found = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in listed}
            if found.get(pod["metadata"]["name"]) == version:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"the server still lists {found}")
            time.sleep(0.01)


def _path(one: Object) -> str:
    return PATHS[one["apiVersion"], one["kind"]].format(one["metadata"].get("namespace"))


def _merged(base: Object, change: Object) -> Object:
    found = copy.deepcopy(base)
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key) or {}, value) if isinstance(value, dict) else value
    return found
