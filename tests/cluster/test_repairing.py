"""An agent in mode repair before a real API server: what it mends, in which order, and what holds it back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import repaired_node
from tests.cluster.published_node import UNHEALTHY
from tests.cluster.repaired_node import Repaired
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=2, pods=2)) as one:
        yield one


@pytest.fixture
def one(cluster: Cluster, here: Checked, tmp_path: Path) -> Iterator[Repaired]:
    with (
        repaired_node.fleet(cluster),
        repaired_node.repaired(cluster, here.node, tmp_path, f"repaired-{time.monotonic_ns()}") as made,
    ):
        yield made


def test_a_link_that_is_down_is_set_up_again(cluster: Cluster, one: Repaired) -> None:
    one.down()
    until(lambda: UNHEALTHY in one.taints(), "the taint")
    until(lambda: repaired_node.holder(cluster) == one.name, "the slot")
    until(one.is_up, "the play")
    one.mended()
    until(lambda: repaired_node.holder(cluster) == "", "the slot is given back")
    assert one.calls() == ["eth1"]
    assert one.outcomes() == ["released"]
    assert "helped" in one.note()
    print("\n".join(f"{reason} {message}" for reason, message in one.told()))
