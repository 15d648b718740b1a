"""The acts of the container runtime on a real kubelet and containerd: a container is stopped, its pod stays."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE
from tests.rigs.waiting import until

ROOT = "/api/v1/namespaces"
# In the node's namespaces, as root on the host: what the command does for an act.
ACT = """
import json, sys
from nodeprep.doors.node_host import Host
from nodeprep.repair import container_restart
from nodeprep.repair.container_restart import CriClient
lines = []
client = CriClient(Host("/", live=True))
outcome = container_restart.restart(client, sys.argv[1] or None, 120.0, lines.append, check=sys.argv[2] == "check")
told = [f"{line.result} {line.task}" for line in lines]
print(json.dumps({"end": outcome.end, "changed": outcome.changed, "message": outcome.message, "lines": told}))
"""


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Node:
    node = cluster.nodes["n1"]
    plugins = {"name": "devices", "mountPath": "/var/lib/kubelet/device-plugins"}
    serves: dict[str, Any] = {"name": "plugin", "image": BASE, "imagePullPolicy": "Never", "volumeMounts": [plugins]}
    beside = {"name": "exporter", "image": BASE, "imagePullPolicy": "Never"}
    made(cluster, "default", "plugin", serves, beside)
    made(cluster, "kube-system", "terway-eniip-x7k2p", {**beside, "name": "terway"}, {**beside, "name": "policy"})
    made(cluster, "default", "job", beside)
    return node


def made(cluster: Cluster, namespace: str, name: str, *containers: dict[str, Any]) -> None:
    devices = {"name": "devices", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    spec = {
        "nodeName": "n1",
        "containers": list(containers),
        "volumes": [devices],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    cluster.create(f"{ROOT}/{namespace}/pods", pod)
    until(lambda: all(one["ready"] for one in statuses(cluster, namespace, name)), f"{name} runs", 120.0)


def pod_of(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    code, found = cluster.call("GET", f"{ROOT}/{namespace}/pods/{name}")
    assert code == 200, found
    return found


def statuses(cluster: Cluster, namespace: str, name: str) -> list[dict[str, Any]]:
    return pod_of(cluster, namespace, name).get("status", {}).get("containerStatuses") or [{"ready": False}]


def restarts(cluster: Cluster, namespace: str, name: str) -> dict[str, int]:
    return {one["name"]: one["restartCount"] for one in statuses(cluster, namespace, name)}


def act(node: Node, pod: str = "", *, check: bool = False) -> dict[str, Any]:
    command = (*node.entering(), sys.executable, "-c", ACT, pod, "check" if check else "")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_the_container_that_serves_the_plugin_is_started_again(cluster: Cluster, node: Node) -> None:
    """Its pod is the same, the container beside it and every other pod went on."""
    before = pod_of(cluster, "default", "plugin")["metadata"]["uid"]
    told = act(node, "default/plugin")
    assert (told["end"], told["changed"]) == ("done", 1), told
    assert told["lines"] == [
        "changed Stop default/plugin (container plugin)",
        "ok Wait until default/plugin (container plugin) runs again",
    ]
    until(lambda: restarts(cluster, "default", "plugin") == {"plugin": 1, "exporter": 0}, "the kubelet says so", 60.0)
    assert pod_of(cluster, "default", "plugin")["metadata"]["uid"] == before
    assert restarts(cluster, "default", "job") == {"exporter": 0}


def test_without_a_pod_it_is_terway(cluster: Cluster, node: Node) -> None:
    told = act(node)
    assert (told["end"], told["changed"]) == ("done", 1), told
    name = "terway-eniip-x7k2p"
    until(lambda: restarts(cluster, "kube-system", name) == {"terway": 1, "policy": 0}, "the kubelet says so", 60.0)


def test_a_check_says_what_it_would_stop_and_stops_nothing(cluster: Cluster, node: Node) -> None:
    told = act(node, "default/job", check=True)
    assert told == {
        "end": "done",
        "changed": 1,
        "message": "",
        "lines": ["changed Stop default/job (container exporter)"],
    }
    assert restarts(cluster, "default", "job") == {"exporter": 0}


def test_a_pod_that_is_not_here(node: Node) -> None:
    told = act(node, "default/gone")
    assert (told["end"], told["changed"], told["lines"]) == ("failed", 0, [])
    assert told["message"] == "no container of default/gone runs here"
