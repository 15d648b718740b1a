"""Histograms of what only a sequence of rounds tells."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from nodeprep.agent_state import NodeState
from nodeprep.publish import transition_totals
from nodeprep.publish.transition_totals import (
    CLOSED_BOUNDS_SECONDS,
    DETECTION_BOUNDS_SECONDS,
    ClosurePhase,
    Histogram,
    TransitionTotals,
)
from tests.agent_state_values import case
from tests.status_values import status

BOOT, READY, SICK = NodeState.BOOTSTRAP, NodeState.READY, NodeState.UNHEALTHY


def after(*rounds: dict[str, Any]) -> TransitionTotals:
    seen = [None, *(status(**different) for different in rounds)]
    totals = TransitionTotals()
    for before, now in pairwise(seen):
        assert now is not None
        totals = totals.observe(before, now)
    return totals


def said(found: Histogram) -> tuple[int, float]:
    return sum(found.counts), found.total


NEW, OLD = case(opened_at=99.5, convicted_at=None), case(opened_at=99.5, convicted_at=100.0)
AGAIN = case(opened_at=120.0, convicted_at=121.0)
OTHER = case(opened_at=200.0, convicted_at=260.0, port=2)
DETECTED: list[tuple[list[dict[str, Any]], tuple[int, float]]] = [
    # cases of each round                                             number, sum
    ([{}, {"cases": (NEW,)}], (0, 0.0)),
    ([{}, {"cases": (NEW,)}, {"cases": (OLD,)}], (1, 0.5)),
    ([{}, {"cases": (OLD,)}], (1, 0.5)),
    ([{}, {"cases": (OLD,)}, {"cases": (OLD,)}], (1, 0.5)),
    ([{}, {"cases": (OLD,)}, {"cases": (OLD, OTHER)}], (2, 60.5)),
    ([{}, {"cases": (OLD,)}, {}, {"cases": (AGAIN,)}], (2, 1.5)),
    ([{}, {"cases": (OLD,)}, {"cases": (AGAIN,)}], (2, 1.5)),
    ([{"cases": (OLD,)}], (0, 0.0)),
    ([{"cases": (OLD,)}, {"cases": (OLD,)}], (0, 0.0)),
    ([{}, {"cases": (case(opened_at=101.0, convicted_at=100.0),)}], (1, 0.0)),
]


@pytest.mark.parametrize(("rounds", "says"), DETECTED)
def test_detection(rounds: list[dict[str, Any]], says: tuple[int, float]) -> None:
    assert said(after(*rounds).detection) == says


CLOSURES: list[tuple[list[tuple[NodeState, float]], tuple[int, float], tuple[int, float]]] = [
    # state and since when, of each round                               bootstrap    unhealthy
    ([(READY, 50.0), (READY, 50.0)], (0, 0.0), (0, 0.0)),
    ([(BOOT, 10.0), (BOOT, 10.0)], (0, 0.0), (0, 0.0)),
    ([(BOOT, 10.0), (READY, 50.0), (READY, 50.0)], (1, 40.0), (0, 0.0)),
    ([(READY, 50.0), (SICK, 60.0), (READY, 95.0)], (0, 0.0), (1, 35.0)),
    ([(SICK, 60.0), (READY, 95.0)], (0, 0.0), (1, 35.0)),
    ([(READY, 50.0), (SICK, 60.0), (NodeState.AWAITING_HUMAN, 70.0), (READY, 700.0)], (0, 0.0), (1, 640.0)),
    (
        [(BOOT, 10.0), (NodeState.REPAIRING, 40.0), (NodeState.VALIDATING, 50.0), (BOOT, 60.0), (READY, 90.0)],
        (1, 80.0),
        (0, 0),
    ),
    ([(NodeState.REPAIRING, 40.0), (READY, 90.0)], (0, 0.0), (1, 50.0)),
    ([(BOOT, 10.0), (READY, 50.0), (BOOT, 60.0), (READY, 91.0)], (2, 71.0), (0, 0.0)),
    ([(BOOT, 10.0), (READY, 5.0)], (1, 0.0), (0, 0.0)),
]


@pytest.mark.parametrize(("rounds", "bootstrap", "unhealthy"), CLOSURES)
def test_closures(rounds: list[tuple[NodeState, float]], bootstrap: Any, unhealthy: Any) -> None:
    closed = dict(after(*({"state": state, "since": since} for state, since in rounds)).closed)
    assert (said(closed[ClosurePhase.BOOTSTRAP]), said(closed[ClosurePhase.UNHEALTHY])) == (bootstrap, unhealthy)


def test_a_value_at_a_bound_is_in_its_bucket_and_one_above_all_in_the_last() -> None:
    found = (
        transition_totals.empty_histogram((1.0, 2.0)).with_value(1.0).with_value(1.1).with_value(2.0).with_value(3.0)
    )
    assert found.buckets() == [("1.0", 1.0), ("2.0", 3.0), ("+Inf", 4.0)]
    assert found.total == pytest.approx(7.1)


@pytest.mark.parametrize("bounds", [DETECTION_BOUNDS_SECONDS, CLOSED_BOUNDS_SECONDS])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    assert sorted(set(bounds)) == list(bounds)
