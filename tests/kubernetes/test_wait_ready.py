"""`nodeprep wait-ready` as the init container of a plugin on a real kubelet: it waits, and reaches no socket."""

from __future__ import annotations

import json
import socket
import stat
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubernetes import shipped
from tests.kubernetes.shipped import DAEMONSET, agents, condition, configuration, gates, overlay
from tests.kubernetes.sockets import OWN, PLUGINS, REGISTER, former_agent, inside, locked, reached
from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE
from tests.rigs.images import REPOSITORY
from tests.rigs.waiting import SECONDS, until

PODS = "/api/v1/namespaces/kube-system/pods"
# Ready for it needs a Ready pod of Terway on the node (terway.pod), as others may need what a device plugin registers.
PROFILE = """apiVersion: nodeprep.io/v1
kind: Profile
name: waiting
gates: [cni.parse, terway.pod]
"""
SETTINGS = (
    "assign: [{use: [waiting.yaml]}]",
    "readiness: {grace: 600}",  # no human is called within this test
    "confirmation: {passes: 2, pass-span: 3, pass-every: 1, records: {apart: 1}}",
    "every: {cluster: 15}",  # as often as is allowed: it is the plugin's pod that is waited for
)
LATER = 8.0  # seconds that a pod which waits is watched for after it could have gone on
# All that the agent's container may connect to by a path or an abstract name. Terway's is there on its nodes only.
AGENT_REACHES = {
    "/host/run/nodeprep-agent/agent.sock",
    "/host/var/lib/kubelet/pod-resources/kubelet.sock",  # it only answers who holds which device
    "/host/var/run/eni/eni.socket",
}
LOOK = (
    SECONDS  # seconds until the agent has looked at the records of the cluster again and believes them; 30 to 60 here
)


