"""One API server for all tests here; each takes names of its own for what it writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.cluster.known_node import SHARED_ENIS, Known, known
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster
from tests.rigs.netns_records import shared


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Cluster())
        except CannotStart as reason:
            cannot_start(reason)
        yield made


@pytest.fixture(scope="module")
def shared_node(cluster: Cluster) -> Iterator[Known]:
    """A node whose pods share ENIs, with all its records."""
    with known(cluster, SHARED_ENIS, shared) as one:
        yield one
