"""A cluster for a fixture. If it cannot start, its tests skip or fail (tests/rigs/absent.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster


@contextmanager
def cluster(nodes: int = 0) -> Iterator[Cluster]:
    """A cluster with so many native nodes; with 0, the API server alone."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Cluster(nodes=nodes))
        except CannotStart as reason:
            cannot_start(reason)
        yield made
