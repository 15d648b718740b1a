"""Whether somebody else works on this node, who owns its drivers, and which pods ask for devices."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.decide import driver_owner, foreign_maintenance, pod_requests
from nodeprep.decide.driver_owner import DriverFamily
from nodeprep.decide.remedy_header import Idle
from nodeprep.facts.kubernetes.cluster import MULTUS, Owner, Pod
from nodeprep.model import Unreadable, Why
from tests import cluster_values
from tests.repair_values import node

HINDRANCES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"taints": (("nodeprep.io/unhealthy", "NoSchedule"), ("nvidia.com/gpu", "NoSchedule"))}, ""),
    ({"true_conditions": ("Ready", "nodeprep.io/ENIReady")}, ""),
    ({"labels": {"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}}, ""),
    ({"labels": {"dgxc.nvidia.com/nvsentinel-state": ""}}, ""),
    ({"deleting": True}, "the Node is being deleted"),
    ({"unschedulable": True}, "the Node is cordoned"),
    *(({"true_conditions": (name,)}, f"condition {name} is True") for name in foreign_maintenance.CONDITIONS),
    *(({"taints": ((key, "NoSchedule"),)}, f"taint {key}") for key in foreign_maintenance.TAINTS),
    ({"labels": {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}}, "is 'drain-required'"),
    ({"labels": {"nvidia.com/ofed-driver-upgrade-state": "upgrade-failed"}}, "upgrades a driver here"),
    ({"labels": {"dgxc.nvidia.com/nvsentinel-state": "quarantined"}}, "NVSentinel"),
    ({"annotations": {"weave.works/kured-reboot-in-progress": ""}}, "kured reboots"),
]


@pytest.mark.parametrize(("different", "says"), HINDRANCES)
def test_somebody_works_on_the_node(different: dict[str, Any], says: str) -> None:
    told = foreign_maintenance.hindrance(node(**different))
    assert bool(told) == bool(says)
    assert says in told


def pod(**different: Any) -> Pod:
    return cluster_values.pod(**different)


NVIDIA, MELLANOX = DriverFamily.NVIDIA, DriverFamily.MELLANOX
OWNED: list[tuple[dict[str, str], tuple[Pod, ...], bool, set[DriverFamily]]] = [
    ({}, (), False, set()),
    ({}, (), True, {NVIDIA}),
    ({"nvidia.com/gpu.deploy.driver": "true"}, (), False, {NVIDIA}),
    ({"nvidia.com/gpu.deploy.driver": "paused-for-driver-upgrade"}, (), False, {NVIDIA}),
    ({"nvidia.com/gpu.deploy.driver": "pre-installed"}, (), False, set()),
    ({"nvidia.com/gpu.deploy.driver": "false"}, (), False, set()),
    ({"network.nvidia.com/operator.mofed.wait": "false"}, (), False, {MELLANOX}),
    ({}, (pod(writes=("/run/mellanox/drivers",)),), False, {MELLANOX}),
    ({}, (pod(writes=("/run/nvidia/driver", "/var/log")),), False, {NVIDIA}),
    ({}, (pod(writes=("/run/nvidia/driver",), phase="Failed"),), False, {NVIDIA}),
    ({}, (pod(writes=("/var/lib/kubelet",)),), False, set()),
    ({}, (pod(writes=Unreadable(Why.MISSING, "spec")),), False, set()),
]


@pytest.mark.parametrize(("labels", "pods", "container", "families"), OWNED)
def test_an_operator_owns(
    labels: dict[str, str], pods: tuple[Pod, ...], *, container: bool, families: set[DriverFamily]
) -> None:
    assert driver_owner.owned(labels, pods, gpu_container=container) == families


TOUCHED: list[tuple[str, dict[str, str], set[DriverFamily], str]] = [
    ("kernel_modules", {"module": "mlx5_core"}, {MELLANOX}, "NVIDIA's network operator owns mlx5_core"),
    ("kernel_modules", {"module": "ib_uverbs"}, {MELLANOX}, "ib_uverbs"),
    ("kernel_modules", {"module": "ib-uverbs"}, {MELLANOX}, "ib-uverbs"),
    ("driver_bind", {"bdf": "0000:5c:00.0", "driver": "mlx5_core"}, {NVIDIA, MELLANOX}, "mlx5_core"),
    ("kernel_modules", {"module": "nvidia_peermem"}, {NVIDIA}, "NVIDIA's GPU operator owns nvidia_peermem"),
    ("peermem_load", {}, {NVIDIA}, "nvidia_peermem"),
    ("peermem_load", {}, {MELLANOX}, ""),
    ("kernel_modules", {"module": "erdma"}, {NVIDIA, MELLANOX}, ""),
    ("kernel_modules", {"module": "mlx5_core"}, {NVIDIA}, ""),
    ("kernel_modules", {"module": "mlx5_core"}, set(), ""),
    ("link_up", {"interface": "mlx0"}, {MELLANOX}, ""),
]


@pytest.mark.parametrize(("remedy", "args", "families", "says"), TOUCHED)
def test_a_remedy_touches_a_driver_of_others(
    remedy: str, args: dict[str, str], families: set[DriverFamily], says: str
) -> None:
    told = driver_owner.hindrance(remedy, args, families)
    assert bool(told) == bool(says)
    assert says in told


BLIND = Unreadable(Why.MALFORMED, "requests")
PLUGINS = Owner("apps/v1", "DaemonSet", "rdma-plugin")
ENI = {"aliyun/member-eni": 1}
ASKED: list[tuple[Idle, tuple[Pod, ...], str]] = [
    (Idle.RDMA, (), ""),
    (Idle.RDMA, (pod(),), ""),
    (Idle.RDMA, (pod(requests={"rdma/hca": 1}),), "rdma/hca"),
    (Idle.RDMA, (pod(requests={"rdma/hca": 1}, phase="Succeeded"),), ""),
    (Idle.RDMA, (pod(requests={"rdma/hca": 1}, phase="Failed"),), ""),
    (Idle.RDMA, (pod(requests={"rdma/hca": 1}, phase="Pending"),), "rdma/hca"),
    (Idle.RDMA, (pod(requests={"rdma/hca": 1}, deleted=True),), "rdma/hca"),  # it ends, and has not ended
    (Idle.RDMA, (pod(requests={"rdma/hca": 0}),), ""),
    (Idle.RDMA, (pod(requests=ENI),), ""),
    (Idle.NETDEV, (pod(requests=ENI),), "aliyun/member-eni"),
    (Idle.FUNCTION, (pod(requests={"nvidia.com/gpu": 8}),), "8 nvidia.com/gpu"),
    (Idle.NETDEV, (pod(requests={"nvidia.com/gpu": 8}),), "8 nvidia.com/gpu"),
    (Idle.RDMA, (pod(claims=1),), "a resource claim"),
    (Idle.RDMA, (pod(requests=BLIND),), "something"),
    (Idle.RDMA, (pod(phase=BLIND),), "something"),
    (Idle.RDMA, (pod(name=BLIND, requests={"rdma/hca": 1}),), "of an unreadable name"),
    (Idle.RDMA, tuple(pod(name=f"p{n}", requests={"rdma/hca": 1}) for n in range(5)), "and 2 more"),
    # bound and not started: no process of it shows yet what it opens
    (Idle.RDMA, (pod(phase="Pending"),), ""),
    (Idle.RDMA, (pod(phase="Pending", host_network=True),), "(the host's network, not started yet)"),
    (Idle.NETDEV, (pod(phase="Pending", devices=("/dev/infiniband",)),), "(/dev/infiniband, not started yet)"),
    (Idle.RDMA, (pod(phase="Pending", devices=("privileged", "/")),), "(privileged, not started yet, /, not started"),
    (Idle.NETDEV, (pod(phase="Pending", writes=("/devices", "/data")),), ""),
    (Idle.RDMA, (pod(phase="Running", host_network=True, devices=("/dev/infiniband",)),), ""),  # its processes tell
    (Idle.NETDEV, (pod(annotations={MULTUS: ""}),), "(networks by Multus)"),
    (Idle.NETDEV, (pod(annotations={MULTUS: ""}, phase="Failed"),), ""),
    (Idle.NETDEV, (pod(annotations={MULTUS: ""}, owner=PLUGINS),), ""),  # it never ends
    (Idle.RDMA, (pod(phase="Pending", host_network=True, owner=PLUGINS),), ""),  # it may wait for our gate
    (Idle.NOTHING, (pod(phase="Pending", host_network=True),), ""),
    (Idle.NOTHING, (pod(requests={"rdma/hca": 1}),), ""),
    (Idle.PLUGIN, (pod(requests={"rdma/hca": 1}),), ""),
]


@pytest.mark.parametrize(("idle", "pods", "says"), ASKED)
def test_a_pod_asks_for_what_must_be_idle(idle: Idle, pods: tuple[Pod, ...], says: str) -> None:
    told = pod_requests.hindrance(pods, idle)
    assert bool(told) == bool(says)
    assert says in told
