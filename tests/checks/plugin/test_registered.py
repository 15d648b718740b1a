"""plugin.registered: what profile or baseline expects, and what the kubelet and the Node have of it."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep import check_round
from nodeprep.checks.plugin.registered import CHECK
from nodeprep.facts.kubernetes.resource_slices import ResourceSlices, SliceDevice
from nodeprep.model import Seen, Unreadable, Why, not_mounted
from tests import cluster_values
from tests.gpu_values import uuids
from tests.kubelet_values import GPU, allocatable, kubelet, plugins
from tests.values import expected, say, verdicts

DRA, HCA = "gpu.nvidia.com", "rdma/hca"
WANTED = expected(profile="hgx", resources={GPU: 8})
NOBODY = expected()
UNSEEN: Any = not_mounted("/var/lib/kubelet/pod-resources", "daemonset/base/daemonset.yaml")
LATE: Any = Unreadable(Why.TIMEOUT, "/var/lib/kubelet/pod-resources/kubelet.sock", detail="no answer in 1 s")
API: Any = Unreadable(Why.TIMEOUT, "https://10.0.0.1:443", detail="no answer in 5 s")
SERVES = ("/var/lib/kubelet/device-plugins",)
PLUGIN = cluster_values.pod(namespace="gpu", name="plugin-x", writes=SERVES)
OTHER = cluster_values.pod(namespace="gpu", name="other-x", writes=SERVES)
WAITS = cluster_values.container(name="wait-ready", init=True)
HELD = cluster_values.pod(namespace="gpu", name="plugin-x", writes=SERVES, phase="Pending", containers=(WAITS,))
PASSED = cluster_values.container(name="wait-ready", init=True, state="terminated: Completed")
OPENED = cluster_values.pod(namespace="gpu", name="plugin-x", writes=SERVES, containers=(PASSED,))
GONE = cluster_values.pod(namespace="gpu", name="plugin-x", writes=SERVES, containers=(WAITS,), deleted=True)


def cluster(capacity: dict[str, str], *pods: Any) -> Any:
    return cluster_values.advertising(capacity, pods=pods)


RESTART = "plugin_restart(pod=gpu/plugin-x)"
ROWS = [
    # the kubelet's ids    Node            pods            says
    ({GPU: uuids(8)}, {GPU: "8"}, (PLUGIN,), "ok Registered"),
    ({GPU: uuids(8)}, {}, (PLUGIN,), "ok Registered"),  # the Node is 10 s late
    ({}, {GPU: "8"}, (PLUGIN,), "ok Registered"),  # plugin.allocatable speaks of its devices
    (None, {GPU: "8"}, (), "ok Registered"),
    ({}, {}, (), "fail NotRegistered"),
    ({}, {}, (PLUGIN,), f"fail NotRegistered {RESTART}"),
    ({}, {}, (PLUGIN, OTHER), "fail NotRegistered"),  # nobody knows which of the two to restart
    ({}, {GPU: "0"}, (PLUGIN,), f"fail Lost {RESTART}"),
    ({}, {GPU: "0"}, (), "fail Lost"),
    (None, {}, (), "fail NotRegistered"),
    ({}, {}, (HELD,), "ok HeldByGate"),
    ({}, {GPU: "0"}, (HELD,), "ok HeldByGate"),
    ({}, {}, (OPENED,), f"fail NotRegistered {RESTART}"),
    ({}, {}, (GONE,), "fail NotRegistered"),
]


@pytest.mark.parametrize(("ids", "capacity", "pods", "says"), ROWS, ids=range(len(ROWS)))
def test_what_it_says(ids: Any, capacity: dict[str, str], pods: Any, says: str) -> None:
    healthy = allocatable({} if ids is None else ids)
    healthy = healthy if ids is not None else type(healthy)(4000.0, True, LATE)
    assert say(CHECK, kubelet(), healthy, cluster(capacity, *pods), WANTED) == says


STARTED = [
    # the kubelet began   Node           says
    (4000.0 - 10, {}, "unknown Starting"),
    (4000.0 - 299, {}, "unknown Starting"),
    (4000.0 - 299, {GPU: "0"}, "unknown Starting"),
    (4000.0 - 301, {}, "fail NotRegistered"),
    (4000.0 - 10, {GPU: "8"}, "ok Registered"),
    (LATE, {}, "unknown CannotLook"),
    (LATE, {GPU: "8"}, "ok Registered"),
    (UNSEEN, {}, "unknown NotMounted"),
    (UNSEEN, {GPU: "8"}, "unknown NotMounted"),
]


@pytest.mark.parametrize(("started", "capacity", "says"), STARTED, ids=range(len(STARTED)))
def test_a_kubelet_that_began_lately(started: Any, capacity: dict[str, str], says: str) -> None:
    assert say(CHECK, kubelet(started=started), allocatable({}), cluster(capacity), WANTED) == says


def test_nobody_expects_anything() -> None:
    """A GPU is no reason to expect nvidia.com/gpu: it may be given out by claims."""
    assert say(CHECK, kubelet(), allocatable({}), cluster({}), NOBODY) == "absent Nothing"
    assert say(CHECK, kubelet(), allocatable({}), cluster({}), expected(resources={GPU: 0})) == "absent Nothing"
    none = kubelet(present=False, started=None, healthz=None, pods=())
    assert say(CHECK, none, allocatable({}), cluster({}), WANTED) == "absent Nothing"


def test_gpus_that_are_offered_by_claims_have_no_resource() -> None:
    slices = ResourceSlices(4000.0, True, (DRA,), (), (SliceDevice(DRA, "GPU-0", is_tainted=False),))
    hope = expected(profile="hgx", resources={GPU: 8, HCA: 63})
    absent = (kubelet(), allocatable({}), cluster({}), hope)
    former = (kubelet(), allocatable({}), cluster({GPU: "0"}), hope)
    for seen in (absent, former):
        assert say(CHECK, *seen, slices) == "ok InResourceSlices; fail NotRegistered"
    (verdict, _) = verdicts(CHECK, *absent, slices)
    assert "in ResourceSlices of gpu.nvidia.com 1" in verdict.message
    assert say(CHECK, *former, ResourceSlices(4000.0, True)) == "fail Lost; fail NotRegistered"


def test_where_slices_may_not_be_listed_the_message_says_so() -> None:
    refused: Any = Unreadable(Why.DENIED, "resourceslices.resource.k8s.io", detail="HTTP 403: may not")
    hope = expected(profile="hgx", resources={GPU: 8, HCA: 63})
    facts = (kubelet(), allocatable({}), cluster({}), hope)
    seen = Seen({type(one): one for one in facts} | {ResourceSlices: refused})
    gpu, hca = check_round.run_check(CHECK, seen)
    assert gpu.message.endswith("HTTP 403: may not); daemonset/components/dra gives the right")
    assert "ResourceSlices" not in hca.message


def test_each_resource_has_a_verdict_of_its_own() -> None:
    both = expected(resources={GPU: 8, "rdma/hca": 63})
    found = verdicts(CHECK, kubelet(), allocatable({GPU: uuids(8)}), cluster({GPU: "8"}), both, plugins())
    assert [(one.subject.place, one.reason) for one in found] == [(GPU, "Registered"), ("rdma/hca", "NotRegistered")]


def test_its_words() -> None:
    told = cluster({}, PLUGIN, OTHER)
    (verdict,) = verdicts(CHECK, kubelet(pods=()), allocatable({}), told, WANTED)
    assert verdict.message == (
        f"{cluster_values.NODE} has no nvidia.com/gpu: no plugin registered it; profile hgx wants 8; "
        "pods here that serve plugins: gpu/plugin-x, gpu/other-x"
    )
    (verdict,) = verdicts(CHECK, kubelet(pods=()), allocatable({}), cluster({GPU: "0"}), WANTED)
    assert verdict.message == (
        "nvidia.com/gpu: capacity 0, allocatable 0, in use 0; its plugin was registered and is gone; "
        "profile hgx wants 8; no pod here serves a plugin"
    )


def serving(name: str, *containers: Any, writes: tuple[str, ...] = SERVES) -> Any:
    return cluster_values.pod(namespace="kube-system", name=name, writes=writes, containers=containers)


TERWAY = serving("terway-eniip-x", writes=(*SERVES, "/etc/cni/net.d"))
RDMA_WAITS = serving("rdma-shared-dp-ds-x", WAITS)
NVIDIA = serving("nvidia-device-plugin-x")
SRIOV, ALSO = "nvidia.com/mlnxnics", serving("sriov-device-plugin-x")
OF_ITS_NAME = [
    # pods that serve plugins here                     says of nvidia.com/gpu
    ((TERWAY,), "fail NotRegistered"),  # not the pods' network
    ((serving("csi-plugin-x"),), "fail NotRegistered"),
    ((serving("device-plugin-x", writes=(*SERVES, "/opt/cni/bin")),), "fail NotRegistered"),
    ((TERWAY, NVIDIA), "fail NotRegistered plugin_restart(pod=kube-system/nvidia-device-plugin-x)"),
    ((RDMA_WAITS,), "fail NotRegistered"),  # another plugin's wait excuses nothing
    ((RDMA_WAITS, NVIDIA), "fail NotRegistered plugin_restart(pod=kube-system/nvidia-device-plugin-x)"),
    ((serving("nvidia-device-plugin-x", WAITS), TERWAY), "ok HeldByGate"),
    ((serving("nvidia-device-plugin-x", WAITS), NVIDIA), "fail NotRegistered"),  # one of the two runs
    # the GPU operator's toolkit and driver write below /run/nvidia, and serve no plugin
    ((serving("nvidia-device-plugin-x", WAITS), serving("nvidia-toolkit-x", writes=("/run/nvidia",))), "ok HeldByGate"),
]


@pytest.mark.parametrize(("pods", "says"), OF_ITS_NAME, ids=range(len(OF_ITS_NAME)))
def test_whose_pod_it_is(pods: tuple[Any, ...], says: str) -> None:
    assert say(CHECK, kubelet(), allocatable({}), cluster({}, *pods), WANTED) == says


def test_a_resource_of_nvidias_domain_that_is_no_gpu_is_not_of_its_gpu_plugin() -> None:
    """The network operator's SR-IOV plugin advertises such resources."""
    hope = expected(profile="hgx", resources={SRIOV: 8})
    waits = serving("sriov-device-plugin-x", WAITS)
    for pods, says in (
        ((NVIDIA, ALSO), "fail NotRegistered plugin_restart(pod=kube-system/sriov-device-plugin-x)"),
        ((NVIDIA, waits), "ok HeldByGate"),
        ((NVIDIA,), "fail NotRegistered"),
    ):
        assert say(CHECK, kubelet(), allocatable({}), cluster({}, *pods), hope) == says
