"""A cluster or a guest for a fixture. If it cannot start, its tests skip or fail (tests/rigs/absent.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from daemonset.image.debian import CannotBuild
from tests.rigs import images, lab, rdma_plugin
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster
from tests.rigs.guest import Guest

BOOTSTRAP = "nodeprep.io/bootstrap=:NoSchedule"


@contextmanager
def cluster(nodes: int = 0) -> Iterator[Cluster]:
    """A cluster with so many native nodes; with 0, the API server alone."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Cluster(nodes=nodes))
        except CannotStart as reason:
            cannot_start(reason)
        yield made


@contextmanager
def guest(kinds: Sequence[str]) -> Iterator[Guest]:
    """A node that just registered in a cluster of its own: no agent, no plugin.

    On its disk are the images of the plugin and of these kinds of nodeprep (tests/rigs/images.py).
    """
    with ExitStack() as stack:
        try:
            archives = [rdma_plugin.image(), *map(images.archive, kinds)]
            cluster = stack.enter_context(Cluster(controllers=True))
            made = stack.enter_context(Guest(cluster, "guest", taints=[BOOTSTRAP], images=archives))
        except (CannotStart, lab.CannotStart, CannotBuild) as reason:
            cannot_start(reason)
        yield made
