"""Nodes that join, reboot or are made anew: no pod lands there before they are proven, but in one window."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes import shipped
from tests.kubernetes.shipped import (
    BOOTSTRAP,
    UNHEALTHY,
    Watched,
    agents,
    condition,
    configuration,
    container,
    gates,
    is_ready,
    overlay,
    taints,
    watched,
)
from tests.kubernetes.training import announced, bound
from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE
from tests.rigs.waiting import until

PODS = "/api/v1/namespaces/default/pods"
BOUND = 60.0  # seconds; what no change of the Node brings back, the scheduler tries again after 5 minutes
FIRST = 60.0  # seconds from the agent's first word to its taint; 0.5 where nothing else runs
OPEN = {"base.device", "base.ready"}
# Long enough for the Node to be written before it opens, also where the server is slow.
PASSES = "confirmation: {passes: 2, pass-span: 8, pass-every: 1}"
# The agent does not run on such nodes: so its image can be brought there before it.
ASIDE = {"type": "virtual-kubelet"}


@pytest.fixture(scope="module")
def installed(cluster: Cluster, image: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    directory = tmp_path_factory.mktemp("manifests") / "own"
    shipped.install(cluster, overlay(directory, {"config.yaml": configuration(PASSES)}), image("good"))
    until(lambda: all(map(is_ready, cluster.nodes.values())), "TrainingReady of all Nodes")
    return cluster


def training_pod(cluster: Cluster, name: str, node: str, **selector: str) -> None:
    asleep = {"name": "main", "image": BASE, "imagePullPolicy": "Never"}
    spec: dict[str, Any] = {"containers": [asleep], "terminationGracePeriodSeconds": 0}
    spec["nodeSelector"] = {"kubernetes.io/hostname": node, **selector}
    cluster.create(PODS, {"metadata": {"name": name}, "spec": spec})


def first(seen: Watched, holds: Callable[[dict[str, Any]], bool], what: str, after: float = 0.0) -> float:
    """When we first heard of a Node that is so."""
    return until(lambda: next((at for at, node in seen.nodes if at > after and holds(node)), 0.0), what)


def started_at(cluster: Cluster, node: Node) -> float:
    """When the agent's process said its first word."""
    line = cluster.kubectl("-n", "nodeprep", "logs", agents(cluster)[node.name]["metadata"]["name"]).splitlines()[0]
    return datetime.fromisoformat(json.loads(line)["time"]).timestamp()


def test_a_new_node(installed: Cluster, image: Callable[[str], Path]) -> None:
    """It registers with the bootstrap taint: what waits for it is bound when the agent has proven it, not before."""
    node = installed.add_node("n3", [f"{BOOTSTRAP}=:NoSchedule"], ASIDE)
    node.import_image(image("good"))
    training_pod(installed, "by-taint", "n3")
    training_pod(installed, "by-label", "n3", **{"nodeprep.io/profile.base": "ready"})
    with (
        watched(installed) as seen,
        announced(installed, "/api/v1/nodes", "n3") as told,
        announced(installed, PODS, "by-taint") as by_taint,
        announced(installed, PODS, "by-label") as by_label,
    ):
        installed.kubectl("label", "node", "n3", "type-")
        joined = first(
            seen, lambda one: one["metadata"]["name"] == "n3" and "type" not in one["metadata"]["labels"], "n3 joins"
        )

        def is_tainted(one: dict[str, Any]) -> bool:
            return one["metadata"]["name"] == "n3" and UNHEALTHY in taints(one)

        tainted = first(seen, is_tainted, "our own taint")
        free = first(seen, lambda one: one["metadata"]["name"] == "n3" and not taints(one), "no taint", tainted)
        opened = told.when(lambda one: not taints(one), "no taint")
        for pod in (by_taint, by_label):
            at = pod.when(bound, "the pod is bound")
            print(f"no taint -> bound {at - opened:.2f} s")
            assert told.revision(opened) < pod.revision(at)
            assert at - opened <= BOUND
    assert condition(node.object())["status"] == "True"
    until(lambda: gates(node) == OPEN, "gate files")
    closed = [one for at, one in seen.nodes if one["metadata"]["name"] == "n3" and at < free]
    assert all(BOOTSTRAP in taints(one) for one in closed)
    began = started_at(installed, node)
    print(f"agent started {began - joined:.1f} s after it might, our taint {tainted - began:.1f} s later", end=", ")
    print(f"ready and free {free - began:.1f} s after its start, with confirmation over 2 s")


