"""The books of a resource on a real kubelet, with a device plugin that does what it is told.

NVIDIA's own plugin cannot run here. The rig's plugin speaks the same protocol to the same kubelet, and its devices have
ids like a GPU's. The GPUs themselves are those of a tree, which is mounted over /sys for nodeprep alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeprep.facts.kubernetes.kubelet import GRACE_SECONDS
from tests.rigs import cluster_build, trees
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE
from tests.rigs.device_plugin import SECRET, DevicePlugin
from tests.rigs.ending import ending
from tests.rigs.waiting import SECONDS, until

NODEPREP = Path(sys.executable).with_name("nodeprep")
GPU, GPUS = "nvidia.com/gpu", 8
# As the kubelet has them by default, and as nobody here has changed them: its health port, and how often it writes its
# Node's status.
DEFAULTS = ("--healthz-port=10248", "--node-status-update-frequency=10s")
PODS = "/api/v1/namespaces/default/pods"
SOCKETS = "/var/lib/kubelet/device-plugins"
POD_RESOURCES = "/var/lib/kubelet/pod-resources/kubelet.sock"
OPEN = SECONDS  # seconds that a busy machine may take until the kubelet heard of a change; 3 on an idle one
HELD_UP = 100.0  # seconds; less than a report may take, which is 2 on an idle machine
NOTICED = 15.0  # seconds, issue 14
# What the plugin is told, what the Node says then, and what the agent. Where this machine stands still one may be late.
CHANGES = (
    ("unhealthy GPU-1", GPUS - 1, "fail"),
    ("healthy GPU-1", GPUS, "ok"),
    ("unhealthy GPU-1", GPUS - 1, "fail"),
)
IN_TIME = 2
# Prints each change of what the agent's page says of plugin.allocatable, and when it was seen. It is one process: a
# start of one for each look would be late by more than the agent.
WATCH = r"""
import http.client, re, time, urllib.request
former = ""
while True:
    try:
        page = urllib.request.urlopen("http://127.0.0.1:9842/metrics", timeout=10).read().decode()
    except (OSError, http.client.HTTPException):
        page = ""
    found = re.search(r'^nodeprep_check_status\{check="plugin.allocatable",status="(\w+)"\} 1', page, re.MULTILINE)
    if found and found[1] != former:
        former = found[1]
        print(time.monotonic(), former, flush=True)
    time.sleep(0.25)
"""
PROFILE = """apiVersion: nodeprep.io/v1
kind: Profile
name: hgx
expect:
  resources: {nvidia.com/gpu: 8}
gates: [plugin.registered]
"""
# Over /sys: only what lists PCI functions, and where its links lead.
OVER_SYS = 'for at in sys/bus/pci sys/devices; do mount --rbind "$0/$at" "/$at"; done; exec "$@"'


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node whose kubelet has its own defaults."""
    try:
        with Cluster(controllers=True) as cluster:
            yield cluster.add_node("gpu", flags=DEFAULTS)
    except cluster_build.CannotStart as reason:
        cannot_start(reason)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a node with eight GPUs, and the profile that wants them."""
    root = trees.build("hgx-h100", tmp_path_factory.mktemp("tree") / "root")
    (root.parent / "hgx.yaml").write_text(PROFILE)
    return root


def aged(node: Node, seconds: float) -> None:
    """As if the kubelet had begun so long ago."""
    at = time.time() - seconds
    os.utime(node.path(POD_RESOURCES), (at, at))


def command(node: Node, tree: Path, *words: str) -> tuple[str, ...]:
    """nodeprep on the node as root, on its real kubelet and with the tree's PCI functions."""
    # nsenter forks for the PID namespace, and passes no signal on.
    return (
        *node.entering(),
        "setpriv",
        "--pdeathsig",
        "TERM",
        "unshare",
        "--mount",
        "sh",
        "-c",
        OVER_SYS,
        str(tree),
        str(NODEPREP),
        *words,
    )


def access(node: Node) -> tuple[str, ...]:
    return ("--kubeconfig", "/etc/kubernetes/kubelet.conf", "--node", node.name)


