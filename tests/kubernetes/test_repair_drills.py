"""The drill table: faults of a node with its own kernel, mended unattended by both DaemonSets while a job's pod waits.

The machine has a real RoCE device, a real kubelet and a real plugin. The agent's waits are those that ship. With
NODEPREP_DRILL_TABLE the rows of the README's table are written there (`make prove-drills`; docs/drill_table.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from docs import drill_table
from tests.kubernetes import rdma_node, remediated, repaired, training
from tests.kubernetes.rdma_node import MODULE, MTU
from tests.kubernetes.shipped import STATE, UNHEALTHY, Object, condition, taints
from tests.kubernetes.training import LONG, PODS, Announced, announced, bound, labelled, open_to_training, running
from tests.rigs import rdma_plugin
from tests.rigs.cluster import Cluster
from tests.rigs.guest import Guest
from tests.rigs.lab import RAIL, RDMA_DEVICE
from tests.rigs.waiting import until

TABLE = os.environ.get("NODEPREP_DRILL_TABLE")
PCI = "/sys/bus/pci"
# Another plugin than that of the RDMA device, so that a pod waits for it alone.
SERVED, DEVICES = "example.com/nic", 2
NIC_PLUGIN = "nic-plugin"
PLUGIN_DIES = f"""for one in /proc/[0-9]*; do
grep -qs '[{SERVED[0]}]{SERVED[1:]}' $one/cmdline && kill -9 ${{one#/proc/}}
done; true"""
EXPECTED = f"  resources: {{{SERVED}: {DEVICES}}}\n"
# What configures an interface that appears after a driver was bound anew. On a node of its own networkd does it, and
# sets it up as well (`ActivationPolicy=up` in systemd.network(5) is its default).
CONFIGURATOR = f"""while sleep 1; do
ip address replace {RAIL.address} dev {RAIL.netdev}; ip link set {RAIL.netdev} mtu {MTU} up
done >/dev/null 2>&1 & echo $!"""
pytestmark = [pytest.mark.prove, pytest.mark.timeout(7200)]


@dataclass(frozen=True, slots=True)
class Drill:
    """A fault in a few words, the command that makes it, and the remedies that its node needs, in their order."""

    story: str
    fault: str
    remedies: tuple[str, ...]
    configured: bool = False  # the interface that appears, by somebody else

    @property
    def name(self) -> str:
        return self.remedies[0].replace("_", "-")


DRILLS = (
    Drill("the MTU is another one", f"ip link set {RAIL.netdev} mtu 1500", ("mtu",)),
    Drill("a module is removed", f"modprobe -r {MODULE}", ("kernel_modules",)),
    Drill("the RDMA link is deleted", f"rdma link delete {RDMA_DEVICE}", ("rdma_link_add",)),
    Drill("the interface is set down", f"ip link set {RAIL.netdev} down", ("link_up",)),
    Drill("the uverbs node is gone", "rm /dev/infiniband/uverbs0", ("rdma_device_nodes",)),
    Drill("a plugin died and left its socket", PLUGIN_DIES, ("plugin_restart",)),
    Drill("ARP is restricted by a sysctl", "sysctl -qw net.ipv4.conf.all.arp_ignore=1", ("sysctl_lingjun",)),
    Drill(
        "the NIC is unbound from its driver",
        f"echo {RAIL.bdf} >{PCI}/drivers/virtio-pci/unbind",
        ("driver_bind", "rdma_link_add"),
        configured=True,
    ),
    Drill(
        "the NIC is removed from the bus",
        f"echo 1 >{PCI}/devices/{RAIL.bdf}/remove",
        ("pci_rescan", "rdma_link_add"),
        configured=True,
    ),
)


@dataclass
class Table:
    """The rows so far: the fault, the remedies that ran, and the seconds from the fault to each leg."""

    rows: list[tuple[str, list[str], dict[str, float]]] = field(default_factory=list)

    def add(self, story: str, remedies: list[str], legs: dict[str, float]) -> None:
        self.rows.append((story, remedies, legs))
        if TABLE:
            Path(TABLE).write_text(self.text())

    def text(self) -> str:
        return "".join(
            "\t".join((story, ", ".join(remedies), *(f"{legs[leg]:.1f}" for leg in drill_table.LEGS))) + "\n"
            for story, remedies, legs in self.rows
        )


@pytest.fixture(scope="module")
def guest(new_guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """Both DaemonSets in mode repair and the plugin, on a healthy machine that was Ready."""
    cluster = new_guest.cluster
    training.cleared(new_guest)
    assert new_guest.lab.restore() == ()
    new_guest.run("ip", "link", "set", RAIL.netdev, "mtu", str(MTU))
    cluster.apply(rdma_plugin.manifest([{"operator": "Exists"}]))
    nic_plugin(cluster)
    cluster.apply(rdma_node.manifests(tmp_path_factory.mktemp("manifests") / "own", EXPECTED))
    remediated.rolled_out(cluster, LONG)
    until(lambda: open_to_training(new_guest.object()), "the node is Ready", LONG)
    yield new_guest
    assert new_guest.lab.restore() == ()


def nic_plugin(cluster: Cluster) -> None:
    """The rig's own plugin in a pod whose container goes on where its process ends: nobody starts it again."""
    script = (
        f"tail -f /dev/null | /plugin device-plugin --resource {SERVED} --devices {DEVICES} & exec sleep 2147483647"
    )
    devices, program = "/var/lib/kubelet/device-plugins", str(cluster.program)
    container = {
        "name": "plugin",
        "image": rdma_plugin.IMAGE,
        "command": ["sh", "-c", script],
        "volumeMounts": [
            {"name": "devices", "mountPath": devices},
            {"name": "program", "mountPath": "/plugin", "readOnly": True},
        ],
    }
    volumes = [
        {"name": "devices", "hostPath": {"path": devices}},
        {"name": "program", "hostPath": {"path": program, "type": "File"}},
    ]
    spec = {
        "containers": [container],
        "volumes": volumes,
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
    }
    cluster.create("/api/v1/namespaces/kube-system/pods", {"metadata": {"name": NIC_PLUGIN}, "spec": spec})


@pytest.fixture(scope="module")
def node(guest: Guest) -> Iterator[Announced]:
    with announced(guest.cluster, "/api/v1/nodes", guest.name) as said:
        yield said


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    made = Table()
    yield made
    print(made.text())


def stated(state: str) -> Callable[[Object], bool]:
    return lambda node: bool(node["metadata"]["labels"].get(STATE) == state)


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)
def test_a_fault_is_mended_while_a_pod_waits(guest: Guest, node: Announced, table: Table, drill: Drill) -> None:
    cluster, job = guest.cluster, f"drill-{drill.name}"
    assert open_to_training(guest.object()), "what the drill before it left"
    try:
        legs, ran = drilled(guest, node, drill, job)
    finally:
        cluster.kubectl("delete", "pod", job, "--ignore-not-found", f"--timeout={LONG:g}s")
    print(drill.story, ran, {leg: round(seconds, 1) for leg, seconds in legs.items()}, flush=True)
    print("\n".join(message for _, message in repaired.told(cluster, guest.name)[-12:]))
    assert ran == list(drill.remedies)
    table.add(drill.story, ran, legs)
    assert legs["gate open"] <= drill_table.LIMIT_SECONDS


def drilled(guest: Guest, node: Announced, drill: Drill, job: str) -> tuple[dict[str, float], list[str]]:
    """Seconds from the fault to each leg, and the remedies that ran."""
    cluster, before = guest.cluster, len(repaired.runs(guest))
    began = time.monotonic()
    guest.run("sh", "-c", drill.fault)
    legs = {"condition": node.when(lambda one: condition(one)["status"] == "False", "the condition", began) - began}
    legs["label gone"] = node.when(lambda one: not labelled(one), "the label is gone", began) - began
    legs["taint"] = node.when(lambda one: UNHEALTHY in taints(one), "the taint", began) - began
    with announced(cluster, PODS, job) as pod:
        training.training_pod(cluster, job)
        legs["repairing"] = node.when(stated("Repairing"), "a remedy runs", began) - began
        configurator = guest.run("sh", "-c", CONFIGURATOR).strip() if drill.configured else ""
        try:
            opened = node.when(open_to_training, "the gate is open", began + legs["repairing"])
            legs["gate open"] = opened - began
            legs["pod runs"] = pod.when(running, "the pod runs", began) - began
            # By the store's own revisions: two watches have a thread each.
            assert pod.revision(pod.when(bound, "the pod is bound")) > node.revision(opened)
        finally:
            if configurator:
                guest.run("kill", configurator)
    ends = [one for one in remediated.records(guest) if one["state"] != "began"][before:]
    legs["plays"] = sum(one["seconds"] for one in ends)
    print([(one["remedy"], one["state"], one["seconds"]) for one in ends])
    return legs, list(dict.fromkeys(one["remedy"] for one in ends if one["state"] != "refused"))


def test_a_pod_that_holds_the_device_is_left_alone(guest: Guest, node: Announced) -> None:
    """A remedy of class S1 runs beside it. One of class S2 waits for it, visibly, and runs once it is gone."""
    cluster, name = guest.cluster, "holder"
    # The drills before it have had the three tries of a day for an interface that is down.
    cluster.kubectl("annotate", "node", guest.name, "nodeprep.io/reset=holder", "--overwrite")
    until(lambda: not open_to_training(guest.object()), "the reset is heard", LONG)
    until(lambda: open_to_training(guest.object()), "the node is Ready again", LONG)
    with announced(cluster, PODS, name) as pod:
        training.training_pod(cluster, name)
        pod.when(running, "the pod runs")
    held = identity(cluster, name)

    before, began = len(repaired.runs(guest)), time.monotonic()
    guest.run("ip", "link", "set", RAIL.netdev, "down")
    node.when(stated("Repairing"), "a remedy of class S1 runs", began)
    node.when(open_to_training, "the gate is open", time.monotonic())
    assert repaired.runs(guest)[before:] == [("link_up", "done")]
    assert identity(cluster, name) == held

    before, began = len(repaired.runs(guest)), time.monotonic()
    guest.run("ip", "link", "set", RAIL.netdev, "mtu", "1500")
    waits = until(lambda: suppressed(cluster, guest.name, "mtu"), "a remedy of class S2 waits, and says so", LONG)
    assert "(idle)" in waits
    assert name in waits
    assert not any(stated("Repairing")(one) for one in node.since(began))
    assert repaired.runs(guest)[before:] == []
    assert identity(cluster, name) == held
    cluster.kubectl("delete", "pod", name, f"--timeout={LONG:g}s")
    gone = time.monotonic()
    node.when(stated("Repairing"), "it runs once the pod is gone", gone)
    node.when(open_to_training, "the gate is open", time.monotonic())
    assert [remedy for remedy, end in repaired.runs(guest)[before:] if end == "done"] == ["mtu"]


def identity(cluster: Cluster, pod: str) -> tuple[str, int]:
    """The uid of a pod, and how often its container was started again."""
    found = cluster.call("GET", f"{PODS}/{pod}")[1]
    assert running(found)
    return found["metadata"]["uid"], found["status"]["containerStatuses"][0]["restartCount"]


def suppressed(cluster: Cluster, node: str, remedy: str) -> str:
    """What the last Event says of a remedy that waits, "" if there is none."""
    said = [text for reason, text in repaired.told(cluster, node) if reason == "RepairSuppressed"]
    return next((text for text in reversed(said) if text.startswith(f"{remedy} for")), "")
