"""A cluster or a guest for a fixture. If it cannot start, its tests skip or fail (tests/rigs/absent.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

from daemonset.image.debian import CannotBuild
from tests.rigs import images, lab, rdma_plugin
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster
from tests.rigs.guest import Guest

BOOTSTRAP = "nodeprep.io/bootstrap=:NoSchedule"
T = TypeVar("T")


@contextmanager
def or_absent(rig: AbstractContextManager[T]) -> Iterator[T]:
    """What a rig gives."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(rig)
        except (CannotStart, lab.CannotStart, CannotBuild) as reason:
            cannot_start(reason)
        yield made


def cluster(nodes: int = 0) -> AbstractContextManager[Cluster]:
    """A cluster with so many native nodes; with 0, the API server alone."""
    return or_absent(_cluster(nodes))


@contextmanager
def _cluster(nodes: int) -> Iterator[Cluster]:
    with Cluster(nodes=nodes) as made:
        yield made


def guest(kinds: Sequence[str], processors: int = 1) -> AbstractContextManager[Guest]:
    """A node that just registered in a cluster of its own: no agent, no plugin.

    On its disk are the images of the plugin and of these kinds of nodeprep (tests/rigs/images.py).
    """
    return or_absent(_guest(kinds, processors))


@contextmanager
def _guest(kinds: Sequence[str], processors: int) -> Iterator[Guest]:
    archives = [rdma_plugin.image(), *map(images.archive, kinds)]
    with (
        Cluster(controllers=True) as made,
        Guest(made, "guest", taints=[BOOTSTRAP], images=archives, processors=processors) as there,
    ):
        yield there
