"""plugin.tolerates-gate on pods that the DaemonSet controller makes of upstream's manifests, mended as it says."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nodeprep.checks.plugin.tolerates_gate import CHECK
from nodeprep.cli import kubernetes_access
from nodeprep.cli.kubernetes_access import ClusterOptions
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import cluster_requests
from nodeprep.facts.kubernetes.cluster import Cluster as Seen
from nodeprep.model import Verdict
from tests import api_objects
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster
from tests.rigs.waiting import until
from tests.values import short, verdicts

UPSTREAM = Path(__file__).resolve().parents[1] / "daemonset/upstream"
RDMA, NVIDIA = "rdma-shared-dp-ds", "nvidia-device-plugin-daemonset"
READY = {"type": "Ready", "status": "True"}


@pytest.fixture(scope="module")
def controlled() -> Iterator[Cluster]:
    """Controllers and a scheduler, and Nodes that no kubelet has: nobody is to call them Unknown."""
    try:
        made = Cluster(controllers=True, grace="10h")
    except CannotStart as reason:
        cannot_start(reason)
    with made:
        yield made


@pytest.fixture
def node(controlled: Cluster) -> str:
    """A node on which the DaemonSets of upstream have their pods."""
    told = api_objects.foreign_node("gpu-1")
    told["status"]["conditions"] = [READY]
    controlled.create("/api/v1/nodes", told)
    for name in ("rdma-shared-dp-ds.yaml", "nvidia-device-plugin.yaml"):
        controlled.apply(UPSTREAM / name)
    until(lambda: pods(controlled, RDMA) and pods(controlled, NVIDIA), "a pod of each plugin")
    return "gpu-1"


def pods(cluster: Cluster, owner: str) -> list[dict[str, Any]]:
    """Those of a DaemonSet that are bound to a node."""
    every = json.loads(cluster.kubectl("-n", "kube-system", "get", "pods", "-o", "json"))["items"]
    own = [one for one in every if one["metadata"]["ownerReferences"][0]["name"] == owner]
    return [one for one in own if one["spec"].get("nodeName")]


def remove(cluster: Cluster, owner: str) -> None:
    """What a kubelet would do with pods that are to go."""
    names = [one["metadata"]["name"] for one in pods(cluster, owner)]
    cluster.kubectl("-n", "kube-system", "delete", "pod", "--force", "--grace-period=0", "--ignore-not-found", *names)


def wanted(cluster: Cluster, owner: str) -> int:
    """On how many nodes the DaemonSet controller wants a pod, as of when it last looked at its pods."""
    words = ("get", "daemonset", owner, "-o", "jsonpath={.status.desiredNumberScheduled}")
    return int(cluster.kubectl("-n", "kube-system", *words))


def judged(cluster: Cluster, node: str) -> dict[str, Verdict]:
    """What the check says of the pods of this node, by their DaemonSet."""
    options = ClusterOptions(str(cluster.kubeconfig()), None, node)
    found = cluster_requests.observe(Host(kubernetes=kubernetes_access.access(options, {})))
    assert isinstance(found, Seen)
    owners = {pod.where: pod.owner.name for pod in found.pods if pod.owner}
    return {owners[one.subject.place]: one for one in verdicts(CHECK, found)}


def says(cluster: Cluster, node: str) -> dict[str, str]:
    return {owner: short(one) for owner, one in judged(cluster, node).items()}


def test_what_it_says_to_paste_brings_the_plugins_back(controlled: Cluster, node: str) -> None:
    told = judged(controlled, node)
    assert {owner: short(one) for owner, one in told.items()} == {
        RDMA: "warn NotTolerated",
        NVIDIA: "warn NotTolerated",
    }
    # What this check is for: under the taint the pod stays away, however long one waits.
    controlled.kubectl("taint", "node", node, "nodeprep.io/unhealthy=PortNoSignal:NoSchedule")
    remove(controlled, RDMA)
    until(lambda: wanted(controlled, RDMA) == 0, "the controller to give the node up")
    assert pods(controlled, RDMA) == []

    for owner, one in told.items():
        program, *words = shlex.split(one.message[one.message.index("kubectl") :])
        assert program == "kubectl"
        controlled.kubectl(*words)
        until(partial(wanted, controlled, owner), f"the controller to want a pod of {owner}")
    remove(controlled, NVIDIA)
    until(
        lambda: says(controlled, node) == {RDMA: "ok Tolerates", NVIDIA: "ok Tolerates"},
        "pods with the tolerations, on the tainted node",
    )
    (nvidia,) = pods(controlled, NVIDIA)
    assert "nvidia.com/gpu" in [one.get("key") for one in nvidia["spec"]["tolerations"]]
