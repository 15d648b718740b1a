"""Three new machines that lack a module and their RDMA device join at once: they are provisioned before a job lands.

Each has its own kernel. tests/kubernetes/test_repairing.py does the same on native nodes, which share one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.kubernetes import rdma_node, remediated, repaired, shipped, training
from tests.kubernetes.rdma_node import MODULE, MTU
from tests.kubernetes.training import LONG, PODS, Announced, announced, bound, open_to_training, running
from tests.rigs import rdma_plugin
from tests.rigs.cluster import Cluster
from tests.rigs.guest import Guest
from tests.rigs.lab import RAIL, RDMA_DEVICE
from tests.rigs.waiting import until

NUMBERS = (201, 202, 203)  # the last parts of their addresses
PLAYS = 2400.0  # seconds; two plays on each of three guests, which share this machine
pytestmark = [pytest.mark.prove, pytest.mark.timeout(5400)]


@pytest.fixture(scope="module")
def guests(image: Callable[[str], Path]) -> Iterator[tuple[Guest, ...]]:
    """Registered with the bootstrap taint, without what their profile asks for."""
    archives = [rdma_plugin.image(), image("good"), image(remediated.REPAIR)]
    with Cluster(controllers=True) as cluster, ExitStack() as stack:
        made = tuple(
            stack.enter_context(
                Guest(cluster, f"guest-{number}", [f"{shipped.BOOTSTRAP}=:NoSchedule"], images=archives, number=number)
            )
            for number in NUMBERS
        )
        for guest in made:
            guest.run("ip", "link", "set", RAIL.netdev, "mtu", str(MTU))
            guest.run("rdma", "link", "delete", RDMA_DEVICE)
            guest.run("modprobe", "-r", MODULE)
        yield made


def test_they_are_provisioned_unattended_before_any_job_is_bound(guests: tuple[Guest, ...], tmp_path: Path) -> None:
    cluster = guests[0].cluster
    cluster.apply(rdma_plugin.manifest([{"operator": "Exists"}]))
    pods = [f"worker-{number}" for number in NUMBERS]
    with ExitStack() as stack:
        nodes = {one.name: stack.enter_context(announced(cluster, "/api/v1/nodes", one.name)) for one in guests}
        jobs = {name: stack.enter_context(announced(cluster, PODS, name)) for name in pods}
        for name in pods:
            training.training_pod(cluster, name)
        began = time.monotonic()
        cluster.apply(rdma_node.manifests(tmp_path / "own"))
        remediated.rolled_out(cluster, LONG)
        for guest in guests:
            opened = nodes[guest.name].when(open_to_training, f"{guest.name} is open", began, PLAYS) - began
            print(f"{guest.name} is open after {opened:.0f} s: {repaired.runs(guest)}")
        for name, pod in jobs.items():
            print(f"{name} runs after {pod.when(running, f'{name} runs', began) - began:.0f} s")
        for name, pod in jobs.items():
            assert bound_after_the_gate(cluster, name, pod, nodes)
    for guest in guests:
        ran = [remedy for remedy, end in repaired.runs(guest) if end == "done"]
        assert sorted(ran) == ["kernel_modules", "rdma_link_add"], guest.name
        until(partial(repaired.has_helped, cluster, guest.name, 2), f"{guest.name} says that both helped", LONG)


def bound_after_the_gate(cluster: Cluster, name: str, pod: Announced, nodes: dict[str, Announced]) -> bool:
    """Whether the scheduler bound a pod after its node was open, by the store's own revisions."""
    node = nodes[cluster.call("GET", f"{PODS}/{name}")[1]["spec"]["nodeName"]]
    opened = node.revision(node.when(open_to_training, "it is open"))
    return pod.revision(pod.when(bound, f"{name} is bound")) > opened