def test_a_reboot(installed: Cluster) -> None:
    """The taint comes when the agent starts: until then, and after the kubelet is Ready, pods may still be bound."""
    node = installed.nodes["n1"]
    training_pod(installed, "before", "n1")
    installed.kubectl("wait", "pod/before", "--for=condition=Ready", "--timeout=240s")
    uid = node.object()["metadata"]["uid"]

    def is_booted(one: dict[str, Any]) -> bool:
        return bool(one["status"]["nodeInfo"]["bootID"] == node.boot_id and condition(one, "Ready")["status"] == "True")

    with watched(installed) as seen:
        node.reboot()
        booted = first(seen, is_booted, "n1 is booted and Ready")
        landed = landing(installed, "n1", booted)
        tainted = first(seen, lambda one: is_booted(one) and UNHEALTHY in taints(one), "our taint", booted)
        free = first(seen, lambda one: is_booted(one) and not taints(one), "no taint", tainted)
    began = started_at(installed, node)
    print(f"window without a taint after a power loss: {tainted - booted:.2f} s from the kubelet's Ready", end=", ")
    print(f"of which {tainted - began:.2f} s are the agent's from its first word; ready after {free - began:.1f} s")
    print(f"pods that want the label: bound until {max(landed, default=0.0):.1f} s after the kubelet's Ready")
    assert tainted - began < FIRST
    assert node.object()["metadata"]["uid"] == uid
    assert condition(node.object())["status"] == "True"
    # What was bound before the reboot is the kubelet's to start again: no taint of ours keeps it away.
    until(lambda: container(installed.call("GET", f"{PODS}/before")[1]).get("ready"), "the pod runs again")
    assert bound(installed.call("GET", f"{PODS}/before")[1])


def landing(cluster: Cluster, node: str, since: float) -> list[float]:
    """When pods that want the label were bound there, in seconds since then: one is made each 0.2 s, for 6 s."""
    made: dict[str, float] = {}
    for number in range(30):
        made[f"lands-{number}"] = time.time()
        training_pod(cluster, f"lands-{number}", node, **{"nodeprep.io/profile.base": "ready"})
        time.sleep(0.2)
    pods = {name: cluster.call("GET", f"{PODS}/{name}")[1] for name in made}
    for name in made:
        cluster.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
    return [made[name] - since for name, pod in pods.items() if bound(pod)]


def test_a_node_made_anew(installed: Cluster) -> None:
    """Another Node object of the same name has proven nothing, whatever the memory of its disk says."""
    node = installed.nodes["n2"]
    until(lambda: is_ready(node), "ready")
    old = node.object()["metadata"]["uid"]
    node.kill()
    installed.kubectl("delete", "node", "n2")

    def is_anew(one: dict[str, Any]) -> bool:
        return bool(one["metadata"]["name"] == "n2" and one["metadata"]["uid"] != old)

    with watched(installed) as seen:
        node.start()
        registered = first(seen, is_anew, "n2 is registered anew")
        tainted = first(seen, lambda one: is_anew(one) and UNHEALTHY in taints(one), "our taint", registered)
        free = first(seen, lambda one: is_anew(one) and not taints(one), "no taint", tainted)
    print(f"taint {tainted - registered:.1f} s after a Node made anew, ready {free - tainted:.1f} s later")
    assert is_ready(node)
    until(lambda: gates(node) == OPEN, "gate files")
