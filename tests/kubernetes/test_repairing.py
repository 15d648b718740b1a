"""Mode repair from the shipped manifests on a real node: a fault is mended, and what must not run does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubernetes import repaired, shipped
from tests.rigs import started
from tests.rigs.cluster import Cluster, Node
from tests.rigs.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with started.cluster(nodes=1) as made:
        yield made


@pytest.fixture(scope="module")
def node(cluster: Cluster, image: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Node:
    repaired.install(cluster, image, tmp_path_factory.mktemp("manifests") / "own")
    return cluster.nodes["n1"]


@pytest.fixture(autouse=True)
def restored(node: Node) -> Iterator[None]:
    yield
    repaired.whole(node)


def test_a_fault_is_mended_and_the_job_that_waited_runs(cluster: Cluster, node: Node) -> None:
    began = time.monotonic()
    legs: list[str] = []

    def leg(what: str) -> None:
        legs.append(f"{time.monotonic() - began:5.1f} s {what}")

    repaired.lose_records(node)
    until(lambda: shipped.condition(node.object())["status"] == "False", "the condition says so")
    leg("condition False")
    until(lambda: shipped.UNHEALTHY in shipped.taints(node.object()), "the taint")
    leg("taint")
    repaired.waiting_pod(cluster, "trainer")
    until(lambda: repaired.holder(cluster, "nodeprep-slot-0") == "n1", "it has the slot")
    leg("slot")
    assert repaired.phase(cluster, "trainer") == "Pending"
    until(lambda: repaired.runs(node) == [("terway_dirs", "done")], "the play")
    leg("play ended")
    until(lambda: shipped.is_ready(node), "the gate is open again")
    leg("gate open")
    until(lambda: repaired.phase(cluster, "trainer") == "Running", "the job's pod runs")
    leg("pod runs")
    until(lambda: not repaired.holder(cluster, "nodeprep-slot-0"), "the slot is given back")
    print("\n".join(legs))
    said = repaired.told(cluster, "n1")
    print("\n".join(f"{reason}: {message}" for reason, message in said))
    assert [reason for reason, _ in said if reason != "RepairStep"] == ["RepairPlanned", "RepairHelped"]
