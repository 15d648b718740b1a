"""Kubernetes objects as the API server keeps them: a node of ACK with Terway, and its controllers' records."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

NODE = "cn-hangzhou.192.168.0.117"
LIMITS = '{"EniQuantity": 8, "EriQuantity": 2}'
ENI, MAC = "eni-bp1second", "00:16:3E:aa:bb:01"
SETTINGS = {
    "version": "1",
    "access_key": "LTAI5tSECRET",
    "access_secret": "verySECRET",
    "max_pool_size": 5,
    "vswitches": {"cn-hangzhou-j": ["vsw-bp1first"]},
    "security_groups": ["sg-bp1first"],
    "ipam_type": "crd",
}


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str = NODE, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"topology.kubernetes.io/zone": "cn-hangzhou-j"} | labels,
            "annotations": {"alibabacloud.com/instance-type-info": LIMITS, "example.com/secret": "SECRET"},
        },
        "spec": {"providerID": "cn-hangzhou.i-bp1node"},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": name},
                {"type": "InternalIP", "address": "192.168.0.117"},
            ],
            "capacity": {"cpu": "64", "aliyun/eni": "7", "pods": "110"},
            "allocatable": {"cpu": "63", "aliyun/eni": "7", "pods": "110"},
            "conditions": [
                {
                    "type": "SufficientIP",
                    "status": "True",
                    "reason": "SufficientIP",
                    "message": "node has sufficient IP",
                    "lastHeartbeatTime": ago(120),
                    "lastTransitionTime": ago(3600),
                }
            ],
        },
    }


def foreign_node(name: str) -> dict[str, Any]:
    """A node of EKS."""
    told = node(name)
    told["metadata"] |= {"labels": {"eks.amazonaws.com/nodegroup": "a"}, "annotations": {}}
    told["spec"] = {"providerID": "aws:///us-west-2a/i-0abc"}
    return told


def pod(name: str = "client-b6989bf87-2bgtc", namespace: str = "default", on: str = NODE) -> dict[str, Any]:
    """A running pod with an ENI of its own and a sidecar."""
    resources = {"requests": {"cpu": "1", "aliyun/eni": "1"}, "limits": {"aliyun/eni": "1", "rdma/hca": "1k"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": "client"},
            "annotations": {
                "k8s.aliyun.com/pod-eni": "true",
                "kubectl.kubernetes.io/last-applied-configuration": '{"env": "SECRET"}',
            },
        },
        "spec": {
            "nodeName": on,
            "containers": [
                {"name": "client", "image": "client", "resources": resources},
                {"name": "log", "image": "log", "resources": {"limits": {"aliyun/eni": "1"}}},
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": "192.168.0.134",
            "podIPs": [{"ip": "192.168.0.134"}, {"ip": "fd00::86"}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [status("client", {"running": {"startedAt": ago(60)}}, ready=True)],
        },
    }


def terway_pod(on: str = NODE) -> dict[str, Any]:
    """A Terway pod whose init container refuses the node."""
    told = pod("terway-eniip-x7k2p", "kube-system", on)
    told["metadata"] |= {"labels": {"app": "terway-eniip"}, "ownerReferences": [daemon_set("terway-eniip")]}
    told["spec"] |= {"hostNetwork": True, "initContainers": [{"name": "terway-init", "image": "terway"}]}
    last = {"terminated": {"exitCode": 1, "reason": "Error", "message": "Error: ipvlan is unsupported\n"}}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
    told["status"] |= {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False"}],
        "initContainerStatuses": [status("terway-init", waits, restarts=4) | {"lastState": last}],
        "containerStatuses": [status("terway", {"waiting": {"reason": "PodInitializing"}})],
    }
    return told


def daemon_set(name: str) -> dict[str, Any]:
    """What a pod of a DaemonSet of this name says of its owner."""
    uid = "5d1b8c9e-0000-4000-8000-000000000003"
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid, "controller": True}


def status(name: str, state: dict[str, Any], *, ready: bool = False, restarts: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "state": state,
        "lastState": {},
        "ready": ready,
        "restartCount": restarts,
        "image": name,
        "imageID": name,
    }


def terway_node(name: str = NODE) -> dict[str, Any]:
    addresses = {
        "192.168.0.130": {"ip": "192.168.0.130", "primary": True, "status": "Valid"},
        "192.168.0.134": {"ip": "192.168.0.134", "status": "Valid", "podID": "default/client-b6989bf87-2bgtc"},
    }
    return {
        "apiVersion": "network.alibabacloud.com/v1beta1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"name": name}},
        "spec": {"nodeMetadata": {"instanceID": "i-bp1node", "zoneID": "cn-hangzhou-j"}},
        "status": {
            "lastSyncOpenAPITime": ago(60),
            "networkInterfaces": {
                ENI: {
                    "id": ENI,
                    "macAddress": MAC,
                    "status": "InUse",
                    "networkInterfaceType": "Secondary",
                    "networkInterfaceTrafficMode": "Standard",
                    "primaryIPAddress": "192.168.0.130",
                    "ipv4": addresses,
                    "conditions": {"OperationErr": {"observedTime": ago(60), "message": "InvalidVSwitchId"}},
                }
            },
        },
    }


def pod_eni(name: str = "worker-0", on: str = NODE) -> dict[str, Any]:
    return {
        "apiVersion": "network.alibabacloud.com/v1beta1",
        "kind": "PodENI",
        "metadata": {"name": name, "namespace": "default", "labels": {"k8s.aliyun.com/node": on}},
        "spec": {
            "allocations": [{"eni": {"id": "eni-bp1member", "mac": "00:16:3E:aa:bb:02"}, "ipv4": "192.168.0.140"}]
        },
        "status": {
            "phase": "Bind",
            "instanceID": "i-bp1node",
            "trunkENIID": "eni-bp1trunk",
            "eniInfos": {"eni-bp1member": {"id": "eni-bp1member", "type": "Member", "vid": 5}},
        },
    }


def network_interface(name: str = ENI, on: str = NODE) -> dict[str, Any]:
    return {
        "apiVersion": "network.alibabacloud.com/v1beta1",
        "kind": "NetworkInterface",
        "metadata": {"name": name},
        "spec": {"eni": {"id": name, "mac": MAC}},
        "status": {"phase": "Bind", "nodeName": on, "eniInfo": {"type": "Secondary"}},
    }


def erdma_device(name: str = NODE) -> dict[str, Any]:
    devices = [
        {"id": "eni-bp1eri", "mac": "00:16:3E:aa:bb:03", "isPrimaryENI": False},
        {"id": "eni-bp1primary", "mac": "00:16:3e:aa:bb:00", "isPrimaryENI": True},
    ]
    return {
        "apiVersion": "network.alibabacloud.com/v1",
        "kind": "ERdmaDevice",
        "metadata": {"name": name},
        "spec": {"jumboFrame": True, "devices": devices},
        "status": {"devices": [{"id": "eni-bp1eri", "status": "Failed", "message": "no quota"}]},
    }


def config_map(name: str = "eni-config", settings: object = SETTINGS) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": {"eni_conf": settings if isinstance(settings, str) else json.dumps(settings), "10-terway.conf": "{}"},
    }
