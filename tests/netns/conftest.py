"""Where agents keep what they keep, and a node whose kubelet tells the way to its API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.absent import cannot_start
from tests.rigs.netns import Node
from tests.rigs.netns_node import KUBECONFIG, Shape, Unavailable
from tests.rigs.scratch import in_memory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as directory:
        yield directory


@pytest.fixture(scope="module")
def node_to_mend() -> Iterator[Node]:
    """Its kubelet's file tells where the API server is: no repair may cut that way."""
    try:
        with Node(Shape(enis=2, pods=4)) as made:
            made.run("mkdir", "-p", "/etc/kubernetes")
            made.run("tee", "/etc/kubernetes/kubelet.conf", text=KUBECONFIG)
            yield made
    except Unavailable as reason:
        cannot_start(reason)
