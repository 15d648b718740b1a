"""What a taken-over agent reaches of other pods and of its node, measured from inside its container on a real kubelet.

The victims are what docs/plugins.md recommends: root with every capability dropped. That they can be reached at all is
shown by a pod that is the agent's in all but one mount: it has the directory /proc of the node.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import yaml

import nodeprep
from tests.kubernetes import remediated, shipped
from tests.kubernetes.asked import check
from tests.kubernetes.shipped import DAEMONSET, Object, agents, condition, configuration, container, metrics, overlay
from tests.rigs import images, started
from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE
from tests.rigs.waiting import until

ATTACK = Path(__file__).with_name("attack.py")
PYTHON = "/usr/bin/python3.11"
MARKER, NAME = "a-secret-of-the-victim", "nodeprep-reach"
PODS = "/api/v1/namespaces/default/pods"
OWN = {"/host/run/nodeprep", "/host/run/nodeprep-agent", "/host/var/lib/nodeprep"}
PLUGINS = "/var/lib/kubelet/device-plugins"
TERWAY = "/run/eni/eni.socket"  # of its daemon, with components/terway: the agent asks whether it listens
# Who listens below mounts of the agent's: each of another type, and the last by a path that is too long for an address.
LISTENERS = {
    TERWAY: socket.SOCK_STREAM,
    "/run/eni/datagrams": socket.SOCK_DGRAM,
    "/run/nodeprep-kubelet-books/packets": socket.SOCK_SEQPACKET,
    f"/run/nodeprep-nvml/{'long' * 22}": socket.SOCK_STREAM,
}
# Who takes a connection, by the pod that asks. A mount that is read-only stops nobody from connecting.
CONNECTS = {
    "agent": {
        "/host/run/nodeprep-agent/agent.sock",
        "/host/var/lib/kubelet/pod-resources/kubelet.sock",  # lists devices and who holds them, and changes nothing
        *(f"/host{'/var' if path.startswith('/run/eni/') else ''}{path}" for path in LISTENERS),
        remediated.SOCKET,  # with components/repair: whoever takes the agent over may ask for what its manifest allows
    },
    "wait-ready": set(),
    "nvml": set(),
    "kubelet-books": {f"/host{PLUGINS}/kubelet.sock"},
}
REACHED = {
    "/host/proc/PID/cwd",
    "/host/proc/PID/environ",
    "/host/proc/PID/fd",
    "/host/proc/PID/ns",
    "/host/proc/PID/root/etc/victim",
    "/host/proc/PID/root/host-etc/shadow",
    "/host/proc/PID/root/var/run/secrets/kubernetes.io/serviceaccount/token",
}
NOTHING: dict[str, set[str]] = {"read": set(), "written": set(), "devices": set()}
REST = ("wait-ready", "nvml", "kubelet-books")  # the other pods of ours, but for the remediator's
RESTS = [PYTHON, "-I", "-c", "import signal; signal.pause()"]
LIMIT = 65536  # bytes that the runtime is let lock


def victim(name: str, seccomp: str) -> Object:
    """A Secret in its environment, as files, as its directory and as an open file; its token; the /etc of the node."""
    own = {
        "name": "main",
        "image": BASE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "exec 3</etc/victim/word; cd /etc/victim; exec sleep 2147483647"],
        "env": [{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "victim", "key": "word"}}}],
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsUser": 0, "seccompProfile": {"type": seccomp}},
        "volumeMounts": [{"name": "word", "mountPath": "/etc/victim"}, {"name": "etc", "mountPath": "/host-etc"}],
    }
    volumes = [{"name": "word", "secret": {"secretName": "victim"}}, {"name": "etc", "hostPath": {"path": "/etc"}}]
    return pod(name, own, volumes)


def pod(name: str, own: Object, volumes: list[Object], **more: Any) -> Object:
    spec = {"nodeName": "n1", "terminationGracePeriodSeconds": 0, "containers": [own], "volumes": volumes, **more}
    return {"metadata": {"name": name}, "spec": spec}


def former(cluster: Cluster) -> Object:
    """The agent's pod with the directory /proc of the node, as it once was; it runs no agent."""
    spec = cluster.call("GET", "/apis/apps/v1/namespaces/nodeprep/daemonsets/nodeprep")[1]["spec"]["template"]["spec"]
    shown = spec["containers"][0]
    own = {name: shown[name] for name in ("image", "imagePullPolicy", "securityContext")}
    own |= {
        "name": "main",
        "command": RESTS,
        "volumeMounts": [{"name": "p", "mountPath": "/host/proc", "readOnly": True}],
    }
    return pod("former", own, [{"name": "p", "hostPath": {"path": "/proc"}}], securityContext=spec["securityContext"])


def reporting(component: str) -> Object:
    """The pod of a component that reports to the agent, without what of it only a node with GPUs has."""
    manifest = DAEMONSET / "components" / component / f"{component.removeprefix('kubelet-')}.yaml"
    spec = yaml.safe_load(manifest.read_text())["spec"]["template"]["spec"]
    (own,) = spec["containers"]
    own = {**own, "image": f"{images.REPOSITORY}:dev", "imagePullPolicy": "Never", "command": RESTS, "args": []}
    return pod(component, own, spec["volumes"], securityContext=spec["securityContext"])