@pytest.fixture(scope="module")
def installed(cluster: Cluster, image: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    files = {"config.yaml": configuration(*SETTINGS).replace("[base]", "[waiting]"), "waiting.yaml": PROFILE}
    directory = tmp_path_factory.mktemp("manifests") / "own"
    shipped.install(cluster, overlay(directory, files, "terway"), image("good"))
    return cluster


@pytest.fixture
def node(installed: Cluster) -> Node:
    return installed.nodes["n1"]


def plugin(stage: str) -> str:
    """A DaemonSet that serves devices and the network, on n1 only, with the init container of components/wait-ready."""
    patch = yaml.safe_load((DAEMONSET / "components/wait-ready/wait.yaml").read_text())["spec"]["template"]["spec"]
    (wait,) = patch["initContainers"]
    assert wait["args"] == ["wait-ready", "--profile", "rdma-roce", "--stage", "device"]
    wait |= {"image": f"{REPOSITORY}:dev", "args": ["wait-ready", "--profile", "waiting", "--stage", stage]}
    devices = {"name": "devices", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    serving = {"name": "plugin", "image": BASE, "imagePullPolicy": "Never"}
    serving["volumeMounts"] = [{"name": "devices", "mountPath": "/var/lib/kubelet/device-plugins"}]  # type: ignore[assignment]
    labels = {"app": "terway-eniip"}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": "n1"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        "initContainers": [wait],
        "containers": [serving],
        "volumes": [*patch["volumes"], devices],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    metadata = {"name": "terway-eniip", "namespace": "kube-system"}
    whole = {"selector": {"matchLabels": labels}, "template": template}
    return json.dumps({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": whole})


def pod(cluster: Cluster) -> dict[str, Any]:
    """Of that DaemonSet, {} while it has none."""
    items = cluster.call("GET", f"{PODS}?labelSelector=app%3Dterway-eniip")[1]["items"]
    return next((one for one in items if "deletionTimestamp" not in one["metadata"]), {})


def waiting(cluster: Cluster) -> dict[str, Any]:
    """How its init container is, {} before it was made."""
    found = pod(cluster).get("status", {}).get("initContainerStatuses", [])
    return found[0]["state"] if found else {}


def serves(cluster: Cluster) -> bool:
    return any(one["ready"] for one in pod(cluster).get("status", {}).get("containerStatuses", []))


def at(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def words(cluster: Cluster) -> str:
    return cluster.kubectl("-n", "kube-system", "logs", pod(cluster)["metadata"]["name"], "-c", "wait-ready")


def test_the_wrong_stage_is_a_deadlock(installed: Cluster, node: Node) -> None:
    """The plugin waits for ready, ready waits for the plugin: nothing fails, and it never ends."""
    installed.apply(plugin("ready"))
    until(lambda: "running" in waiting(installed), "the init container runs")
    until(lambda: gates(node) == {"waiting.device"}, "device-ready")
    end = time.monotonic() + LATER
    while time.monotonic() < end:
        assert "running" in waiting(installed)
        assert gates(node) == {"waiting.device"}
        time.sleep(0.2)
    # What the agent read of the pod may be of the time before its first container ran.
    until(lambda: "wait-ready is running" in condition(node.object())["message"], "terway.pod says why", LOOK)
    told = condition(node.object())
    assert (told["status"], told["reason"]) == ("False", "InitNotDone")
    assert "waiting for /run/nodeprep/waiting.ready of this boot" in words(installed)
    assert "running" in waiting(installed)


def test_who_waits_reaches_no_socket_of_the_agent(installed: Cluster, node: Node) -> None:
    """A read-only mount stops no connect(2): so nothing listens in what is mounted, and what would is found here."""
    name = pod(installed)["metadata"]["name"]
    assert "running" in waiting(installed), "as the test before left it"
    assert reached(installed, "kube-system", name, "wait-ready") == set()
    directory = node.path("/run/nodeprep-agent")
    assert (stat.S_IMODE(directory.stat().st_mode), directory.stat().st_uid) == (0o700, 0)
    assert (directory / "agent.sock").is_socket()
    # What former versions had: the agent's socket beside the gate files.
    with socket.socket(socket.AF_UNIX) as former:
        path = node.path("/run/nodeprep") / "agent.sock"
        former.bind(str(path))
        former.listen()
        try:
            assert reached(installed, "kube-system", name, "wait-ready") == {"/run/nodeprep/agent.sock"}
        finally:
            path.unlink()


def test_who_waits_keeps_no_agent_from_starting(installed: Cluster, node: Node) -> None:
    """flock(2) works through a read-only mount, too: what is mounted has no lock that an agent asks for.

    The file is the lock of a former version, in whose place somebody holds it who is no agent.
    """
    run = node.path("/run/nodeprep")
    former = run / "lock"
    former.touch(0o600)
    name = pod(installed)["metadata"]["name"]
    taken = locked(installed, "kube-system", name, "wait-ready", "/run/nodeprep")
    assert "/run/nodeprep" in taken, "it may lock what it sees, or wait for who has it"
    before = agents(installed)["n1"]["metadata"]
    installed.kubectl("-n", "nodeprep", "delete", "pod", before["name"], "--wait=false")

    def again() -> bool:
        """Another pod is Ready, so its agent has looked at everything."""
        now = agents(installed).get("n1", {})
        ready = (one["status"] for one in now.get("status", {}).get("conditions", []) if one["type"] == "Ready")
        return bool(now) and now["metadata"]["uid"] != before["uid"] and "True" in ready

    until(again, "the agent runs again", LOOK)
    assert {one.name for one in run.iterdir()} == gates(node), "gate files, and nothing else"
    assert (node.path("/run/nodeprep-agent") / "lock").is_file()


def test_the_sockets_that_the_agent_reaches(installed: Cluster) -> None:
    """All of them, by every mount of its container: its own, and none of a runtime or a plugin."""
    name = agents(installed)["n1"]["metadata"]["name"]
    found = reached(installed, "nodeprep", name, "agent")
    assert found <= AGENT_REACHES
    assert "/host/run/nodeprep-agent/agent.sock" in found


def test_the_right_stage(installed: Cluster) -> None:
    """What mends it: one word of the plugin's manifest."""
    installed.apply(plugin("device"))
    until(lambda: serves(installed), "the plugin serves")


def test_held_after_a_reboot(installed: Cluster, node: Node) -> None:
    """The pod is the same; its init container runs again and waits for the gate of this boot."""
    uid = pod(installed)["metadata"]["uid"]
    ended = until(lambda: waiting(installed).get("terminated", {}).get("containerID"), "it has ended before")
    node.reboot()
    until(lambda: "waiting.device" in gates(node), "device-ready", LOOK)
    opened = (node.path("/run/nodeprep") / "waiting.device").stat().st_mtime
    until(lambda: waiting(installed).get("terminated", {}).get("containerID", ended) != ended, "it has ended again")
    until(lambda: serves(installed), "the plugin serves again")
    now = pod(installed)
    assert now["metadata"]["uid"] == uid
    # What the kubelet keeps has no parts of a second.
    began, went = (at(waiting(installed)["terminated"][name]) for name in ("startedAt", "finishedAt"))
    served = at(now["status"]["containerStatuses"][0]["state"]["running"]["startedAt"])
    print(f"waited for {opened - began:.0f} s after a reboot, serving {served - opened:.0f} s after the gate opened")
    assert began <= opened
    assert int(opened) <= min(went, served)
    assert "waiting for /run/nodeprep/waiting.device of this boot" in words(installed)
    until(lambda: gates(node) == {"waiting.device", "waiting.ready"}, "ready, for the plugin serves", LOOK)


def test_whoever_reaches_the_kubelets_socket_is_a_device_plugin(installed: Cluster, node: Node) -> None:
    """Why the agent has no mount of that directory: through a read-only one the kubelet takes whoever registers.

    It is even led out of the directory, to a socket where the agent may write.
    """
    resource = "nodeprep.test/taken"
    own, endpoint = f"/host{OWN}/plugin.sock", f"../../{OWN.removeprefix('/var/lib/')}/plugin.sock"
    words = (f"/host{PLUGINS}/kubelet.sock", own, endpoint, resource)
    with former_agent(installed, "n1", *words) as former:
        told = until(lambda: installed.kubectl("logs", former), "the kubelet's answer")
        assert json.loads(told) == {"connect": "connected", "registered": True}
        until(lambda: node.object()["status"]["capacity"].get(resource) == "1", "its device on the Node")
    name = agents(installed)["n1"]["metadata"]["name"]
    assert inside(installed, "nodeprep", name, "agent", REGISTER, *words) == {"connect": "No such file or directory"}
