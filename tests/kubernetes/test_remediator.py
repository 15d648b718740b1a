"""The component `repair` from the shipped manifests on a real kubelet: what it does, and what nobody gets it to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import nodeprep
from tests.kubernetes import remediated, shipped
from tests.kubernetes.remediated import HELLO, REPAIR, SOCKET
from tests.kubernetes.shipped import Object, configuration, overlay
from tests.rigs import started
from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE
from tests.rigs.waiting import until

HOSTILE = Path(__file__).with_name("hostile.py")
PODS = "/api/v1/namespaces/default/pods"
ACCOUNT = "system:serviceaccount:nodeprep:nodeprep-remediator"
OURS = "system:serviceaccount:nodeprep:"
KIB = 64 << 10  # of memory that it may have had at most, whatever was sent
REASONS = {"remedy", "argument", "deadline", "version"}  # by which the hostile lines that are requests are refused
ENDS = "trap 'exit 0' TERM; sleep 2147483647 & wait"  # at once, as a plugin does: the runtime gives it 30 s
MODULE = "usnic_verbs"  # that no machine of the rig has
# In the mount namespace of the node: modprobe writes down each call of it, and takes its time.
COUNTS = """
mkdir -p /run/rig
mount -t tmpfs rig /usr/local/sbin
printf '#!/bin/sh\\necho "$@" >>/run/rig/calls\\nexec sleep 5\\n' >/usr/local/sbin/modprobe
chmod 755 /usr/local/sbin/modprobe
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with started.cluster(nodes=1) as made:
        yield made


