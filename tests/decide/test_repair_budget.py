"""How often a fault may still be tried: by boot id and wall time, whatever clocks do."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.agent_state import PastAttempt
from nodeprep.decide import fault_confirmation, repair_budget
from nodeprep.decide.repair_budget import AttemptOutcome
from nodeprep.decide.repair_policy import RepairPolicy
from nodeprep.model import Remedy
from nodeprep.values import replace
from tests.agent_state_values import attempt, past
from tests.repair_values import LINK_UP, NOW, WALL, clock, unhealthy, wrong

POLICY = RepairPolicy()
DAY = repair_budget.DAY_SECONDS
OTHER = "another boot"


def tried(outcome: str, ago: float, **different: Any) -> PastAttempt:
    """A try of link_up that ended so many seconds ago."""
    at = {"id": f"{outcome}-{ago:g}", "at": NOW - ago, "wall": WALL - ago}
    return past(outcome, **(at | different))


AGES = [
    # the attempt, clock, age
    (tried("unreleased", 100.0), clock(), 100.0),
    (tried("unreleased", -5.0), clock(), 0.0),  # a time to come in this boot is a damaged one
    (tried("unreleased", 100.0, wall=WALL + 9e9), clock(), 100.0),  # within a boot wall time does not count
    (tried("unreleased", 5000.0, boot_id=OTHER), clock(), 5000.0),
    (tried("unreleased", 20.0, boot_id=OTHER), clock(), 1000.0),  # this boot lasts longer than that
    (tried("unreleased", 0.0, boot_id=OTHER, wall=WALL + 3600), clock(), 1000.0),  # the clock was set back since
    (tried("unreleased", 0.0, boot_id=OTHER, wall=3600.0), clock(), 1000.0),  # no clock was set then
    (tried("unreleased", 0.0, boot_id=OTHER, wall=math.nan), clock(), 1000.0),
    (tried("unreleased", 0.0, boot_id=OTHER), clock(wall=60.0), 1000.0),  # none is set now
]


@pytest.mark.parametrize(("one", "told", "age"), AGES)
def test_an_attempt_is_so_old(one: PastAttempt, told: repair_budget.BudgetClock, age: float) -> None:
    assert repair_budget.age(one, told) == age


BUDGETS = [
    # attempts, tries, spent, seconds until the next
    ((), 0, False, 0.0),
    ((tried("unreleased", 10.0),), 1, False, 50.0),
    ((tried("unreleased", 60.0),), 1, False, 0.0),
    ((tried("unreleased", 900.0), tried("unreleased", 10.0)), 2, False, 290.0),
    ((tried("unreleased", 900.0), tried("unreleased", 600.0), tried("unreleased", 10.0)), 3, True, 1790.0),
    ((tried("cut-off", 10.0),), 1, False, 50.0),
    ((tried("what a newer version says", 10.0),), 1, False, 50.0),
    ((tried("released", 10.0),), 1, False, 0.0),
    ((tried("changed", 10.0),), 1, False, 0.0),
    ((tried("refused", 10.0),), 0, False, 0.0),
    ((tried("unreleased", 100.0), tried("refused", 10.0)), 1, False, 0.0),
    ((tried("unreleased", 900.0), tried("released", 300.0), tried("unreleased", 10.0)), 3, True, 50.0),
    (tuple(tried("released", ago) for ago in (900.0, 600.0, 300.0)), 3, True, 0.0),
    (tuple(tried("released", ago, boot_id=OTHER) for ago in (DAY, DAY + 1, 300.0)), 1, False, 0.0),
    # what never helped stays spent, however old; what once helped does not
    (tuple(tried("unreleased", ago, boot_id=OTHER) for ago in (9 * DAY, 8 * DAY, 7 * DAY)), 3, True, 0.0),
    (
        (*(tried("unreleased", ago, boot_id=OTHER) for ago in (9 * DAY, 8 * DAY)), tried("released", 7 * DAY)),
        0,
        False,
        0.0,
    ),
    # others' tries
    (tuple(tried("unreleased", ago, reason="NotActive") for ago in (9.0, 8.0, 7.0)), 0, False, 0.0),
    (tuple(tried("unreleased", ago, place="0000:ff:00.0") for ago in (9.0, 8.0, 7.0)), 0, False, 0.0),
    (tuple(tried("unreleased", ago, port=2) for ago in (9.0, 8.0, 7.0)), 0, False, 0.0),
    (tuple(tried("unreleased", ago, remedy="driver_bind") for ago in (9.0, 8.0, 7.0)), 0, False, 0.0),
    (tuple(tried("released", ago, place=f"{ago}") for ago in range(23)), 0, False, 0.0),
    (tuple(tried("released", ago, place=f"{ago}") for ago in range(24)), 0, True, 0.0),
]


@pytest.mark.parametrize(("attempts", "tries", "spent", "wait"), BUDGETS)
def test_a_fault_has_left(attempts: tuple[PastAttempt, ...], tries: int, *, spent: bool, wait: float) -> None:
    left = repair_budget.budget(unhealthy(attempts=attempts), wrong(), POLICY, clock())
    assert (left.tries, left.spent) == (tries, spent)
    assert left.until - NOW == pytest.approx(wait)


def test_back_off_without_numbers_waits_for_nothing() -> None:
    state = unhealthy(attempts=(tried("unreleased", 1.0),))
    assert repair_budget.budget(state, wrong(), RepairPolicy(back_off=()), clock()).until == NOW


def test_the_node_is_spent_when_every_mendable_fault_is() -> None:
    """One lying playbook must not keep others from being mended."""
    spent = unhealthy(attempts=tuple(tried("unreleased", ago) for ago in (900.0, 600.0, 10.0)))
    other = wrong(Remedy("driver_bind"), check="pci.driver-bound")
    beyond = wrong(None, check="plugin.allocatable")
    latched = wrong(place="0000:ff:00.0", latched="3 times")
    assert repair_budget.spent(spent, (wrong(), beyond, latched), POLICY, clock())
    assert not repair_budget.spent(spent, (wrong(), other), POLICY, clock())
    assert not repair_budget.spent(spent, (beyond,), POLICY, clock())


RECORDED = [
    # outcome, helped, unhelpful, the approval used
    (AttemptOutcome.RELEASED, {"link_up": WALL}, {}, "mine"),
    (AttemptOutcome.CHANGED, {}, {}, "mine"),  # a port that was down may be gone now
    (AttemptOutcome.UNRELEASED, {}, {"link_up": WALL}, "mine"),
    (AttemptOutcome.CUT_OFF, {}, {}, "mine"),
    (AttemptOutcome.REFUSED, {}, {}, "before"),
]


@pytest.mark.parametrize(("outcome", "helped", "unhelpful", "approved"), RECORDED)
def test_an_end_is_recorded(outcome: AttemptOutcome, helped: Any, unhelpful: Any, approved: str) -> None:
    state = unhealthy(wrong(), attempt=attempt("validating", approval="mine"), approved="before")
    after = repair_budget.recorded(
        state, attempt("validating", approval="mine"), outcome, clock(), refused="word", why="words"
    )
    assert after.attempt is None
    assert (after.helped, after.unhelpful) == (helped, unhelpful)
    assert (after.approved, after.slot) == (approved, "nodeprep-slot-0")
    (one,) = after.attempts
    assert (one.outcome, one.at, one.wall, one.state_before) == (outcome, NOW, WALL, "Unhealthy")
    assert (one.refused, one.why) == ("word", "words")
    assert repair_budget.fault(one) == repair_budget.fault(wrong())


@pytest.mark.parametrize(
    ("end", "is_blamed"), [("done", True), ("lost", True), ("interrupted", True), ("unheard", False)]
)
def test_only_a_run_that_never_began_says_nothing_about_its_remedy(end: str, *, is_blamed: bool) -> None:
    """Who was cut off may have been killed by what the remedy did."""
    run = attempt("validating", end=end)
    after = repair_budget.recorded(unhealthy(attempt=run), run, AttemptOutcome.UNRELEASED, clock())
    told = {"link_up": WALL} if is_blamed else {}
    assert (after.unhelpful, [one.outcome for one in after.attempts]) == (told, ["unreleased"])


def test_a_remedy_that_helps_again_is_not_unhelpful() -> None:
    state = unhealthy(unhelpful={"link_up": WALL - 9, "mtu": WALL - 9}, attempt=attempt("validating"))
    after = repair_budget.recorded(state, attempt("validating"), AttemptOutcome.RELEASED, clock())
    assert (after.unhelpful, after.helped) == ({"mtu": WALL - 9}, {"link_up": WALL})
    changed = repair_budget.recorded(state, attempt("validating"), AttemptOutcome.CHANGED, clock())
    assert changed.unhelpful == state.unhelpful, "another reason tells nothing"


def test_of_refusals_of_one_fault_the_newest_is_kept() -> None:
    state = unhealthy(
        attempts=(tried("refused", 60.0), tried("refused", 50.0, place="other"), tried("unreleased", 40.0))
    )
    after = repair_budget.recorded(state, attempt(id="new"), AttemptOutcome.REFUSED, clock(), refused="in-use")
    assert [one.id for one in after.attempts] == ["refused-50", "unreleased-40", "new"]
    refused = repair_budget.refusal(after, wrong())
    assert refused is not None
    assert refused.refused == "in-use"
    assert repair_budget.refusal(unhealthy(attempts=(tried("unreleased", 1.0),)), wrong()) is None


def test_old_attempts_go_but_for_failures_in_a_row() -> None:
    old = (
        tried("unreleased", 9 * DAY, boot_id=OTHER, place="fails still"),
        tried("unreleased", 9 * DAY, boot_id=OTHER, place="helped since", id="gone 1"),
        tried("released", 8 * DAY, boot_id=OTHER, place="helped since", id="gone 2"),
        tried("refused", 8 * DAY, boot_id=OTHER, id="gone 3"),
        tried("released", 5.0, place="today"),
    )
    kept = repair_budget.with_attempt(old, tried("released", 0.0), clock())
    assert [one.place for one in kept[:-1]] == ["fails still", "today"]


def test_a_reset_gives_all_tries_back_and_ends_no_attempt() -> None:
    state = unhealthy(wrong(), attempts=(tried("unreleased", 1.0),), attempt=attempt(), unhelpful={"link_up": WALL})
    after = fault_confirmation.reset(state, NOW)
    assert (after.attempts, after.attempt, after.unhelpful) == ((), attempt(), {"link_up": WALL})


TRIES = st.lists(
    st.tuples(
        st.sampled_from([*AttemptOutcome]),
        st.sampled_from(["NoSignal", "NotActive"]),
        st.floats(0, 3 * DAY),  # from the one before
        st.booleans(),  # a boot between
        st.floats(-DAY, DAY),  # by which the wall clock is set anew at the boot
    ),
    max_size=24,
)


@given(TRIES)
def test_no_history_lets_a_fault_be_tried_more_than_three_times_a_day(
    history: list[tuple[AttemptOutcome, str, float, bool, float]],
) -> None:
    """By true time, wherever a wall clock was set back to: only one that runs ahead over a boot ages attempts."""
    state, boot, now, true, ahead = unhealthy(), 0, 100.0, 0.0, 0.0
    begun: dict[str, list[float]] = {"NoSignal": [], "NotActive": []}
    for number, (outcome, reason, pause, boots, set_to) in enumerate(history):
        true += pause
        boot, now = (boot + 1, 100.0) if boots else (boot, now + pause)
        ahead = min(set_to, ahead) if boots else ahead
        told = clock(now, WALL + true + ahead, f"boot-{boot}")
        fault = wrong(reason=reason)
        if repair_budget.budget(state, fault, POLICY, told).spent:
            continue
        if outcome is not AttemptOutcome.REFUSED:
            begun[reason].append(true)
        run = attempt(id=f"{number}", reason=reason, boot_id=told.boot_id, step_since=now, wall=told.wall)
        state = repair_budget.recorded(state, run, outcome, told)
    for times in begun.values():
        assert all(later - first >= DAY - 1 for first, later in zip(times, times[POLICY.tries :], strict=False))


def test_an_attempt_of_a_former_boot_counts_as_a_failure() -> None:
    gone = repair_budget.cut_off(attempt(boot_id=OTHER, wall=WALL - 10, step_since=5.0))
    state = unhealthy(attempts=(gone,))
    left = repair_budget.budget(state, wrong(LINK_UP), POLICY, clock(now=20.0, wall=WALL))
    assert (left.tries, left.until) == (1, 60.0)
    assert replace(gone, id="") != gone
