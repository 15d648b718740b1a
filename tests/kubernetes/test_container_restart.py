"""The acts of the container runtime on a real kubelet and containerd: a container is stopped, its pod stays.

By the command's own hand, and by a remediator on the node, which chooses the containers itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from nodeprep.repair import container_restart
from tests.rigs import remediator_process
from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE
from tests.rigs.device_plugin import DevicePlugin
from tests.rigs.remediator_process import HELLO, Remediator
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
    daemon = ({**beside, "name": "terway"}, {**beside, "name": "policy"})
    made(cluster, "kube-system", "terway-eniip-x7k2p", *daemon, app="terway-eniip")
    made(cluster, "kube-system", "terway-impostor", {**beside, "name": "terway"})
    made(cluster, "default", "job", beside)
    return node


def made(cluster: Cluster, namespace: str, name: str, *containers: dict[str, Any], **labels: str) -> None:
    devices = {"name": "devices", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    spec = {
        "nodeName": "n1",
        "containers": list(containers),
        "volumes": [devices],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
    cluster.create(f"{ROOT}/{namespace}/pods", pod)
    until(lambda: all(one["ready"] for one in statuses(cluster, namespace, name)), f"{name} runs")


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
    until(lambda: restarts(cluster, "default", "plugin") == {"plugin": 1, "exporter": 0}, "the kubelet says so")
    assert pod_of(cluster, "default", "plugin")["metadata"]["uid"] == before
    assert restarts(cluster, "default", "job") == {"exporter": 0}


def test_without_a_pod_it_is_terway(cluster: Cluster, node: Node) -> None:
    told = act(node)
    assert (told["end"], told["changed"]) == ("done", 1), told
    name = "terway-eniip-x7k2p"
    until(lambda: restarts(cluster, "kube-system", name) == {"terway": 1, "policy": 0}, "the kubelet says so")
    assert restarts(cluster, "kube-system", "terway-impostor") == {"terway": 0}


def test_a_check_says_what_it_would_stop_and_stops_nothing(cluster: Cluster, node: Node) -> None:
    before = restarts(cluster, "default", "plugin")
    told = act(node, "default/plugin", check=True)
    assert told == {
        "end": "done",
        "changed": 1,
        "message": "",
        "lines": ["changed Stop default/plugin (container plugin)"],
    }
    assert restarts(cluster, "default", "plugin") == before


@pytest.mark.parametrize("pod", ["default/gone", "default/job"])
def test_a_pod_that_is_not_here_or_serves_no_plugin(cluster: Cluster, node: Node, pod: str) -> None:
    told = act(node, pod)
    assert (told["end"], told["changed"], told["lines"]) == ("failed", 0, [])
    assert told["message"] == f"no container of {pod} {container_restart.SERVES}"
    assert restarts(cluster, "default", "job") == {"exporter": 0}


RESOURCE = "example.com/gpu"


@pytest.fixture(scope="module")
def trained(cluster: Cluster, node: Node) -> Iterator[dict[str, Any]]:
    """A pod of this node that holds a device, and could serve a plugin by its mounts."""
    plugins = {"name": "devices", "mountPath": "/var/lib/kubelet/device-plugins"}
    train = {"name": "train", "image": BASE, "imagePullPolicy": "Never", "volumeMounts": [plugins]}
    with DevicePlugin(node, RESOURCE, 1):
        until(lambda: node.object()["status"]["allocatable"].get(RESOURCE) == "1", "the device is there")
        made(cluster, "default", "train", {**train, "resources": {"limits": {RESOURCE: "1"}}})
        yield pod_of(cluster, "default", "train")


@pytest.fixture(scope="module")
def remediator(node: Node) -> Iterator[Remediator]:
    """One on the node, as a person would run it there."""
    directory = "/run/restarts"
    node.path(directory).mkdir()
    before = (*node.entering(), "setpriv", "--pdeathsig", "KILL")
    made = Remediator(node.path(directory), "--restarts-a-day", "2", before=before, seen=directory)
    with made.serving():
        yield made


def requested(remediator: Remediator, attempt: str, remedy: str, **args: str) -> dict[str, Any]:
    """What became of a request: its refusal, or its end."""
    _, told = remediator.ask(HELLO, remediator_process.run_request(attempt * 32, remedy, check=False, **args))
    return told["refused"] if "refused" in told else remediator_process.ended(remediator, attempt * 32)


HINTS = [
    # digit of the attempt, pod              refused    because
    ("1", "default/job", "argument", "of which no container serves a device plugin"),
    ("2", "default/gone", "argument", "wanted NAMESPACE/NAME of a pod that runs here"),
    ("3", "kube-system/terway-eniip-x7k2p", "argument", "of which no container serves a device plugin"),
    ("4", "default/train", "in-use", f"{RESOURCE} GPU-0 is in use: pod default/train (container train)"),
]


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize(("digit", "pod", "refused", "why"), HINTS)
def test_a_remediator_restarts_nothing_because_somebody_names_it(
    remediator: Remediator, digit: str, pod: str, refused: str, why: str
) -> None:
    told = requested(remediator, digit, "plugin_restart", pod=pod)
    assert (told["refused"], told["rc"]) == (refused, None), told
    assert why in told["why"]


def test_a_remediator_restarts_what_serves_and_no_more_than_its_limit(
    cluster: Cluster, remediator: Remediator, trained: dict[str, Any]
) -> None:
    before = restarts(cluster, "default", "plugin")["plugin"]
    terway = restarts(cluster, "kube-system", "terway-eniip-x7k2p")["terway"]
    uid, since = pod_of(cluster, "default", "plugin")["metadata"]["uid"], len(cluster.audited())
    told = requested(remediator, "a", "plugin_restart", pod="default/plugin")
    assert (told["rc"], told["changed"]) == (0, 1), told
    assert [one["task"] for one in told["tasks"]] == [
        "Stop default/plugin (container plugin)",
        "Wait until default/plugin (container plugin) runs again",
    ]
    told = requested(remediator, "b", "terway_restart")
    assert (told["rc"], told["changed"]) == (0, 1), told
    assert requested(remediator, "c", "plugin_restart", pod="default/plugin")["reason"] == "day"
    until(lambda: restarts(cluster, "default", "plugin")["plugin"] == before + 1, "the kubelet says so")
    name = "terway-eniip-x7k2p"
    until(lambda: restarts(cluster, "kube-system", name)["terway"] == terway + 1, "the kubelet says so")
    assert pod_of(cluster, "default", "plugin")["metadata"]["uid"] == uid
    assert restarts(cluster, "kube-system", "terway-impostor") == {"terway": 0}
    now = pod_of(cluster, "default", "train")
    assert now["metadata"]["uid"] == trained["metadata"]["uid"]
    assert restarts(cluster, "default", "train") == {"train": 0}
    # Kubelets and the server remove objects of their own when they begin.
    heard = [json.loads(line) for line in cluster.audited()[since:]]
    assert heard
    assert [(one["user"]["username"], one["requestURI"]) for one in heard if one["verb"].startswith("delete")] == []
