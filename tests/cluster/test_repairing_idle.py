"""A remedy that pods must not meet waits for them, and one that they may meet does not.

The remedy of class S2 is the rescan of the PCI bus, for an ENI that the cloud has attached and the kernel does not
list. The file that it writes to is one of the node's own: nothing of this machine is scanned.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from nodeprep.facts.kubernetes import kubelet
from tests.cluster import repaired_node
from tests.cluster.repaired_node import Repaired
from tests.rigs import idle_host
from tests.rigs.cluster import Cluster
from tests.rigs.netns import Node
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

PODS = "/api/v1/namespaces/default/pods"
RESCAN = "/sys/bus/pci/rescan"
SHAPE = Shape(enis=2, pods=2)
MISSING, OTHER_MAC = "eth2", "00:16:3e:00:00:99"
PROFILE = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: links\ngates: [eni.up, eni.missing-link]\n"
# No period brings the look that has to see the fault once more before a remedy: the approach asks for it.
CONFIGURATION = repaired_node.configuration().replace(
    "confirmation: {", "every: {imds: 3600}\nconfirmation: {records: {fails: 1, of: 1, apart: 0, span: 0}, "
)


@pytest.fixture(scope="module")
def cluster(apart: Cluster) -> Cluster:
    return apart


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(SHAPE) as one:
        yield one


@pytest.fixture
def own_bus(here: Checked, tmp_path: Path) -> Iterator[Path]:
    """The file to which a rescan is written on this node. No device of RDMA, of a GPU or of VFIO is there."""
    rescan, devices = tmp_path / "rescan", tmp_path / "devices"
    rescan.write_text("")
    devices.write_text("Character devices:\n  1 mem\n\nBlock devices:\n  7 loop\n")
    with ExitStack() as over:
        for file, place in ((rescan, RESCAN), (devices, "/proc/devices")):
            here.node.run("mount", "--bind", str(file), place)
            over.callback(here.node.run, "umount", place)
        yield rescan


@contextmanager
def kubelet_without_devices(node: Node) -> Iterator[None]:
    """The kubelet's list of pods with devices is empty: what was just bound has none yet."""
    root = Path(f"/proc/{node.pid}/root")
    node.run("mkdir", "-p", kubelet.DIRECTORY)
    with idle_host.kubelet_of(root):
        yield


def pod(cluster: Cluster, node: str) -> str:
    """A training pod that was bound to a node and asks for its devices; gives its path."""
    name = f"training-{time.monotonic_ns()}"
    container = {"name": "worker", "image": "x", "resources": {"limits": {"rdma/hca": "1"}}}
    tolerates = [{"operator": "Exists"}]
    spec = {"nodeName": node, "containers": [container], "tolerations": tolerates}
    cluster.create(PODS, {"metadata": {"name": name}, "spec": spec})
    return f"{PODS}/{name}"


@contextmanager
def lost_link(node: Node) -> Iterator[None]:
    """As where the kernel has missed that the cloud attached an ENI: no link has its address."""
    node.ip("link", "set", MISSING, "address", OTHER_MAC)
    try:
        yield
    finally:
        node.ip("link", "set", MISSING, "address", SHAPE.mac(2))


def test_a_pod_that_asks_for_a_device_makes_a_remedy_wait_and_no_safe_one(
    cluster: Cluster, here: Checked, own_bus: Path, tmp_path: Path
) -> None:
    name = f"idle-{time.monotonic_ns()}"
    with (
        ExitStack() as over,
        kubelet_without_devices(here.node),
        repaired_node.fleet(cluster),
        repaired_node.repaired(cluster, here.node, tmp_path, name, config=CONFIGURATION, profile=PROFILE) as one,
    ):
        training = pod(cluster, name)
        uid = cluster.call("GET", training)[1]["metadata"]["uid"]
        over.enter_context(lost_link(here.node))
        waits_for(one, training)
        one.down()
        until(lambda: one.outcomes() == ["released"], "the other link is set up beside the pod")
        waits_for(one, training)
        assert (one.calls(), own_bus.read_text()) == (["eth1"], "")
        assert cluster.call("GET", training)[1]["metadata"]["uid"] == uid
        assert cluster.call("DELETE", f"{training}?gracePeriodSeconds=0")[0] == 200
        until(own_bus.read_text, "the rescan, when the pod is gone")
        assert own_bus.read_text().strip() == "1"


def waits_for(one: Repaired, training: str) -> None:
    """Returns when the agent's pages say that the rescan waits for this pod, and an Event and its log have said it."""
    until(lambda: one.suppressed() == {"eni.missing-link": "idle"}, "the rescan waits")
    asks = f"in use by pod default/{training.rpartition('/')[2]} (1 rdma/hca): it waits until they end"
    assert [told["why"] for told in one.repair()["suppressed"]] == [asks]
    told = "RepairSuppressed", f"pci_rescan for eni.missing-link does not run (idle): {asks}"
    until(lambda: told in one.told(), "an Event says it")
    one.agent.wait("repair-suppressed", reason="idle", why=asks)
