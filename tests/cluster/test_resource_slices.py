"""ResourceSlices of a real kube-apiserver, by the rights that the component gives."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli import kubernetes_access
from nodeprep.cli.kubernetes_access import ClusterOptions
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import resource_slices
from nodeprep.facts.kubernetes.resource_slices import PCI_BUS_ID, ResourceSlices
from nodeprep.model import Unreadable, Why
from nodeprep.values import replace
from tests.cluster.accounts import account
from tests.cluster.agents import SOON
from tests.daemonset.manifests import ROOT, combined, of
from tests.rigs.cluster import Cluster

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
NODE, OTHER, DRIVER = "slices-here", "slices-elsewhere", "gpu.nvidia.com"


def device(number: int, **more: Any) -> dict[str, Any]:
    """As kubernetes-sigs/dra-driver-nvidia-gpu writes a whole GPU (GpuInfo.GetDevice)."""
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{number}"},
        "driverVersion": {"version": "570.86.15"},
        PCI_BUS_ID: {"string": f"0000:{number:02x}:00.0"},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}} | more


def put(cluster: Cluster, name: str, node: str, *devices: dict[str, Any], driver: str = DRIVER) -> None:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)}
    cluster.create(SLICES, {"metadata": {"name": name}, "spec": spec})


@pytest.fixture(scope="session")
def sliced(cluster: Cluster) -> Cluster:
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}
    put(cluster, "ours", NODE, device(0), device(1), device(2, taints=[taint]))
    put(cluster, "domain", NODE, {"name": "daemon-0"}, driver="compute-domain.nvidia.com")
    put(cluster, "theirs", OTHER, device(3))
    return cluster


def shipped(tmp_path: Path) -> list[dict[str, Any]]:
    roles = of(combined(tmp_path, [ROOT / "base"], "dra"), "ClusterRole")
    (role,) = [one for one in roles if one["metadata"]["name"] == "nodeprep-agent-dra"]
    return list(role["rules"])


def observed(cluster: Cluster, tmp_path: Path, token: str) -> ResourceSlices | Unreadable:
    (tmp_path / "sys/module/nvidia").mkdir(parents=True, exist_ok=True)
    file = cluster.kubeconfig({"token": token})
    access = kubernetes_access.access(ClusterOptions(str(file), None, NODE), {})
    assert access is not None
    return resource_slices.observe(Host(str(tmp_path), kubernetes=replace(access, connect=SOON, read=SOON)))


def test_with_the_components_rights_it_has_the_slices_of_its_node(sliced: Cluster, tmp_path: Path) -> None:
    token = account(sliced, f"slices-{time.monotonic_ns()}", shipped(tmp_path))
    found = observed(sliced, tmp_path, token)
    assert isinstance(found, ResourceSlices)
    assert (found.asked, found.drivers, found.incomplete) == (True, (DRIVER,), ())
    assert found.gpus(DRIVER) == {"GPU-0", "GPU-1"}
    assert [one.gpu for one in found.devices if one.is_tainted] == ["GPU-2"]


def test_without_them_it_says_what_it_may_not(sliced: Cluster, tmp_path: Path) -> None:
    found = observed(sliced, tmp_path, account(sliced, f"no-slices-{time.monotonic_ns()}"))
    assert isinstance(found, Unreadable)
    assert (found.kind, "list resourceslices.resource.k8s.io --all-namespaces" in found.detail) == (Why.DENIED, True)


def test_the_component_gives_nothing_else(tmp_path: Path) -> None:
    assert shipped(tmp_path) == [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]}]
