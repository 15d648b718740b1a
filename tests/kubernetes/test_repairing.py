"""Mode repair from the shipped manifests on real nodes: new ones are provisioned, and one that serves is mended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from nodeprep.decide.repair_policy import SHIPPED_WAITS
from tests.kubernetes import remediated, repaired, shipped
from tests.rigs import started
from tests.rigs.cluster import Cluster, Node
from tests.rigs.waiting import until

NODES = 3
JOB = "trainer"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with started.cluster(nodes=NODES) as made:
        yield made


@pytest.fixture(scope="module")
def watched(
    cluster: Cluster, image: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> shipped.Watched:
    """Three new nodes that lack what their profile asks for, while a job's pods wait. They are ready now."""
    for node in cluster.nodes.values():
        repaired.whole(node)
        repaired.lose_records(node)
        register_anew(cluster, node)
    directory = tmp_path_factory.mktemp("manifests") / "own"
    for number in range(NODES):
        repaired.waiting_pod(cluster, f"{JOB}-{number}")
    with shipped.watched(cluster) as seen:
        remediated.installed(cluster, image, repaired.manifests(directory))
        for node in cluster.nodes.values():
            until(partial(shipped.is_ready, node), f"{node.name} is ready")
        for number in range(NODES):
            until(partial(runs, cluster, f"{JOB}-{number}"), "the job runs")
    return seen


def register_anew(cluster: Cluster, node: Node) -> None:
    """As a node pool with the bootstrap taint has its nodes register."""
    taint = {"key": shipped.BOOTSTRAP, "effect": "NoSchedule"}
    code, told = cluster.call("PATCH", f"/api/v1/nodes/{node.name}", {"spec": {"taints": [taint]}})
    assert code == 200, told


def runs(cluster: Cluster, pod: str) -> bool:
    return repaired.phase(cluster, pod) == "Running"


def bound_at(cluster: Cluster, pod: str) -> str:
    """When the scheduler bound it, as the API server writes times."""
    conditions = cluster.call("GET", f"{repaired.PODS}/{pod}")[1]["status"]["conditions"]
    return str(next(one["lastTransitionTime"] for one in conditions if one["type"] == "PodScheduled"))


def test_new_nodes_are_provisioned_before_a_job_lands_there(cluster: Cluster, watched: shipped.Watched) -> None:
    """All at once, each by its own playbook run, unattended."""
    for node in cluster.nodes.values():
        assert repaired.runs(node) == [("terway_dirs", "done")], node.name
        until(partial(repaired.has_helped, cluster, node.name), f"{node.name} says that it helped")
    # By what stands on the Node: on a busy machine we hear of it later.
    opened = {
        name: shipped.condition(next(one for one in nodes(watched, name) if is_open(one)))["lastTransitionTime"]
        for name in cluster.nodes
    }
    for number in range(NODES):
        pod = cluster.call("GET", f"{repaired.PODS}/{JOB}-{number}")[1]
        assert bound_at(cluster, f"{JOB}-{number}") >= opened[pod["spec"]["nodeName"]], "not before the gate was open"


def nodes(watched: shipped.Watched, name: str) -> Iterator[shipped.Object]:
    """A Node as it was, oldest first."""
    return (node for _, node in watched.nodes if node["metadata"]["name"] == name)


def is_open(node: shipped.Object) -> bool:
    return not shipped.taints(node) and shipped.condition(node)["status"] == "True"


def test_a_fault_is_mended_and_the_job_that_waited_runs(cluster: Cluster, watched: shipped.Watched) -> None:
    """The other nodes are cordoned, so that the job waits for this one. Each leg is told."""
    assert watched.nodes
    node = cluster.nodes["n1"]
    others = [name for name in cluster.nodes if name != node.name]
    cluster.kubectl("cordon", *others)
    try:
        legs = mended(cluster, node)
    finally:
        cluster.kubectl("uncordon", *others)
    print("\n".join(legs))
    until(partial(repaired.has_helped, cluster, node.name, 2), f"{node.name} says that it helped again")
    said = repaired.told(cluster, node.name)
    print("\n".join(f"{reason}: {message}" for reason, message in said))
    assert "RepairFailed" not in {reason for reason, _ in said}
    for name in others:
        assert repaired.runs(cluster.nodes[name]) == [("terway_dirs", "done")]


def transition(node: Node) -> float:
    """When the condition became what it is, in seconds since 1970."""
    return datetime.fromisoformat(shipped.condition(node.object())["lastTransitionTime"]).timestamp()


def mended(cluster: Cluster, node: Node) -> list[str]:
    """The legs from a fault to the job that runs. None of our own waits is cut short by the quick configuration."""
    began, fault_at = time.monotonic(), time.time()
    legs: list[str] = []

    def leg(what: str, holds: Callable[[], object]) -> None:
        until(holds, what)
        legs.append(f"{time.monotonic() - began:5.1f} s {what}")

    before = len(repaired.runs(node))
    repaired.lose_records(node)
    leg("the condition is False", lambda: shipped.condition(node.object())["status"] == "False")
    leg("our taint is there", lambda: shipped.UNHEALTHY in shipped.taints(node.object()))
    repaired.waiting_pod(cluster, "late")
    closed_at = transition(node)
    leg("it has the slot", lambda: repaired.holder(cluster, "nodeprep-slot-0") == node.name)
    assert repaired.phase(cluster, "late") == "Pending"
    leg("the play has ended", lambda: len(repaired.runs(node)) > before)
    leg("the gate is open", lambda: shipped.is_ready(node))
    play, end = (one["at"] for one in remediated.records(node)[-2:])
    assert play - fault_at >= SHIPPED_WAITS.conviction
    assert play - closed_at >= SHIPPED_WAITS.settled  # our taint comes with the condition or after it
    assert transition(node) + 1.0 - end >= SHIPPED_WAITS.passes  # a Node's times are whole seconds
    leg("the job's pod runs", lambda: runs(cluster, "late"))
    leg("the slot is given back", lambda: not repaired.holder(cluster, "nodeprep-slot-0"))
    return legs
