"""What only a new version sees: it does not close the gate for ten minutes, and a rollout can see it."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.decide.damping import DampingPolicy, remember
from nodeprep.decide.upgrade import HOLD, changed_by_upgrade, disputed, spared_until, took_over
from nodeprep.facts.past import Past
from nodeprep.model import Finding, Status
from tests.past_values import PLACE, case, check, checks, finding, glance, past

KEY = f"port.state {PLACE} 1"


def seen(before: Past, at: float, *findings: Finding) -> Past:
    return remember(before, findings, {"port.state": glance(at)}, checks(check()), DampingPolicy(), at)


def test_another_version_keeps_aside_what_the_former_passed() -> None:
    before = past(passed={KEY: "4"}, former_passed={"old": "1"})
    after = took_over(before, "2.0", 900.0)
    assert (after.version, after.upgraded_at, after.former_passed) == ("2.0", 900.0, {KEY: "4"})
    assert after.passed == before.passed


def test_the_same_version_changes_nothing() -> None:
    before = past(former_passed={KEY: "4"}, upgraded_at=50.0)
    assert took_over(before, "1.0", 900.0) is before


def test_a_memory_that_nobody_wrote_has_no_former_version() -> None:
    after = took_over(past(version="", passed={KEY: "4"}), "2.0", 900.0)
    assert (after.version, after.upgraded_at, after.former_passed) == ("2.0", None, {})


SPARED = [
    # the memory, the case, until when it is spared
    ({}, {}, 650),
    ({}, {"convicted_at": 50.0}, 650),
    ({}, {"convicted_at": 49.0}, None),
    ({}, {"convicted_at": 649.9}, 650),
    ({}, {"convicted_at": 650.0}, None),
    ({}, {"convicted_at": None}, None),
    ({}, {"observed": "5"}, None),
    ({}, {"port": 2}, None),
    ({}, {"place": "0000:9c:00.0"}, None),
    ({}, {"check": "port.gid"}, None),
    ({"former_passed": {KEY: ""}}, {"observed": ""}, None),
    ({"former_passed": {}}, {"observed": ""}, None),
    ({"former_passed": {}, "passed": {KEY: "4"}}, {}, None),
    ({"upgraded_at": None}, {}, None),
]


@pytest.mark.parametrize(("memory", "held", "until"), SPARED)
def test_is_spared(memory: dict[str, Any], held: dict[str, Any], until: float | None) -> None:
    upgraded = past(**({"former_passed": {KEY: "4"}, "upgraded_at": 50.0} | memory))
    assert spared_until(upgraded, case(held.pop("check", "port.state"), **({"observed": "4"} | held))) == until


def test_the_hold_is_ten_minutes() -> None:
    assert HOLD == 600


def upgraded() -> Past:
    """The memory of a port that passed, as the next version finds it at 200."""
    return took_over(seen(past(), 100, finding(status=Status.OK, observed="4: ACTIVE")), "2.0", 200.0)


def test_a_conviction_of_what_the_former_version_passed_is_spared_for_a_while() -> None:
    wrong = finding(observed="4: ACTIVE")
    after = seen(seen(upgraded(), 210, wrong), 211, wrong)
    (one,) = after.cases
    assert (one.convicted_at, one.spared_until) == (211, 800)
    assert changed_by_upgrade(after, 799.9) == (one,)
    assert changed_by_upgrade(after, 800.0) == ()
    assert disputed(after) == (one,)  # the gate closes; whether the rollout goes on is for a human to say


def test_a_conviction_with_another_value_is_not_spared() -> None:
    down = finding(observed="1: DOWN")
    after = seen(seen(upgraded(), 210, down), 211, down)
    assert after.cases[0].spared_until is None
    assert changed_by_upgrade(after, 220.0) == disputed(after) == ()


def test_a_conviction_whose_value_changes_is_spared_no_more_and_never_again() -> None:
    wrong, down = finding(observed="4: ACTIVE"), finding(observed="1: DOWN")
    spared = seen(seen(upgraded(), 210, wrong), 211, wrong)
    assert seen(spared, 220, wrong).cases[0].spared_until == 800
    closed = seen(spared, 220, down)
    assert closed.cases[0].spared_until is None
    assert seen(closed, 230, wrong).cases[0].spared_until is None


def test_what_already_failed_before_the_upgrade_is_not_spared() -> None:
    wrong = finding(observed="4: ACTIVE")
    before = seen(seen(past(), 100, finding(status=Status.OK, observed="4: ACTIVE")), 110, wrong)
    after = seen(took_over(before, "2.0", 200.0), 210, wrong)
    assert after.cases[0].convicted
    assert after.cases[0].spared_until is None


def test_what_was_released_is_spared_no_more() -> None:
    wrong, fine = finding(observed="4: ACTIVE"), finding(status=Status.OK, observed="4: ACTIVE")
    after = seen(seen(upgraded(), 210, wrong), 211, wrong)
    for at in (220, 235, 250):
        after = seen(after, at, fine)
    (one,) = after.cases
    assert (one.convicted, one.spared_until) == (False, None)
    assert changed_by_upgrade(after, 260.0) == disputed(after) == ()


def test_only_what_is_believed_holds_a_rollout_up() -> None:
    suspected = case(convicted_at=None, spared_until=800.0)
    assert changed_by_upgrade(past(cases=(suspected,)), 210.0) == disputed(past(cases=(suspected,))) == ()
