"""The drill table: faults of a node with its own kernel, mended unattended by both DaemonSets while a job's pod waits.

The machine has a real RoCE device, a real kubelet and a real plugin. The agent's waits are those that ship. With
NODEPREP_DRILL_TABLE the table of docs/repair-agent.md is written there (`make prove-drills`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.kubernetes import remediated, repaired, training
from tests.kubernetes.remediated import REPAIR
from tests.kubernetes.shipped import STATE, UNHEALTHY, Object, condition, overlay, taints
from tests.kubernetes.training import LONG, PODS, Announced, announced, bound, labelled, open_to_training, running
from tests.rigs import rdma_plugin
from tests.rigs.guest import Guest
from tests.rigs.lab import RAIL, RDMA_DEVICE
from tests.rigs.waiting import until

TABLE = os.environ.get("NODEPREP_DRILL_TABLE")
MTU = 9000  # bytes; of the rail, as the lab sets it
PCI = "/sys/bus/pci"
PROFILE = f"""apiVersion: nodeprep.io/v1
kind: Profile
name: node
extends: rdma-roce
gates: [sysctl.arp]
want:
  sysctl.arp: {{always: true}}
  port.mtu: {{exactly: [{MTU}]}}
expect:
  modules: [ib_core, ib_umad, ib_uverbs]
  devices:
    "{RAIL.bdf}": {{driver: virtio-pci, rdma: {RDMA_DEVICE}, software: rxe}}
"""
# What nobody announces is looked at more often. Each wait of a repair is as it ships.
CONFIGURATION = """apiVersion: nodeprep.io/v1
kind: Config
mode: repair
default: node.yaml
gate: {profiles: [node]}
confirmation: {flap-count: 100}
every: {cluster: 15, pci: 5}
"""
# What brings the rail's address and MTU back after a driver was bound anew: networkd does it on a node of its own.
CONFIGURATOR = f"""while sleep 1; do
ip address replace {RAIL.address} dev {RAIL.netdev}; ip link set {RAIL.netdev} mtu {MTU}
done >/dev/null 2>&1 & echo $!"""
pytestmark = [pytest.mark.prove, pytest.mark.timeout(7200)]


@dataclass(frozen=True, slots=True)
class Drill:
    """A fault in a few words, the command that makes it, and the remedies that its node needs, in their order."""

    story: str
    fault: str
    remedies: tuple[str, ...]
    configured: bool = False  # by somebody else, after the last remedy

    @property
    def name(self) -> str:
        return self.remedies[0].replace("_", "-")


DRILLS = (
    Drill("a module is removed", "modprobe -r ib_umad", ("kernel_modules",)),
    Drill("the RDMA link is deleted", f"rdma link delete {RDMA_DEVICE}", ("rdma_link_add",)),
    Drill("the interface is set down", f"ip link set {RAIL.netdev} down", ("link_up",)),
    Drill("the uverbs node is gone", "rm /dev/infiniband/uverbs0", ("rdma_device_nodes",)),
    Drill("the MTU is another one", f"ip link set {RAIL.netdev} mtu 1500", ("mtu",)),
    Drill("ARP is restricted by a sysctl", "sysctl -qw net.ipv4.conf.all.arp_ignore=1", ("sysctl_lingjun",)),
    Drill(
        "the NIC is unbound from its driver",
        f"echo {RAIL.bdf} >{PCI}/drivers/virtio-pci/unbind",
        ("driver_bind", "rdma_link_add", "link_up"),
        configured=True,
    ),
    Drill(
        "the NIC is removed from the bus",
        f"echo 1 >{PCI}/devices/{RAIL.bdf}/remove",
        ("pci_rescan", "rdma_link_add", "link_up"),
        configured=True,
    ),
)


@dataclass
class Table:
    """The rows so far: the drill, and the seconds from the fault to each leg."""

    rows: list[tuple[Drill, dict[str, float]]] = field(default_factory=list)

    def text(self) -> str:
        return "".join(
            "\t".join((drill.story, ", ".join(drill.remedies), *(f"{seconds:.0f}" for seconds in legs.values()))) + "\n"
            for drill, legs in self.rows
        )


@pytest.fixture(scope="module")
def guest(new_guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """Both DaemonSets in mode repair and the plugin, on a healthy machine that was Ready."""
    cluster = new_guest.cluster
    training.cleared(new_guest)
    assert new_guest.lab.restore() == ()
    new_guest.run("ip", "link", "set", RAIL.netdev, "mtu", str(MTU))
    cluster.apply(rdma_plugin.manifest([{"operator": "Exists"}]))
    files = {"config.yaml": CONFIGURATION, "node.yaml": PROFILE}
    cluster.apply(overlay(tmp_path_factory.mktemp("manifests") / "own", files, REPAIR))
    remediated.rolled_out(cluster, LONG)
    until(lambda: open_to_training(new_guest.object()), "the node is Ready", LONG)
    yield new_guest
    assert new_guest.lab.restore() == ()


@pytest.fixture(scope="module")
def node(guest: Guest) -> Iterator[Announced]:
    with announced(guest.cluster, "/api/v1/nodes", guest.name) as said:
        yield said


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    made = Table()
    yield made
    print(made.text())
    if TABLE:
        Path(TABLE).write_text(made.text())


def stated(state: str) -> Callable[[Object], bool]:
    return lambda node: bool(node["metadata"]["labels"].get(STATE) == state)


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)
def test_a_fault_is_mended_while_a_pod_waits(guest: Guest, node: Announced, table: Table, drill: Drill) -> None:
    cluster = guest.cluster
    assert open_to_training(guest.object()), "what the drill before it left"
    before = len(repaired.runs(guest))
    job = f"drill-{drill.name}"
    began = time.monotonic()
    guest.run("sh", "-c", drill.fault)
    legs = {"condition": node.when(lambda one: condition(one)["status"] == "False", "the condition", began) - began}
    legs["label gone"] = node.when(lambda one: not labelled(one), "the label is gone", began) - began
    legs["taint"] = node.when(lambda one: UNHEALTHY in taints(one), "the taint", began) - began
    with announced(cluster, PODS, job) as pod:
        training.training_pod(cluster, job)
        legs["repairing"] = node.when(stated("Repairing"), "a remedy runs", began) - began
        assert not any(bound(one) for _, one in pod.seen), "the pod waits"
        configurator = guest.run("sh", "-c", CONFIGURATOR).strip() if drill.configured else ""
        legs["gate open"] = node.when(open_to_training, "the gate is open", began) - began
        legs["pod runs"] = pod.when(running, "the pod runs", began) - began
    if configurator:
        guest.run("kill", configurator)
    table.rows.append((drill, legs))
    print(drill.story, {leg: round(seconds, 1) for leg, seconds in legs.items()})
    print("\n".join(message for _, message in repaired.told(cluster, guest.name)[-12:]))
    ran = [remedy for remedy, end in repaired.runs(guest)[before:] if end == "done"]
    assert tuple(dict.fromkeys(ran)) == drill.remedies[: len(set(ran))]
    assert ran
    cluster.kubectl("delete", "pod", job, f"--timeout={LONG:g}s")
