"""`nodeprep nodes release --all` with real nodes: the agents' pods end first, and nothing of ours is left anywhere."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.kubernetes.asked import nodes
from tests.rigs.cluster import Cluster
from tests.rigs.repeating import repeating
from tests.rigs.waiting import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/nodeprep/leases"
LABELS = {"app.kubernetes.io/name": "nodeprep", "app.kubernetes.io/component": "agent"}
CONTAINER = {
    "name": "agent",
    "image": "nodeprep.test/base:dev",
    "imagePullPolicy": "Never",
    "command": ["sleep", "3600"],
}
DAEMON_SET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "nodeprep", "namespace": "nodeprep"},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {
                "containers": [CONTAINER],
                "tolerations": [{"operator": "Exists"}],
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
            },
        },
    },
}


def pods(cluster: Cluster) -> list[str]:
    told = cluster.call("GET", "/api/v1/namespaces/nodeprep/pods")[1]["items"]
    return [one["spec"]["nodeName"] for one in told if one["status"].get("phase") == "Running"]


def lease(name: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"metadata": {"name": f"agent-{name}"}, "spec": {"holderIdentity": name, "renewTime": now}}


def mark(cluster: Cluster, name: str) -> None:
    """What an agent writes."""
    labels = {"nodeprep.io/state": "Unhealthy", "theirs": "stays"}
    annotations = {"agent.nodeprep.io/profiles": "rdma", "nodeprep.io/reset": "1", "nodeprep.io/pause": "x"}
    taints = [{"key": "nodeprep.io/unhealthy", "value": "NoSignal", "effect": "NoSchedule"}]
    patch = {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"taints": taints}}
    assert cluster.call("PATCH", f"/api/v1/nodes/{name}", patch)[0] == 200
    conditions = cluster.call("GET", f"/api/v1/nodes/{name}")[1]["status"].get("conditions", [])
    ours = {"type": "nodeprep.io/TrainingReady", "status": "False", "reason": "NoSignal", "message": "m"}
    patch = {"status": {"conditions": [*conditions, ours]}}
    assert cluster.call("PATCH", f"/api/v1/nodes/{name}/status", patch)[0] == 200
    assert cluster.call("POST", LEASES, lease(name))[0] == 201


@pytest.fixture
def installed(cluster: Cluster) -> Cluster:
    """The DaemonSet runs on both nodes, and its agents have written."""
    cluster.create("/api/v1/namespaces", {"metadata": {"name": "nodeprep"}})
    cluster.apply(json.dumps(DAEMON_SET))
    until(lambda: sorted(pods(cluster)) == ["n1", "n2"], "the agents' pods")
    for name in ("n1", "n2"):
        mark(cluster, name)
    return cluster


def agent_without_a_pod(cluster: Cluster, name: str) -> AbstractContextManager[None]:
    """One that systemd runs: it renews its Lease."""
    return repeating(lambda: cluster.call("PATCH", f"{LEASES}/agent-{name}", lease(name)), 0.5)


def test_nothing_of_ours_is_left_and_the_agents_can_come_back(installed: Cluster) -> None:
    code, said = nodes(installed, "release", "--all")
    assert code == 0, said
    assert "nothing of ours is left on 2 Nodes" in said
    assert installed.call("GET", "/api/v1/namespaces/nodeprep/pods")[1]["items"] == []
    assert installed.call("GET", LEASES)[1]["items"] == []
    for name in ("n1", "n2"):
        node = installed.call("GET", f"/api/v1/nodes/{name}")[1]
        assert ours(node) == []
        assert node["metadata"]["labels"]["theirs"] == "stays"
        assert [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"] == ["True"]
    assert nodes(installed, "release", "--all", "--undo")[0] == 0
    until(lambda: sorted(pods(installed)) == ["n1", "n2"], "the agents' pods again")

    # An agent that is no pod of the DaemonSet lives on: its Node keeps the word for it, and we say so.
    mark(installed, "n1")
    installed.create("/api/v1/nodes", {"metadata": {"name": "apart"}})
    mark(installed, "apart")
    with agent_without_a_pod(installed, "apart"):
        code, said = nodes(installed, "release", "--all")
    assert code == 1, said
    assert "runs on apart: stop it there" in said
    assert ours(installed.call("GET", "/api/v1/nodes/apart")[1]) == ["nodeprep.io/pause", "nodeprep.io/released"]
    assert ours(installed.call("GET", "/api/v1/nodes/n1")[1]) == []


def ours(node: dict[str, Any]) -> list[str]:
    """All names on it that are nodeprep's."""
    metadata = node["metadata"]
    names = [*metadata.get("labels", {}), *metadata.get("annotations", {})]
    names += [one["key"] for one in node["spec"].get("taints", [])]
    names += [one["type"] for one in node["status"].get("conditions", [])]
    return sorted(name for name in names if "nodeprep.io" in name)