def report(node: Node, tree: Path, *words: str) -> dict[str, Any]:
    asked = ("check", "--only", "kubelet.*,plugin.*", "--profile", str(tree.parent / "hgx.yaml"), "-o", "json")
    done = subprocess.run(
        command(node, tree, *asked, *access(node), *words), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode in (0, 1, 3), done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def said(node: Node, tree: Path, *checks: str) -> list[str]:
    """Status, reason and message of these checks about our resource or the node."""
    found = [one for one in report(node, tree)["findings"] if one["check"] in checks]
    return [f"{one['status']} {one['reason']}: {one['message']}" for one in found]


def becomes(node: Node, tree: Path, expected: str, check: str = "plugin.allocatable") -> str:
    """The message of a check, once it says this: until then the kubelet has not heard of the change."""
    heard: list[str] = []

    def holds() -> bool:
        heard[:] = said(node, tree, check)
        return any(one.startswith(f"{expected}: ") for one in heard)

    until(holds, f"{check} is {expected}, not {heard}", OPEN)
    (message,) = (one for one in heard if one.startswith(f"{expected}: "))
    return message


def sockets(node: Node, tree: Path, name: str = "rig.sock") -> list[str]:
    """What is said of a plugin's socket. Those of plugins that tests have killed stay behind."""
    return [one for one in said(node, tree, "plugin.sockets") if name in one]


def test_the_kubelet_answers_on_its_own_ports(node: Node, tree: Path) -> None:
    (health,) = said(node, tree, "kubelet.health")
    assert health.startswith("ok ")


def test_before_any_plugin_registered(node: Node, tree: Path) -> None:
    aged(node, 0.0)
    assert becomes(node, tree, "unknown Starting")
    assert becomes(node, tree, "unknown Starting", "plugin.registered")
    aged(node, GRACE_SECONDS + 60)
    assert "; 8 on this node could serve it" in becomes(node, tree, "fail NotAdvertised")
    assert becomes(node, tree, "fail NotRegistered", "plugin.registered")


@pytest.fixture
def plugin(node: Node) -> Iterator[DevicePlugin]:
    aged(node, GRACE_SECONDS + 60)
    with DevicePlugin(node, GPU, GPUS) as made:
        yield made


# What the plugin is told, and what is said of it: the states of capacity against allocatable and hardware.
STATES = [
    (("count 8",), "ok All", "hardware 8, "),
    (("count 8", "unhealthy GPU-3"), "fail SomeUnhealthy", "1 unhealthy; profile hgx wants 8"),
    (("count 1", "unhealthy GPU-0"), "fail NoneHealthy", "allocatable 0"),
    (("count 7",), "fail AliveNotAdvertised", "1 of 8 on this node are not advertised"),
    (("count 9",), "fail AdvertisedButDead", "it stands for devices that this node does not have"),
    (("count 0",), "fail NothingLeft", "its plugin is gone or sees no device"),
]


def test_the_six_states(node: Node, tree: Path, plugin: DevicePlugin) -> None:
    """In a row, as a plugin goes through them; after each it is well again."""
    for lines, expected, words in STATES:
        for line in lines:
            plugin.say(line)
        assert words in becomes(node, tree, expected)
        plugin.say("count 8")
        becomes(node, tree, "ok All")
    assert becomes(node, tree, "ok Registered", "plugin.registered")


def test_a_device_that_comes_back_by_itself(node: Node, tree: Path, plugin: DevicePlugin) -> None:
    becomes(node, tree, "ok All")
    plugin.say("flip GPU-5 20")
    assert "1 unhealthy" in becomes(node, tree, "fail SomeUnhealthy")
    becomes(node, tree, "ok All")


def test_a_plugin_that_hangs_holds_nobody_up(node: Node, tree: Path, plugin: DevicePlugin) -> None:
    becomes(node, tree, "ok All")
    plugin.say("hang")
    began = time.monotonic()
    plugin.say("unhealthy GPU-1")
    time.sleep(3.0)  # a plugin that does not hang is heard within one
    assert said(node, tree, "plugin.allocatable")[0].startswith("ok All"), "the kubelet still believes it"
    assert sockets(node, tree)[0].startswith("ok Listens"), "its socket accepts"
    assert time.monotonic() - began < HELD_UP


def test_a_plugin_that_dribbles_holds_nobody_up(node: Node, tree: Path) -> None:
    """A byte each 0.9 s: the kubelet waits for its devices, and nobody asks it but the kubelet."""
    aged(node, GRACE_SECONDS + 60)
    with DevicePlugin(node, GPU, GPUS, "--slow", "--socket", "slow.sock"):
        began = time.monotonic()
        assert sockets(node, tree, "slow.sock")[0].startswith("ok Listens")
        assert time.monotonic() - began < HELD_UP
        assert becomes(node, tree, "fail NoneHealthy" if offered(node) else "fail NotAdvertised")


def offered(node: Node) -> bool:
    """Whether the Node still has the resource of a test before, all of it unhealthy."""
    return str(node.object()["status"]["capacity"].get(GPU, "0")) != "0"


@pytest.mark.usefixtures("plugin")
def test_who_holds_which_device(node: Node, tree: Path) -> None:
    """And what Allocate told the container stays out of reports and snapshots."""
    becomes(node, tree, "ok All")
    main = {"name": "main", "image": BASE, "imagePullPolicy": "Never", "command": ["sleep", "600"]}
    limited = main | {"resources": {"limits": {GPU: "2"}}}
    spec = {"containers": [limited], "terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}]}
    cluster = node.cluster
    cluster.create(PODS, {"metadata": {"name": "trainer"}, "spec": spec})
    until(lambda: cluster.call("GET", f"{PODS}/trainer")[1]["status"]["phase"] == "Running", "the pod runs", OPEN)
    checkpoint = node.path(f"{SOCKETS}/kubelet_internal_checkpoint")
    until(lambda: "RIG_SECRET" in checkpoint.read_text() or SECRET in decoded(checkpoint), "the kubelet kept it", OPEN)
    (use,) = [one for one in said(node, tree, "plugin.in-use") if GPU in one]
    assert "in use 2 (default/trainer 2)" in use
    snapshot = tree.parent / "snapshot.json"
    assert SECRET not in json.dumps(report(node, tree))
    subprocess.run(command(node, tree, "snapshot", "-o", str(snapshot), *access(node)), capture_output=True, check=True)
    text = snapshot.read_text()
    assert GPU in text
    assert SECRET not in text
    books = node.run(
        str(NODEPREP), "kubelet-books", "--once", "--directory", "/run/nodeprep-kubelet-books", check=False
    )
    kept = node.path("/run/nodeprep-kubelet-books")
    assert books == ""
    (written,) = kept.iterdir()
    assert GPU in written.read_text()
    assert SECRET not in written.read_text()
    cluster.call("DELETE", f"{PODS}/trainer")
    until(lambda: cluster.call("GET", f"{PODS}/trainer")[0] == 404, "the pod is gone", OPEN)


def decoded(checkpoint: Path) -> str:
    """All that the checkpoint's base64 fields hold, as text."""
    import base64

    fields = re.findall(r'"AllocResp":"([^"]*)"', checkpoint.read_text())
    return " ".join(base64.b64decode(one).decode(errors="replace") for one in fields)


def test_a_plugin_that_is_killed_leaves_a_socket_and_no_device(node: Node, tree: Path, plugin: DevicePlugin) -> None:
    becomes(node, tree, "ok All")
    plugin.kill()
    assert "allocatable 0" in becomes(node, tree, "fail NoneHealthy")
    (dead,) = sockets(node, tree)
    assert re.match(r"(warn|fail) ", dead)
    with DevicePlugin(node, GPU, GPUS):
        becomes(node, tree, "ok All")
        assert sockets(node, tree)[0].startswith("ok Listens")


def test_an_agent_notices_before_the_node_says_it(node: Node, tree: Path, plugin: DevicePlugin, tmp_path: Path) -> None:
    """The Node is up to 10 s late. From then on the agent has 15 s, and takes them from most changes."""
    becomes(node, tree, "ok All")
    config = tmp_path / "config.yaml"
    profile = tree.parent / "hgx.yaml"
    config.write_text(f"apiVersion: nodeprep.io/v1\nkind: Config\ndefault: {profile}\n")
    directories = [word for name in ("state", "run", "socket") for word in (f"--{name}-dir", f"{tmp_path}/{name}")]
    words = ("agent", "--config", str(config), *directories, *access(node))
    with (
        (tmp_path / "log").open("w") as log,
        ending(subprocess.Popen(command(node, tree, *words), stderr=log)) as agent,
        (tmp_path / "said").open("w") as said_by_agent,
        ending(subprocess.Popen(watching(node), stdout=said_by_agent)) as watch,
    ):
        until(lambda: says(tmp_path / "said", "ok"), f"the agent says ok: {tmp_path / 'log'}", OPEN)
        until(lambda: allocatable(node) == str(GPUS), "the Node says that all are well", OPEN)
        late = [changed(node, plugin, tmp_path / "said", change) for change in CHANGES]
        watch.terminate()
        agent.terminate()
    assert sum(one <= NOTICED for one in late) >= IN_TIME, late


def changed(node: Node, plugin: DevicePlugin, file: Path, change: tuple[str, int, str]) -> float:
    """How long after the Node the agent says what the plugin was told, in seconds."""
    line, count, expected = change
    plugin.say(line)
    began = time.monotonic()
    until(lambda: allocatable(node) == str(count), "the Node says it", OPEN)
    told = time.monotonic()
    noticed = until(lambda: says(file, expected), "the agent says it", OPEN)
    print(f"{line}: the Node said it after {told - began:.1f} s, the agent {noticed - told:.1f} s after the Node")
    return noticed - told


def allocatable(node: Node) -> str:
    return str(node.object()["status"]["allocatable"].get(GPU, ""))


def watching(node: Node) -> tuple[str, ...]:
    """The command that runs WATCH in the node's network namespace, and ends with this process."""
    return (*node.entering(), "setpriv", "--pdeathsig", "TERM", sys.executable, "-I", "-c", WATCH)


def says(file: Path, expected: str) -> float:
    """Since when the agent says this of plugin.allocatable; 0 while it says something else."""
    at, _, status = (file.read_text().rpartition("\n")[0].splitlines() or [""])[-1].partition(" ")
    return float(at) if status == expected else 0.0