def waiting() -> Object:
    """A plugin's pod whose container is the init container of components/wait-ready."""
    patch = yaml.safe_load((DAEMONSET / "components/wait-ready/wait.yaml").read_text())["spec"]["template"]["spec"]
    (own,) = patch["initContainers"]
    own = {**own, "image": f"{images.REPOSITORY}:dev", "imagePullPolicy": "Never", "command": RESTS, "args": []}
    return pod("wait-ready", own, patch["volumes"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with started.cluster(nodes=1) as made:
        yield made


@pytest.fixture(scope="module")
def node(cluster: Cluster, image: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Node:
    """An agent with the directories of every component, and beside it victims and those who would reach them."""
    node = cluster.nodes["n1"]
    secret = {"metadata": {"name": "victim"}, "stringData": {"word": MARKER}}
    cluster.create("/api/v1/namespaces/default/secrets", secret)
    cluster.create(PODS, victim("confined", "RuntimeDefault"))
    cluster.create(PODS, victim("unconfined", "Unconfined"))
    directory = tmp_path_factory.mktemp("manifests") / "own"
    parts = ("terway", "lingjun", "nvml", "kubelet-books", remediated.REPAIR)  # all that mount more into the agent
    remediated.installed(cluster, image, overlay(directory, {"config.yaml": configuration()}, *parts))
    cluster.kubectl("-n", "nodeprep", "rollout", "status", "daemonset/nodeprep-kubelet-books", "--timeout=240s")
    for one in (former(cluster), waiting(), *map(reporting, ("nvml", "kubelet-books"))):
        cluster.create(PODS, one)
    names = ("confined", "unconfined", "former", *REST)
    cluster.kubectl("wait", *(f"pod/{one}" for one in names), "--for=condition=Ready", "--timeout=240s")
    until(lambda: is_ready(cluster), "the agent is Ready")
    return node


def is_ready(cluster: Cluster) -> bool:
    return bool(container(agents(cluster).get("n1", {"status": {}})).get("ready"))


def attacked(cluster: Cluster, name: str, namespace: str = "default") -> dict[str, set[str]]:
    """What attack.py reports from inside a pod."""
    words = ("-n", namespace, "exec", name, "--", PYTHON, "-I", "-c", ATTACK.read_text(), MARKER, NAME)
    told = {kind: set(found) for kind, found in json.loads(cluster.kubectl(*words)).items()}
    print(name, json.dumps({kind: sorted(found) for kind, found in told.items()}, indent=1))
    return told


def agents_pod(cluster: Cluster) -> str:
    return str(agents(cluster)["n1"]["metadata"]["name"])


@pytest.fixture(scope="module")
def reached(cluster: Cluster, node: Node) -> dict[str, set[str]]:
    """What the agent's container reaches, while somebody has a terminal on its node, and others listen there."""
    mine, terminal = os.openpty()
    with closing(os.fdopen(mine)), closing(os.fdopen(terminal)), ExitStack() as listeners:
        for path, kind in LISTENERS.items():
            listeners.enter_context(listening(node.path(path), kind))
        return attacked(cluster, agents_pod(cluster), "nodeprep")


@pytest.fixture(scope="module")
def rest(cluster: Cluster, node: Node) -> dict[str, dict[str, set[str]]]:
    """What each of the other pods reaches."""
    assert node.name == "n1"
    return {one: attacked(cluster, one) for one in REST}


def listening(path: Path, kind: socket.SocketKind) -> socket.socket:
    """A socket that takes connections, by a path of any length."""
    made, directory = socket.socket(socket.AF_UNIX, kind), os.open(path.parent, os.O_PATH)
    try:
        made.bind(f"/proc/self/fd/{directory}/{path.name}")
        if kind != socket.SOCK_DGRAM:
            made.listen()
    except BaseException:
        made.close()
        raise
    finally:
        os.close(directory)
    return made


def test_the_directory_proc_leads_into_every_pod(cluster: Cluster, node: Node) -> None:
    """By the same attack: what the agent is not given any more is what would reach them."""
    assert node.name == "n1"
    told = attacked(cluster, "former")
    assert told["read"] >= REACHED
    assert told["written"] == {"/host/proc/PID/root/host-etc/cron.d"}


def test_it_reaches_nothing_of_other_pods(reached: dict[str, set[str]]) -> None:
    assert {kind: reached[kind] for kind in NOTHING} == NOTHING


@pytest.mark.parametrize("name", REST)
def test_nor_does_a_pod_beside_it(rest: dict[str, dict[str, set[str]]], name: str) -> None:
    assert {kind: rest[name][kind] for kind in (*NOTHING, "writable")} == {**NOTHING, "writable": set()}


def test_it_says_itself_what_of_the_node_it_could_write(
    reached: dict[str, set[str]], cluster: Cluster, node: Node
) -> None:
    """The rig's nodes have mounts below /opt/cni and /etc/cni, and a containerd that makes only the outer read-only."""
    more = reached["writable"] - OWN
    assert reached["writable"] >= OWN
    assert told(cluster)["writableMounts"] == sorted(more)
    runtime = node.object()["status"]["nodeInfo"]["containerRuntimeVersion"]
    if runtime.startswith("containerd://1."):
        assert more == {"/host/etc/cni/net.d", "/host/opt/cni/bin"}
    assert metrics(node)["nodeprep_mounts_ok"] == float(not more)
    message = until(lambda: condition(node.object())["message"], "TrainingReady has a message")
    for one in more:
        assert one in message


def told(cluster: Cluster) -> Object:
    """The agent's own report, from its socket."""
    socket = "/host/run/nodeprep-agent/agent.sock"
    ask = f'from nodeprep.cli.daemon.agent_socket import ask; print(ask("{socket}", "GET", "/report").text)'
    shown = cluster.kubectl("-n", "nodeprep", "exec", agents_pod(cluster), "--", PYTHON, "-c", ask)
    return dict(json.loads(shown)["agent"])


def test_who_takes_a_connection(reached: dict[str, set[str]], rest: dict[str, dict[str, set[str]]]) -> None:
    assert reached["connects"] == CONNECTS["agent"]
    assert {one: told["connects"] for one, told in rest.items()} == {one: CONNECTS[one] for one in REST}


SEEN = """
import json, sys
from nodeprep.doors.node_host import Host
from nodeprep.facts import limits, modules, mounts, sysctls, system
from nodeprep.model import raw
host = Host(sys.argv[1])
assert host.unmounted() is None, host.unmounted()
facts = (raw(system.observe(host)), raw(limits.observe(host)), raw(sysctls.observe(host)), raw(modules.observe(host)))
about, limit, settings, known = facts
print(json.dumps({
    "machine": [about[one] for one in ("name", "kernel", "boot_id", "cmdline", "virtual", "vendor", "product")],
    "memory": [limit["memory"], limit["shm"], str(limit["huge_pages"])],
    "settings": dict(settings["live"]),
    "modules": known["loaded"],
    "mounts": sorted({one.point for one in mounts.observe(host).mounts}),
}))
"""


def test_it_reads_the_same_of_its_node_as_root_there(cluster: Cluster, node: Node) -> None:
    """The bound file is the host's, whoever reads it; and every /proc shows alike what is no process's."""
    words = ("-n", "nodeprep", "exec", agents_pod(cluster), "--", PYTHON, "-c", SEEN, "/host")
    agent = f"PYTHONPATH={Path(nodeprep.__file__).parents[1]}"

    def alike() -> bool:  # a pod that comes or goes between the two looks has mounts, and an interface
        inside, there = (json.loads(one) for one in (cluster.kubectl(*words), node.run("env", agent, *root)))
        assert inside.keys() == there.keys()
        differ = {name for name in inside if inside[name] != there[name]}
        assert differ <= {"mounts", "settings"}, [(inside[name], there[name]) for name in differ]
        return not differ

    root = (sys.executable, "-c", SEEN, "/")
    until(alike, "the same mounts and settings")


def memlock(cluster: Cluster) -> Object:
    """What `nodeprep check` in the agent's pod says of the limit of locked memory."""
    words = ("--profile", "rdma-roce", "--only", "limits.memlock", "-o", "json")
    report = json.loads(check(cluster, agents_pod(cluster), *words)[1])
    return dict(next(one for one in report["findings"] if one["check"] == "limits.memlock"))


def test_a_limit_of_the_runtime_counts_for_pods_that_are_made_later(cluster: Cluster, node: Node) -> None:
    """What the check says to do: restart the runtime with another limit, then stop the pod through the runtime."""
    before = memlock(cluster)
    assert before["observed"] != str(LIMIT)
    assert before["subject"]["name"] == "containerd"
    pid = node.run("pgrep", "-x", "containerd").strip()
    node.run("prlimit", "--pid", pid, f"--memlock={LIMIT}:{LIMIT}")
    assert memlock(cluster)["observed"] == before["observed"]

    shipped.kill_agent(cluster, node)
    until(lambda: container(agents(cluster)["n1"])["restartCount"] == 1 and is_ready(cluster), "started again")
    again = memlock(cluster)
    assert again["observed"] == before["observed"], "the pod's shim started it, with the limit of the pod's time"

    old = agents_pod(cluster)
    assert "kubectl -n nodeprep delete pod POD" in again["message"] or before["status"] == "ok"
    cluster.kubectl("-n", "nodeprep", "delete", "pod", old)
    until(lambda: "n1" in agents(cluster) and agents_pod(cluster) != old and is_ready(cluster), "made anew")
    after = memlock(cluster)
    assert (after["status"], after["reason"], after["observed"]) == ("fail", "Limited", str(LIMIT))
    assert "containerd (containerd.service) lets this agent's container, made " in after["message"]
