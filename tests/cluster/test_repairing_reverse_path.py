"""A setting that breaks the way back of a pod's packets is mended unattended: now, and for the next boot.

The node's pods share an ENI. With strict filtering the kernel drops what comes for them by it, and a job hangs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import repaired_node
from tests.cluster.published_node import UNHEALTHY
from tests.rigs.cluster import Cluster
from tests.rigs.netns import Node
from tests.rigs.waiting import until

FILTER = "net.ipv4.conf.all.rp_filter"
BOOT = "/etc/sysctl.d/zz-nodeprep-terway.conf"
PROFILE = """apiVersion: nodeprep.io/v1
kind: Profile
name: links
gates: [route.reverse-path]
"""


@pytest.fixture(scope="module")
def cluster(apart: Cluster) -> Cluster:
    return apart


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with repaired_node.terway_nodes(1) as (made,):
        yield made


def test_strict_filtering_is_taken_back(cluster: Cluster, node: Node, tmp_path: Path) -> None:
    with (
        repaired_node.fleet(cluster),
        repaired_node.repaired(cluster, node, tmp_path, "reverse-path", profile=PROFILE) as one,
    ):
        assert node.run("cat", f"/proc/sys/{FILTER.replace('.', '/')}").stdout == "0\n"
        node.sysctl(FILTER, 1)
        until(lambda: UNHEALTHY in one.taints(), "the fault closes the gate")
        until(one.is_open, "the node is open again")
        assert node.run("cat", f"/proc/sys/{FILTER.replace('.', '/')}").stdout == "0\n"
        assert f"{FILTER} = 0" in node.run("cat", BOOT).stdout
        assert one.outcomes()[-1] == "released"
        assert {record["remedy"] for record in one.records()} == {"sysctl_terway"}
