"""What only a new version sees: it does not close the gate for ten minutes, and a rollout can see it."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.agent_state import AgentState, BlindSince
from nodeprep.decide import fault_confirmation, rollout, stored_state, upgrade
from nodeprep.decide.fault_confirmation import ConfirmationPolicy
from nodeprep.decide.gate_readiness import ProfileReadiness
from nodeprep.decide.upgrade import UPGRADE_HOLD_SECONDS
from nodeprep.model import Finding, Status
from tests.agent_state_values import PLACE, agent_state, case, check, checks, finding, observation

KEY = f"port.state {PLACE} 1"
OPEN = (("rdma", "device"), ("rdma", "ready"))


def seen(before: AgentState, at: float, *findings: Finding) -> AgentState:
    return fault_confirmation.confirm(
        before, findings, {"port.state": observation(at)}, checks(check()), ConfirmationPolicy(), at
    )


def test_another_version_keeps_aside_what_the_former_passed() -> None:
    before = agent_state(passed={KEY: "4"}, former_passed={"old": "1"}, gates=OPEN, former_gates=(("old", "ready"),))
    after = upgrade.after_upgrade(before, "2.0", 900.0)
    assert (after.version, after.upgraded_at, after.former_passed) == ("2.0", 900.0, {KEY: "4"})
    assert after.passed == before.passed
    assert after.former_gates == before.gates == OPEN


def test_the_same_version_changes_nothing() -> None:
    before = agent_state(former_passed={KEY: "4"}, upgraded_at=50.0)
    assert upgrade.after_upgrade(before, "1.0", 900.0) is before


def test_a_memory_that_nobody_wrote_has_no_former_version() -> None:
    after = upgrade.after_upgrade(agent_state(version="", passed={KEY: "4"}), "2.0", 900.0)
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
    upgraded = agent_state(**({"former_passed": {KEY: "4"}, "upgraded_at": 50.0} | memory))
    assert (
        upgrade.deferred_until(upgraded, case(held.pop("check", "port.state"), **({"observed": "4"} | held))) == until
    )


def test_the_hold_is_ten_minutes() -> None:
    assert UPGRADE_HOLD_SECONDS == 600


def upgraded() -> AgentState:
    """The memory of a port that passed, as the next version finds it at 200."""
    return upgrade.after_upgrade(
        seen(agent_state(), 100, finding(status=Status.OK, observed="4: ACTIVE")), "2.0", 200.0
    )


def test_a_conviction_of_what_the_former_version_passed_is_spared_for_a_while() -> None:
    wrong = finding(observed="4: ACTIVE")
    after = seen(seen(upgraded(), 210, wrong), 211, wrong)
    (one,) = after.cases
    assert (one.convicted_at, one.deferred_until) == (211, 800)
    assert upgrade.deferred_cases(after, 799.9) == (one,)
    assert upgrade.deferred_cases(after, 800.0) == ()
    assert upgrade.version_disagreements(after) == (
        one,
    )  # the gate closes; whether the rollout goes on is for a human to say


def test_a_conviction_with_another_value_is_not_spared() -> None:
    down = finding(observed="1: DOWN")
    after = seen(seen(upgraded(), 210, down), 211, down)
    assert after.cases[0].deferred_until is None
    assert upgrade.deferred_cases(after, 220.0) == upgrade.version_disagreements(after) == ()


def test_a_conviction_whose_value_changes_is_spared_no_more_and_never_again() -> None:
    wrong, down = finding(observed="4: ACTIVE"), finding(observed="1: DOWN")
    deferred = seen(seen(upgraded(), 210, wrong), 211, wrong)
    assert seen(deferred, 220, wrong).cases[0].deferred_until == 800
    closed = seen(deferred, 220, down)
    assert closed.cases[0].deferred_until is None
    assert seen(closed, 230, wrong).cases[0].deferred_until is None


def test_what_already_failed_before_the_upgrade_is_not_spared() -> None:
    wrong = finding(observed="4: ACTIVE")
    before = seen(seen(agent_state(), 100, finding(status=Status.OK, observed="4: ACTIVE")), 110, wrong)
    after = seen(upgrade.after_upgrade(before, "2.0", 200.0), 210, wrong)
    assert after.cases[0].convicted
    assert after.cases[0].deferred_until is None


def test_what_was_released_is_spared_no_more() -> None:
    wrong, fine = finding(observed="4: ACTIVE"), finding(status=Status.OK, observed="4: ACTIVE")
    after = seen(seen(upgraded(), 210, wrong), 211, wrong)
    for at in (220, 235, 250):
        after = seen(after, at, fine)
    (one,) = after.cases
    assert (one.convicted, one.deferred_until) == (False, None)
    assert upgrade.deferred_cases(after, 260.0) == upgrade.version_disagreements(after) == ()


def test_only_what_is_believed_holds_a_rollout_up() -> None:
    suspected = case(convicted_at=None, deferred_until=800.0)
    assert (
        upgrade.deferred_cases(agent_state(cases=(suspected,)), 210.0)
        == upgrade.version_disagreements(agent_state(cases=(suspected,)))
        == ()
    )


def rdma(*, ready: bool, name: str = "rdma") -> ProfileReadiness:
    return ProfileReadiness(name, device=ready, ready=ready, gating=True, rdma=True, gates=("port.state", "port.gid"))


CAME: dict[str, Any] = {"unproven_until": {"port.gid": 830.0}, "came_with_version": ("port.gid",)}
HELD_UP: list[tuple[dict[str, Any], ProfileReadiness, float, tuple[str, ...]]] = [
    # the memory of a node that took over at 200, its profile, now, what holds the rollout up
    ({}, rdma(ready=False), 210, ("port.state",)),
    ({}, rdma(ready=False), 799.9, ("port.state",)),
    ({}, rdma(ready=False), 800, ()),
    ({}, rdma(ready=False), 199, ()),
    ({}, rdma(ready=True), 210, ()),
    ({"cases": (case(), case(port=2), case("port.gid"))}, rdma(ready=False), 210, ("port.state", "port.gid")),
    ({"cases": (case("port.rate"),)}, rdma(ready=False), 210, ("profile rdma",)),
    ({"cases": (case(convicted_at=None),)}, rdma(ready=False), 210, ("profile rdma",)),
    ({"cases": (case(deferred_until=300.0),)}, rdma(ready=False), 400, ("port.state",)),
    ({"former_gates": ()}, rdma(ready=False), 210, ()),  # it was closed before
    ({"former_gates": OPEN[:1]}, rdma(ready=False), 210, ()),
    ({}, rdma(ready=False, name="other"), 210, ("profile rdma",)),  # what took its place is closed
    ({}, rdma(ready=True, name="other"), 210, ()),
    ({"former_gates": ()}, rdma(ready=False, name="other"), 210, ()),
    ({"upgraded_at": None}, rdma(ready=False), 210, ()),
    # A gate that came with the version at 230, and its profile closed when its time was over.
    ({"cases": (), **CAME}, rdma(ready=False), 829, ("port.gid",)),
    ({"cases": (), **CAME}, rdma(ready=False), 889.9, ("port.gid",)),
    ({"cases": (), **CAME}, rdma(ready=False), 890, ()),
    ({"cases": (), **CAME}, rdma(ready=True), 829, ()),
    ({"cases": (), **CAME, "came_with_version": ()}, rdma(ready=False), 829, ()),
    (CAME, rdma(ready=False), 829, ("port.state",)),
]


@pytest.mark.parametrize(("memory", "profile", "now", "checks_told"), HELD_UP)
def test_what_closed_a_gate_that_was_open_holds_a_rollout_up(
    memory: dict[str, Any], profile: ProfileReadiness, now: float, checks_told: tuple[str, ...]
) -> None:
    usual: dict[str, Any] = {"upgraded_at": 200.0, "former_gates": OPEN, "cases": (case(),)}
    assert rollout.rollout_blockers(agent_state(**(usual | memory)), (profile,), now) == checks_told


FAILED: dict[str, Any] = {"convicted_at": None, "looks": ((205.0, True),)}
SUSPECTED: list[tuple[dict[str, Any], bool, float, tuple[str, ...]]] = [
    # what is held against a gate since a version took over at 200, whether its profile is open, now, what is told
    ({}, True, 210, ("port.state",)),
    ({}, True, 799.9, ("port.state",)),
    ({}, True, 800, ()),
    ({}, True, 199, ()),
    ({}, False, 210, ()),  # it is closed anyhow
    ({"convicted_at": 205.5}, True, 210, ()),  # believed: that is told otherwise
    ({"looks": ((205.0, True), (206.0, False))}, True, 210, ()),
    ({"looks": ((205.0, False), (206.0, True))}, True, 210, ("port.state",)),
    ({"looks": ((199.0, True),)}, True, 210, ()),  # the former version saw it
    ({"blind": True}, True, 210, ()),  # and it cannot be looked at again
    ({"looks": ()}, True, 210, ()),
    ({"check": "port.rate"}, True, 210, ()),  # no gate
]


@pytest.mark.parametrize(("different", "is_open", "now", "told"), SUSPECTED)
def test_what_fails_under_a_new_version_holds_a_rollout_up_before_it_is_believed(
    different: dict[str, Any], now: float, told: tuple[str, ...], *, is_open: bool
) -> None:
    memory = agent_state(upgraded_at=200.0, cases=(case(**{"check_id": "port.state", **FAILED, **different}),))
    assert rollout.suspected_gates(memory, (rdma(ready=is_open),), now) == told
    assert rollout.suspected_gates(agent_state(upgraded_at=None, cases=memory.cases), (rdma(ready=is_open),), now) == ()


def test_a_gate_that_comes_with_a_version_is_awaited_and_its_fault_is_spared() -> None:
    before = agent_state(
        upgraded_at=200.0, cases=(case(), case("port.gid"), case("port.gid", port=2, convicted_at=None))
    )
    after = upgrade.with_pending_gates(before, ["port.gid"], 201.0)
    assert after.unproven_until == {"port.gid": 801.0}
    assert upgrade.pending_gates(after) == {"port.gid"}
    assert [one.deferred_until for one in after.cases] == [None, 800.0, None]
    assert [one.check for one in upgrade.version_disagreements(after)] == ["port.gid"]
    assert upgrade.deferred_until(after, case("port.gid", convicted_at=799.0)) == 800.0
    assert upgrade.deferred_until(after, case("port.gid", convicted_at=800.0)) is None
    assert upgrade.with_pending_gates(after, ["port.gid"], 300.0) is after


@pytest.mark.parametrize(("upgraded_at", "at"), [(None, 201.0), (200.0, 800.0), (200.0, 199.0)])
def test_a_gate_that_comes_with_the_configuration_is_awaited_by_no_rollout(
    upgraded_at: float | None, at: float
) -> None:
    after = upgrade.with_pending_gates(
        agent_state(upgraded_at=upgraded_at, cases=(case("port.gid"),)), ["port.gid"], at
    )
    assert after.unproven_until == {"port.gid": at + UPGRADE_HOLD_SECONDS}
    assert upgrade.pending_gates(after) == frozenset()
    assert after.cases[0].deferred_until is None


def test_what_the_configuration_asks_for_right_after_an_upgrade_is_its_own() -> None:
    before = agent_state(upgraded_at=200.0, cases=(case("port.gid"), case("pci.link")))
    after = upgrade.with_pending_gates(
        upgrade.with_pending_gates(before, ["port.gid"], 201.0), ["pci.link"], 210.0, configured=True
    )
    assert after.unproven_until == {"port.gid": 801.0, "pci.link": 810.0}
    assert upgrade.pending_gates(after) == {"port.gid"}
    assert [one.deferred_until for one in after.cases] == [800.0, None]


def test_the_next_version_waits_for_its_own_gates() -> None:
    after = upgrade.after_upgrade(
        upgrade.with_pending_gates(agent_state(upgraded_at=200.0), ["port.gid"], 201.0), "2.0", 300.0
    )
    assert after.unproven_until == {"port.gid": 801.0}
    assert upgrade.pending_gates(after) == frozenset()


def test_a_new_gate_that_can_look_again_has_its_time_anew() -> None:
    waits = agent_state(
        unproven_until={"port.gid": 801.0, "pci.link": 801.0}, blind={"port.gid": BlindSince(210.0, "denied")}
    )
    assert upgrade.pending_until(waits, {"port.gid"}, 1500.0) == {"port.gid": 801.0, "pci.link": 801.0}
    assert upgrade.pending_until(waits, (), 1500.0) == {"port.gid": 2100.0, "pci.link": 801.0}


def test_a_damaged_memory_waits_for_no_gate() -> None:
    kept = agent_state(unproven_until={"port.gid": 900.0})
    assert stored_state.has_plausible_times(kept, 300.0)
    assert not stored_state.has_plausible_times(kept, 299.0)
    assert stored_state.without_future_times(kept, 300.0).unproven_until == {"port.gid": 900.0}
    assert stored_state.without_future_times(kept, 299.0).unproven_until == {}
