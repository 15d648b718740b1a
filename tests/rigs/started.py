"""A cluster for a fixture; where it cannot start, the tests that want it say so (tests/rigs/absent.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster


@contextmanager
def cluster(nodes: int = 0) -> Iterator[Cluster]:
    """With so many native nodes; without one, its API server alone."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Cluster(nodes=nodes))
        except CannotStart as reason:
            cannot_start(reason)
        yield made
