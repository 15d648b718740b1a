"""Histograms of what only a sequence of rounds tells."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from nodeprep.agent_state import NodeState
from nodeprep.decide.repair_budget import AttemptOutcome
from nodeprep.publish import transition_totals
from nodeprep.publish.transition_totals import (
    CLOSED_BOUNDS_SECONDS,
    DETECTION_BOUNDS_SECONDS,
    REPAIR_BOUNDS_SECONDS,
    ClosurePhase,
    Histogram,
    TransitionTotals,
)
from nodeprep.values import replace
from tests.agent_state_values import attempt, case, past
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


def tried(outcome: str = "released", at: float = 150.0, **different: Any) -> Any:
    return past(outcome, at=at, **({"boot_id": "boot"} | different))


def under_way(step: str = "asked", since: float = 110.0, **different: Any) -> Any:
    return attempt(step, **({"id": "b" * 32, "boot_id": "boot", "step_since": since} | different))


REPAIRED: list[tuple[NodeState, tuple[Any, ...], ClosurePhase]] = [
    # closed by, attempts when it opens, counted as
    (SICK, (tried(),), ClosurePhase.REPAIR),
    (BOOT, (tried(),), ClosurePhase.REPAIR),
    (SICK, (tried("unreleased"),), ClosurePhase.REPAIR),  # a human came after it; also where it did not help
    (SICK, (tried("cut-off"),), ClosurePhase.REPAIR),
    (SICK, (tried(at=100.0),), ClosurePhase.REPAIR),
    (SICK, (tried(at=99.9),), ClosurePhase.UNHEALTHY),  # of an earlier closure
    (SICK, (tried(boot_id="before"),), ClosurePhase.UNHEALTHY),
    (SICK, (tried("refused"),), ClosurePhase.UNHEALTHY),
    (BOOT, (tried("refused"),), ClosurePhase.BOOTSTRAP),
    (SICK, (tried("refused", at=160.0), tried(id="c")), ClosurePhase.REPAIR),
]


@pytest.mark.parametrize(("state", "attempts", "phase"), REPAIRED)
def test_a_closure_in_which_a_remedy_ran_is_a_repair(
    state: NodeState, attempts: tuple[Any, ...], phase: ClosurePhase
) -> None:
    closed = dict(
        after(
            {"state": state, "since": 100.0},
            {"state": NodeState.VALIDATING, "since": 140.0, "attempts": attempts},
            {"since": 190.0, "attempts": attempts},
        ).closed
    )
    assert {one: said(found) for one, found in closed.items() if found.has_values} == {phase: (1, 90.0)}


RUNS: list[tuple[list[dict[str, Any]], dict[tuple[str, str], int], tuple[int, float]]] = [
    # attempts of each round                                             runs, how long they took
    ([{}, {"attempt": under_way()}], {}, (0, 0.0)),
    ([{"attempt": under_way()}, {"attempts": (tried(),)}], {("link_up", "released"): 1}, (1, 40.0)),
    ([{}, {"attempt": under_way("running")}, {"attempts": (tried(),)}], {("link_up", "released"): 1}, (1, 40.0)),
    # Only the first sight of it counts, and not the beginning of a later step.
    (
        [{"attempt": under_way()}, {"attempt": under_way("validating", 120.0)}, {"attempts": (tried("changed"),)}],
        {("link_up", "changed"): 1},
        (1, 40.0),
    ),
    # An agent that starts during the validation goes by the wall clock: 1.75e9 now, at 1000 s.
    (
        [{"attempt": under_way("validating", 980.0, wall=1.75e9 - 60)}, {"attempts": (tried("unreleased", 1060.0),)}],
        {("link_up", "unreleased"): 1},
        (1, 120.0),
    ),
    # A clock that was set meanwhile: no longer ago than the play may take, and not after its end.
    (
        [{"attempt": under_way("validating", 980.0, wall=0.0)}, {"attempts": (tried("unreleased", 1060.0),)}],
        {("link_up", "unreleased"): 1},
        (1, 200.0),
    ),
    (
        [{"attempt": under_way("validating", 980.0, wall=1.8e9)}, {"attempts": (tried("unreleased", 1060.0),)}],
        {("link_up", "unreleased"): 1},
        (1, 80.0),
    ),
    ([{"attempt": under_way()}, {"attempts": (tried("refused"),)}], {("link_up", "refused"): 1}, (0, 0.0)),
    ([{"attempt": under_way()}, {"attempts": (tried("cut-off"),)}], {("link_up", "cut-off"): 1}, (0, 0.0)),
    ([{"attempt": under_way(id="other")}, {"attempts": (tried(),)}], {("link_up", "released"): 1}, (0, 0.0)),
    ([{"attempts": (tried(),)}, {"attempts": (tried(),)}], {}, (0, 0.0)),  # known at the start
    ([{}, {"attempts": (tried(),)}, {"attempts": ()}, {}], {("link_up", "released"): 1}, (0, 0.0)),
    (
        [{}, {"attempts": (tried(), tried("unreleased", id="c", remedy="mtu"))}, {"attempts": (tried(id="d"),)}],
        {("link_up", "released"): 2, ("mtu", "unreleased"): 1},
        (0, 0.0),
    ),
]


@pytest.mark.parametrize(("rounds", "runs", "took"), RUNS)
def test_attempts_that_are_over(rounds: list[dict[str, Any]], runs: Any, took: tuple[int, float]) -> None:
    totals = after(*rounds)
    assert (totals.runs, said(totals.repairs)) == (runs, took)


def test_each_outcome_is_counted_and_those_that_were_judged_are_timed() -> None:
    for outcome in AttemptOutcome:
        totals = after({"attempt": under_way()}, {"attempts": (tried(outcome),)})
        assert totals.runs == {("link_up", outcome): 1}
        assert totals.repairs.has_values == (outcome in {"released", "changed", "unreleased"})


def test_what_a_reboot_ended_is_counted_by_the_start_after_it() -> None:
    known = status()
    attempts = (tried("released", id="a" * 32), tried("cut-off", id="c" * 32))
    found = replace(known, agent_state=replace(known.agent_state, attempts=attempts))
    ends = replace(found, cut_off=("c" * 32,))
    assert TransitionTotals().observe(None, found).runs == {}
    totals = TransitionTotals().observe(None, ends)
    assert totals.runs == {("link_up", "cut-off"): 1}
    assert totals.observe(ends, ends).runs == totals.runs


def test_a_value_at_a_bound_is_in_its_bucket_and_one_above_all_in_the_last() -> None:
    found = (
        transition_totals.empty_histogram((1.0, 2.0)).with_value(1.0).with_value(1.1).with_value(2.0).with_value(3.0)
    )
    assert found.buckets() == [("1.0", 1.0), ("2.0", 3.0), ("+Inf", 4.0)]
    assert found.total == pytest.approx(7.1)


@pytest.mark.parametrize("bounds", [DETECTION_BOUNDS_SECONDS, CLOSED_BOUNDS_SECONDS, REPAIR_BOUNDS_SECONDS])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    assert sorted(set(bounds)) == list(bounds)
