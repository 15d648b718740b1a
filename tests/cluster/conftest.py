"""One API server for all tests here; each takes names of its own for what it writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.known_node import SHARED_ENIS, Known, known
from tests.rigs import started
from tests.rigs.cluster import Cluster
from tests.rigs.netns_records import shared
from tests.rigs.scratch import in_memory


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with started.cluster() as made:
        yield made


@pytest.fixture(scope="session")
def apart() -> Iterator[Cluster]:
    """A server for agents that repair: they have the fleet's Leases there, of which other tests make others."""
    with started.cluster() as made:
        yield made


@pytest.fixture(scope="module")
def shared_node(cluster: Cluster) -> Iterator[Known]:
    """A node whose pods share ENIs, with all its records."""
    with known(cluster, SHARED_ENIS, shared) as one:
        yield one


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as directory:
        yield directory
