"""One API server for all tests here; each takes names of its own for what it writes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    try:
        made = Cluster()
    except CannotStart as reason:
        cannot_start(reason)
    with made:
        yield made
