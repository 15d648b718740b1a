"""From a link that goes down to the taint, by the default confirmation of failures, as the API server has it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.published_node import DOWN, GATE_FILE, UNHEALTHY, UP, published, seconds
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

FLAPS, MOST = 5, 20  # at least, and until one is soon: a machine that stands still may make many late
CONFIRMED = 0.45  # seconds that two looks take which confirmation wants half a second apart: nothing comes before
# Seconds for the quickest from the gate file that is gone, by which a slow machine shows how slow it is, to the taint.
# tests/bench/taint.py measures all of it, on a machine that does nothing else.
WRITTEN = 1.0


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


def test_a_taint_comes_soon_and_never_unconfirmed(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    closed, tainted = list[float](), list[float]()
    with published(cluster, here.node, tmp_path, "latency") as one:
        while len(tainted) < FLAPS or (len(tainted) < MOST and quickest(closed, tainted) >= WRITTEN):
            one.ready()
            begun = time.monotonic()
            with here.fault(DOWN, UP):
                until(lambda: not one.agent.gates(), "gate file that is gone")
                closed.append(seconds(begun))
                until(lambda: UNHEALTHY in one.taints(), "taint")
                tainted.append(seconds(begun))
                one.closed()
    print(f"link down to gate file and taint: {', '.join(map('{:.2f} {:.2f}'.format, closed, tainted))} s")
    assert min(closed) < GATE_FILE
    assert quickest(closed, tainted) < WRITTEN
    assert min(tainted) >= CONFIRMED


def quickest(closed: list[float], tainted: list[float]) -> float:
    """Seconds from a gate file that is gone to the taint."""
    return min(taint - gate_file for taint, gate_file in zip(tainted, closed, strict=True))
