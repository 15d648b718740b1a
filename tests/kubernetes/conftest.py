"""A cluster with two real nodes for each module here, which may do to it what it likes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Cluster(nodes=2))
        except CannotStart as reason:
            cannot_start(reason)
        yield made
