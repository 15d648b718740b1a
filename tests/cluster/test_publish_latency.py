"""From a link that goes down to the taint, by the default damping of failures, as the API server has it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.published_node import DOWN, UNHEALTHY, UP, published, seconds
from tests.rigs.agent import until
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape

FLAPS = 5
CONFIRMED = 0.45  # seconds that two looks take which damping wants half a second apart: nothing comes before
LIMIT = 1.5  # seconds for the quickest; tests/bench/taint.py measures all, on a machine that does nothing else

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


def test_a_taint_comes_soon_and_never_unconfirmed(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    took = []
    with published(cluster, here.node, tmp_path, "latency") as one:
        for _ in range(FLAPS):
            one.ready()
            begun = time.monotonic()
            with here.fault(DOWN, UP):
                until(lambda: UNHEALTHY in one.taints(), "taint")
                took.append(seconds(begun))
                one.closed()
    print(f"link down to taint: {', '.join(f'{each:.2f}' for each in sorted(took))} s")
    assert min(took) < LIMIT
    assert min(took) >= CONFIRMED