@pytest.fixture(scope="module")
def node(cluster: Cluster, image: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Node:
    """A plugin's pod and a job's, and our own two."""
    plugins = {"name": "devices", "mountPath": "/var/lib/kubelet/device-plugins"}
    beside = {"name": "exporter", "image": BASE, "imagePullPolicy": "Never", "command": ["sh", "-c", ENDS]}
    make(cluster, "plugin", {**beside, "name": "plugin", "volumeMounts": [plugins]}, beside)
    make(cluster, "job", {**beside, "name": "trainer"})
    directory = tmp_path_factory.mktemp("manifests") / "own"
    remediated.installed(cluster, image, overlay(directory, {"config.yaml": configuration()}, REPAIR))
    return cluster.nodes["n1"]


def make(cluster: Cluster, name: str, *containers: dict[str, Any]) -> None:
    spec = {
        "nodeName": "n1",
        "containers": list(containers),
        "volumes": [{"name": "devices", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
    }
    cluster.create(PODS, {"metadata": {"name": name}, "spec": spec})
    cluster.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=240s")


def lives(cluster: Cluster, name: str) -> tuple[str, dict[str, int]]:
    """The uid of a pod, and how often each of its containers was started again."""
    found = cluster.call("GET", f"{PODS}/{name}")[1]
    return found["metadata"]["uid"], {one["name"]: one["restartCount"] for one in found["status"]["containerStatuses"]}


def most_memory(cluster: Cluster, node: Node) -> int:
    """KiB that the first process of its container has had at most."""
    lines = node.run("cat", f"/proc/{shipped.first_process(cluster, node, REPAIR)}/status").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def test_hostile_lines_are_refused(cluster: Cluster, node: Node) -> None:
    """Of one that said hello, from inside the agent's container: nothing begins, and it still serves."""
    before = (remediated.records(node), remediated.restarts(cluster, node))
    told: Object = remediated.in_agent(cluster, node, HOSTILE.read_text(), SOCKET, nodeprep.__version__)
    answers = dict(told["answers"])
    for what, answer in answers.items():
        print(f"{what}: {answer}")
    assert answers.pop("hello") == {"hello": {"version": nodeprep.__version__, "runs": True}}
    assert answers.pop("a line of 1 GiB").startswith("it hung up")
    assert len(answers) >= 40
    assert {kind for answer in answers.values() for kind in answer} == {"error", "refused"}
    refused = {answer["refused"]["reason"] for answer in answers.values() if "refused" in answer}
    assert refused == REASONS
    print(f"slowest answer: {told['slowest'] * 1000:.1f} ms; at most {most_memory(cluster, node)} KiB")
    assert told["squatted"] == []
    modes = node.run("stat", "-c", "%a", "/run/nodeprep-remediator", "/var/lib/nodeprep-remediator", remediated.LEDGER)
    assert modes.split() == ["700", "700", "600"]
    assert most_memory(cluster, node) < KIB
    assert (remediated.records(node), remediated.restarts(cluster, node)) == before
    assert remediated.asked(cluster, node, HELLO)[0]["hello"]["runs"] is True


TOKENS = """
import json, os
found, walked = [], 0
for at, below, names in os.walk("/"):
    below[:] = [one for one in below if os.path.join(at, one) not in ("/proc", "/sys", "/host/proc", "/dev")]
    for path in (os.path.join(at, name) for name in names):
        walked += 1
        try:
            with open(path, "rb") as file:
                head = file.read(4096)
        except OSError:
            continue
        if "serviceaccount" in path or head.startswith(b"ey") and head.count(b".") == 2 or b"client-key-data" in head:
            found.append(path)
secret = sorted(name for name, value in os.environ.items() if "TOKEN" in name or value.startswith("ey"))
print(json.dumps({"found": found, "walked": walked, "secret": secret}))
"""


def test_it_has_no_token_and_no_rights(cluster: Cluster, node: Node) -> None:
    """At the API server it may do what any account may that somebody made a moment ago."""
    told = json.loads(remediated.in_remediator(cluster, node, remediated.PYTHON, "-I", "-c", TOKENS))
    print(told)
    assert told["walked"] > 2000
    assert (told["found"], told["secret"]) == ([], [])
    cluster.namespace("elsewhere")
    cluster.create("/api/v1/namespaces/elsewhere/serviceaccounts", {"metadata": {"name": "fresh"}})
    rights = [
        sorted(cluster.kubectl("auth", "can-i", "--list", "-n", "nodeprep", f"--as={one}").splitlines())
        for one in (ACCOUNT, "system:serviceaccount:elsewhere:fresh")
    ]
    print("\n".join(rights[0]))
    assert len(rights[0]) > 5
    assert rights[0] == rights[1]
    for verb, what in (("get", "nodes"), ("list", "pods"), ("get", "secrets"), ("create", "pods/eviction")):
        with pytest.raises(RuntimeError, match="no"):
            cluster.kubectl("auth", "can-i", verb, what, "-n", "nodeprep", f"--as={ACCOUNT}")


def test_it_acts_on_the_node_and_not_in_its_container(cluster: Cluster, node: Node) -> None:
    """Files and mounts; its own mounts are as they were, and it mounts nothing of the node but while it acts."""
    mounts = remediated.in_remediator(cluster, node, "cat", "/proc/1/mountinfo")
    assert "no" in node.run("sh", "-c", "test -e /run/eni || echo no")
    told = remediated.ran(cluster, node, "terway_dirs")
    assert (told["rc"], told["changed"], told["refused"]) == (0, 2, None), told
    assert node.run("cat", "/etc/tmpfiles.d/nodeprep-terway.conf").startswith("d /run/eni ")
    assert node.run("ls", "-d", "/run/eni", "/var/lib/cni/terway").split() == ["/run/eni", "/var/lib/cni/terway"]
    told = remediated.ran(cluster, node, "mount_bpffs")
    assert told["rc"] == 0, told
    assert "/sys/fs/bpf bpf" in node.run("cat", "/proc/1/mounts")
    assert remediated.in_remediator(cluster, node, "cat", "/proc/1/mountinfo") == mounts
    assert remediated.in_remediator(cluster, node, "ls", "/var/lib/nodeprep-remediator/host") == ""
    assert remediated.ran(cluster, node, "terway_dirs")["changed"] == 0


@contextmanager
def covered(node: Node, path: str, script: str = "") -> Iterator[None]:
    """Another file over one of the node: a script that can be run, or one that nobody may run."""
    node.run("sh", "-c", f"printf '%s' \"$1\" >/run/cover && chmod {755 if script else 644} /run/cover", "sh", script)
    node.run("mount", "--bind", "/run/cover", path)
    try:
        yield
    finally:
        node.run("umount", path)


def test_a_node_without_the_tool_or_with_another_python(cluster: Cluster, node: Node) -> None:
    """The tool is looked for on the node, whatever the image has; the node's Python is not needed."""
    assert remediated.in_remediator(cluster, node, "ls", "/usr/bin/tee") == "/usr/bin/tee\n"
    with covered(node, "/usr/bin/tee"):
        told = remediated.ran(cluster, node, "sysctl_lingjun", key="net.ipv4.conf.all.arp_ignore", value="0")
    assert told["refused"] == "missing-tool", told
    assert told["why"] == "sysctl_lingjun: the host has no tee"
    node.run("sh", "-c", "rm -r /run/eni")
    with covered(node, "/usr/bin/python3", "#!/bin/sh\nexit 9\n"):
        told = remediated.ran(cluster, node, "terway_dirs")
    assert (told["rc"], told["changed"]) == (0, 1), told


def test_a_plugin_is_started_again_and_nothing_else(cluster: Cluster, node: Node) -> None:
    """The container that serves it, in the pod that it was; no pod is deleted or evicted by us."""
    plugin, job = lives(cluster, "plugin"), lives(cluster, "job")
    agent = shipped.container(shipped.agents(cluster)["n1"])["restartCount"]
    told = remediated.ran(cluster, node, "plugin_restart", pod="default/plugin")
    assert (told["rc"], told["changed"]) == (0, 1), told
    again = (plugin[0], {"plugin": 1, "exporter": 0})
    until(lambda: lives(cluster, "plugin") == again, "the kubelet says so")
    for name in ("default/job", f"nodeprep/{shipped.agents(cluster, REPAIR)['n1']['metadata']['name']}"):
        told = remediated.ran(cluster, node, "plugin_restart", pod=name)
        assert told["rc"] != 0, told
    assert lives(cluster, "job") == job
    assert lives(cluster, "plugin") == again
    assert remediated.restarts(cluster, node) == 0
    assert shipped.container(shipped.agents(cluster)["n1"])["restartCount"] == agent
    asked = [json.loads(line) for line in cluster.audited()]
    assert any(one["user"].get("username", "").startswith(OURS) for one in asked), "the log has our accounts"
    removed = [
        f"{one['user']['username']} {one['verb']} {one['requestURI']}"
        for one in asked
        if one["verb"].startswith("delete") or one.get("objectRef", {}).get("subresource") == "eviction"
    ]
    print(f"removed by anybody: {removed}")
    assert not [one for one in removed if one.startswith(OURS)]
    assert not [one for one in removed if one.endswith((f"{PODS}/job", f"{PODS}/plugin"))]


def test_a_kill_in_the_middle_neither_doubles_nor_loses_a_run(cluster: Cluster, node: Node) -> None:
    """As the kernel kills where memory is short. What ran on the node ends with it, and nobody takes its place."""
    node.run("sh", "-c", COUNTS)
    attempt, before = uuid4().hex, remediated.restarts(cluster, node)
    run = remediated.request(attempt, "kernel_modules", module=MODULE)
    assert remediated.asked(cluster, node, HELLO, run)[1] == {"status": "running"}
    until(lambda: "calls" in node.run("ls", "/run/rig"), "the play is in the middle")
    shipped.kill_agent(cluster, node, REPAIR)
    until(lambda: node.run("pgrep", "-f", f"modprobe {MODULE}", check=False) == "", "what ran has ended")
    told: Object = remediated.in_agent(cluster, node, HOSTILE.read_text(), SOCKET)
    assert told["squatted"] == []
    until(lambda: remediated.restarts(cluster, node) == before + 1, "the kubelet started it again")
    until(lambda: remediated.answers(cluster, node), "the remediator answers again")

    assert remediated.asked(cluster, node, HELLO, run)[1]["refused"]["reason"] == "seen"
    told = remediated.ended(cluster, node, attempt)
    assert (told["end"], told["rc"]) == ("interrupted", 1), told
    lines = [one["state"] for one in remediated.records(node) if one["id"] == attempt]
    assert lines == ["began", "interrupted"]
    assert node.run("cat", "/run/rig/calls") == f"{MODULE}\n", "it ran once"
    assert node.run("sh", "-c", "ls /etc/modules-load.d/nodeprep.conf 2>&1", check=False).count("No such file") == 1
    told = remediated.ran(cluster, node, "kernel_modules", module=MODULE)
    assert (told["rc"], told["changed"]) == (0, 2), told
    assert node.run("cat", "/run/rig/calls") == f"{MODULE}\n" * 2
