"""What only new rules see: it does not close the gate for ten minutes, and a rollout can see it."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.agent_state import AgentState, BlindSince, Case, NodeState
from nodeprep.decide import fault_confirmation, rollout, rule_change, stored_state
from nodeprep.decide.fault_confirmation import ConfirmationPolicy
from nodeprep.decide.gate_readiness import ProfileReadiness
from nodeprep.decide.rule_change import NO_JUDGEMENT, RULE_HOLD_SECONDS, FormerJudgement
from nodeprep.model import Finding, Status
from nodeprep.values import replace
from tests import agent_state_values
from tests.agent_state_values import PLACE, WAIVED, case, check, checks, finding, observation

KEY = f"port.state {PLACE} 1"
OPEN = (("rdma", "device"), ("rdma", "ready"))


def agent_state(**different: Any) -> AgentState:
    """Of a node whose gates are open: no other one has a hold."""
    return agent_state_values.agent_state(**({"state": NodeState.READY} | different))


def seen(before: AgentState, at: float, *findings: Finding) -> AgentState:
    return fault_confirmation.confirm(
        before, findings, {"port.state": observation(at)}, checks(check()), ConfirmationPolicy(), at
    )


def changed(before: AgentState, version: str, configuration: str, at: float) -> AgentState:
    return rule_change.after_rule_change(before, version, configuration, at)


def test_another_version_keeps_aside_what_the_former_passed() -> None:
    before = agent_state(passed={KEY: "4"}, former_passed={"old": "1"}, gates=OPEN, former_gates=(("old", "ready"),))
    after = changed(before, "2.0", "A", 900.0)
    assert (after.version, after.rules_changed_at, after.former_passed) == ("2.0", 900.0, {KEY: "4"})
    assert after.passed == before.passed
    assert after.former_gates == before.gates == OPEN


CHANGES = [
    # version and configuration of the memory, those of now, what changed
    (("1.0", "A"), ("1.0", "A"), ""),
    (("1.0", "A"), ("2.0", "A"), "version"),
    (("1.0", "A"), ("1.0", "B"), "configuration"),
    (("1.0", "A"), ("2.0", "B"), "version and configuration"),
    (("1.0", ""), ("1.0", "B"), ""),  # by a version that did not say under which
    (("1.0", ""), ("2.0", "B"), "version"),
    (("", ""), ("2.0", "B"), ""),  # nobody wrote it
]


@pytest.mark.parametrize(("was", "now", "change"), CHANGES)
def test_says_which_rules_changed(was: tuple[str, str], now: tuple[str, str], change: str) -> None:
    after = changed(agent_state(version=was[0], configuration=was[1], passed={KEY: "4"}), *now, 900.0)
    assert (after.version, after.configuration, after.rule_change) == (*now, change)
    assert after.rules_changed_at == (900.0 if change else None)
    assert after.former_passed == ({KEY: "4"} if change else {})


def test_the_same_rules_change_nothing() -> None:
    before = agent_state(configuration="A", former_passed={KEY: "4"}, rules_changed_at=50.0)
    assert changed(before, "1.0", "A", 900.0) is before


VERSION, CONFIGURATION = {"rule_change": "version"}, {"rule_change": "configuration"}
BOTH = {"rule_change": "version and configuration"}
UNNAMED: dict[str, Any] = {"former_passed": {}}
SPARED = [
    # the memory, the case, until when it is spared
    ({}, {}, 650),
    ({}, {"opened_at": 50.0}, 650),
    ({}, {"opened_at": 49.0}, None),  # the former rules saw it fail
    ({}, {"opened_at": 649.9, "convicted_at": None}, 650),
    ({}, {"opened_at": 650.0, "convicted_at": None}, None),
    ({}, {"convicted_at": 649.9}, 650),
    ({}, {"convicted_at": 650.0}, None),
    ({}, {"convicted_at": None}, 650),
    ({}, {"observed": "5"}, None),
    (VERSION, {"port": 2}, None),
    (VERSION, {"place": "0000:9c:00.0"}, None),
    (VERSION, {"check_id": "port.gid"}, None),
    (VERSION, {"observed": "5"}, None),
    (CONFIGURATION, {}, 650),
    (CONFIGURATION, {"observed": "5"}, None),  # what was seen changed too
    (CONFIGURATION, {"port": 2}, 650),  # a subject that the former configuration did not name
    (BOTH, {"port": 2}, 650),
    (CONFIGURATION, {"port": 2, "opened_at": 49.0}, None),
    (VERSION | {"former_passed": {KEY: ""}}, {"observed": ""}, None),
    (VERSION | UNNAMED, {"observed": ""}, None),
    (VERSION | UNNAMED | {"passed": {KEY: "4"}}, {}, None),
    ({"rules_changed_at": None}, {}, None),
    ({"state": NodeState.UNHEALTHY}, {}, None),  # a hold opens no closed gate
    ({"state": NodeState.BOOTSTRAP}, {}, None),
]


ASKED = FormerJudgement(frozenset({"port.state"}), frozenset())
TOO = FormerJudgement(frozenset({"port.state"}), frozenset({"port.state"}))
JUDGED = [
    # what changed, the value now where "4" passed, what the former configuration says, whether it is held
    ("configuration", "4", ASKED, True),
    ("configuration", "5", ASKED, True),  # the value moved, and by the former configuration that is no fault
    ("configuration", "4", TOO, False),
    ("configuration", "5", TOO, False),
    ("version", "5", ASKED, False),
    ("version", "4", TOO, True),  # nobody can ask the former version
    ("version and configuration", "4", TOO, True),
    ("version and configuration", "5", TOO, False),
    ("version and configuration", "5", ASKED, True),
]


@pytest.mark.parametrize(("change", "observed", "former", "is_held"), JUDGED)
def test_what_fails_by_the_former_configuration_too_is_the_nodes_own(
    change: str, observed: str, former: FormerJudgement, *, is_held: bool
) -> None:
    rules = agent_state(former_passed={KEY: "4"}, rules_changed_at=50.0, rule_change=change)
    failed = case(observed=observed, opened_at=60.0, convicted_at=None)
    held = rule_change.deferred(rules, None, failed, former, 60.0)
    assert (held.deferred_until is not None) is is_held
    spared = replace(failed, deferred_until=650.0, deferred_by=change)
    assert (rule_change.deferred(rules, spared, failed, former, 100.0).deferred_until is not None) is is_held
    # After the hold nothing ends it: a rollout still waits by it.
    assert rule_change.deferred(rules, spared, failed, former, 700.0).deferred_until == 650.0


@pytest.mark.parametrize(("memory", "held", "until"), SPARED)
def test_is_spared(memory: dict[str, Any], held: dict[str, Any], until: float | None) -> None:
    rules = agent_state(**({"former_passed": {KEY: "4"}, "rules_changed_at": 50.0, "rule_change": "version"} | memory))
    usual: dict[str, Any] = {"check_id": "port.state", "observed": "4", "opened_at": 60.0, "convicted_at": 61.0}
    failed = case(**(usual | held))
    after = rule_change.deferred(rules, None, failed, NO_JUDGEMENT, 61.0)
    assert after.deferred_until == until
    is_doubted = not until and rules.rule_change != "configuration" and _is_in_time(rules, failed)
    assert after.deferred_by == (rules.rule_change if until or is_doubted else "")


def _is_in_time(rules: AgentState, failed: Case) -> bool:
    at = rules.rules_changed_at
    return rules.state is NodeState.READY and at is not None and at <= failed.opened_at < at + RULE_HOLD_SECONDS


DOUBTED = [
    # what changed, the state, what is seen where "4" passed, when it came, whether the new version may see wrong
    ("version", NodeState.READY, "5", 60.0, True),
    ("version and configuration", NodeState.READY, "5", 649.0, True),
    ("version", NodeState.READY, "5", 650.0, False),
    ("version", NodeState.READY, "5", 49.0, False),
    ("version", NodeState.UNHEALTHY, "5", 60.0, False),
    ("version", NodeState.BOOTSTRAP, "5", 60.0, False),  # after a human's reset, too
    ("configuration", NodeState.READY, "5", 60.0, False),  # the former configuration was asked
]


@pytest.mark.parametrize("judged", [(), ("port.state",)])
@pytest.mark.parametrize(("change", "state", "observed", "opened_at", "is_doubted"), DOUBTED)
def test_what_another_version_finds_on_an_open_gate_may_be_its_own_fault(
    change: str, state: NodeState, observed: str, opened_at: float, judged: tuple[str, ...], *, is_doubted: bool
) -> None:
    """It closes the gate, and stays so over later looks, also when the gate has closed."""
    was_open = (("rdma", "ready"),) if state is not NodeState.UNHEALTHY else ()
    rules = agent_state(
        former_passed={KEY: "4"},
        former_gates=was_open,
        rules_changed_at=50.0,
        rule_change=change,
        state=state,
        judged_anew=judged,
    )
    seen = case(observed=observed, opened_at=opened_at, convicted_at=None)
    first = rule_change.deferred(rules, None, seen, TOO, opened_at)
    assert (first.deferred_until, first.deferred_by) == (None, change if is_doubted else "")
    closed = replace(rules, state=NodeState.UNHEALTHY)
    later = rule_change.deferred(closed, first, replace(first, convicted_at=700.0), TOO, 700.0)
    assert later.deferred_by == first.deferred_by
    again = rule_change.deferred(closed, later, replace(seen, opened_at=9000.0, convicted_at=9000.0), TOO, 9000.0)
    assert not again.deferred_by


def test_the_second_fault_that_another_version_finds_is_doubted_too() -> None:
    """The first has closed the node by then."""
    rules = agent_state(
        former_gates=(("rdma", "ready"),), rules_changed_at=50.0, rule_change="version", state=NodeState.UNHEALTHY
    )
    found = rule_change.deferred(rules, None, case(opened_at=300.0, convicted_at=None), NO_JUDGEMENT, 300.0)
    assert (found.deferred_until, found.deferred_by) == (None, "version")


@pytest.mark.parametrize(("later", "doubted"), [(130.0, "version and configuration"), (750.0, "")])
def test_a_configuration_right_after_a_version_takes_no_doubt_away(later: float, doubted: str) -> None:
    known = agent_state(configuration="A", state=NodeState.READY, gates=(("rdma", "ready"),))
    newer = rule_change.after_rule_change(known, "2.0", "A", 100.0)
    both = rule_change.after_rule_change(newer, "2.0", "B", later)
    at = later + 20
    found = rule_change.deferred(both, None, case(observed="5", opened_at=at, convicted_at=None), TOO, at)
    assert (found.deferred_until, found.deferred_by) == (None, doubted)


def test_the_hold_is_ten_minutes() -> None:
    assert RULE_HOLD_SECONDS == 600


def upgraded() -> AgentState:
    """The memory of a port that passed, as the next version finds it at 200."""
    return changed(seen(agent_state(), 100, finding(status=Status.OK, observed="4: ACTIVE")), "2.0", "", 200.0)


def test_a_conviction_of_what_the_former_version_passed_is_spared_for_a_while() -> None:
    wrong = finding(observed="4: ACTIVE")
    after = seen(seen(upgraded(), 210, wrong), 211, wrong)
    (one,) = after.cases
    assert (one.convicted_at, one.deferred_until) == (211, 800)
    assert rule_change.deferred_cases(after, 799.9) == (one,)
    assert rule_change.deferred_cases(after, 800.0) == ()
    assert rule_change.rule_disagreements(after) == (
        one,
    )  # the gate closes; whether the rollout goes on is for a human to say


def test_a_conviction_with_another_value_is_not_spared() -> None:
    down = finding(observed="1: DOWN")
    after = seen(seen(upgraded(), 210, down), 211, down)
    assert after.cases[0].deferred_until is None
    assert rule_change.deferred_cases(after, 220.0) == rule_change.rule_disagreements(after) == ()


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
    after = seen(changed(before, "2.0", "", 200.0), 210, wrong)
    assert after.cases[0].convicted
    assert after.cases[0].deferred_until is None


def test_what_was_released_is_spared_no_more() -> None:
    wrong, fine = finding(observed="4: ACTIVE"), finding(status=Status.OK, observed="4: ACTIVE")
    after = seen(seen(upgraded(), 210, wrong), 211, wrong)
    for at in (220, 235, 250):
        after = seen(after, at, fine)
    (one,) = after.cases
    assert (one.convicted, one.deferred_until) == (False, None)
    assert rule_change.deferred_cases(after, 260.0) == rule_change.rule_disagreements(after) == ()


def test_only_what_is_believed_holds_a_rollout_up() -> None:
    suspected = case(convicted_at=None, deferred_until=800.0)
    assert (
        rule_change.deferred_cases(agent_state(cases=(suspected,)), 210.0)
        == rule_change.rule_disagreements(agent_state(cases=(suspected,)))
        == ()
    )


def rdma(*, ready: bool, name: str = "rdma") -> ProfileReadiness:
    return ProfileReadiness(name, device=ready, ready=ready, gating=True, rdma=True, gates=("port.state", "port.gid"))


CAME: dict[str, Any] = {"unproven_until": {"port.gid": 830.0}, "came_with_rules": ("port.gid",)}
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
    ({"rules_changed_at": None}, rdma(ready=False), 210, ()),
    # A gate that came with the version at 230, and its profile closed when its time was over.
    ({"cases": (), **CAME}, rdma(ready=False), 829, ("port.gid",)),
    ({"cases": (), **CAME}, rdma(ready=False), 889.9, ("port.gid",)),
    ({"cases": (), **CAME}, rdma(ready=False), 890, ()),
    ({"cases": (), **CAME}, rdma(ready=True), 829, ()),
    ({"cases": (), **CAME, "came_with_rules": ()}, rdma(ready=False), 829, ()),
    (CAME, rdma(ready=False), 829, ("port.state",)),
]


@pytest.mark.parametrize(("memory", "profile", "now", "checks_told"), HELD_UP)
def test_what_closed_a_gate_that_was_open_holds_a_rollout_up(
    memory: dict[str, Any], profile: ProfileReadiness, now: float, checks_told: tuple[str, ...]
) -> None:
    usual: dict[str, Any] = {"rules_changed_at": 200.0, "former_gates": OPEN, "cases": (case(),)}
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
    memory = agent_state(rules_changed_at=200.0, cases=(case(**{"check_id": "port.state", **FAILED, **different}),))
    assert rollout.suspected_gates(memory, (rdma(ready=is_open),), now) == told
    assert rollout.suspected_gates(replace(memory, rules_changed_at=None), (rdma(ready=is_open),), now) == ()


def test_a_gate_that_comes_with_a_version_is_awaited_and_its_fault_is_spared() -> None:
    before = agent_state(
        rules_changed_at=200.0, cases=(case(), case("port.gid"), case("port.gid", port=2, convicted_at=None))
    )
    after = rule_change.with_pending_gates(before, ["port.gid"], 201.0)
    assert after.unproven_until == {"port.gid": 801.0}
    assert rule_change.pending_gates(after) == {"port.gid"}
    assert [one.deferred_until for one in after.cases] == [None, 801.0, 801.0]
    assert [one.check for one in rule_change.rule_disagreements(after)] == ["port.gid"]
    for convicted_at, until in ((None, 801.0), (800.0, 801.0), (801.0, None)):
        opened = case("port.gid", port=3, opened_at=300.0, convicted_at=convicted_at)
        assert rule_change.deferred(after, None, opened, NO_JUDGEMENT, 300.0).deferred_until == until
    assert rule_change.with_pending_gates(after, ["port.gid"], 300.0) is after


@pytest.mark.parametrize(("rules_changed_at", "at"), [(None, 201.0), (200.0, 800.0), (200.0, 199.0)])
def test_a_gate_that_comes_with_no_new_rules_is_awaited_by_no_rollout(
    rules_changed_at: float | None, at: float
) -> None:
    """A label of the Node, for example, gave it another profile."""
    after = rule_change.with_pending_gates(
        agent_state(rules_changed_at=rules_changed_at, cases=(case("port.gid"),)), ["port.gid"], at
    )
    assert after.unproven_until == {"port.gid": at + RULE_HOLD_SECONDS}
    assert rule_change.pending_gates(after) == frozenset()
    assert after.cases[0].deferred_until is None


def test_the_next_version_waits_for_gates_that_have_not_passed_yet() -> None:
    """And not longer than for those of the version before."""
    after = changed(
        rule_change.with_pending_gates(agent_state(rules_changed_at=200.0), ["port.gid"], 201.0), "2.0", "", 300.0
    )
    assert after.unproven_until == {"port.gid": 801.0}
    assert rule_change.pending_gates(after) == {"port.gid"}


WRONG, FINE = finding(observed="4: ACTIVE"), finding(status=Status.OK, observed="4: ACTIVE")


def under_a_wrong_configuration() -> AgentState:
    """A port that passed, and fails at the same value since the configuration B came at 200."""
    passed = seen(agent_state(configuration="A"), 100, FINE)
    return seen(seen(changed(passed, "1.0", "B", 200.0), 210, WRONG), 211, WRONG)


def test_the_next_wrong_configuration_does_not_renew_the_hold() -> None:
    first = under_a_wrong_configuration()
    (held,) = first.cases
    assert (held.deferred_until, held.deferred_by) == (800, "configuration")
    second = seen(seen(changed(first, "1.0", "C", 500.0), 510, WRONG), 511, WRONG)
    assert [one.deferred_until for one in second.cases] == [800]
    assert rule_change.deferred_cases(second, 799.9)
    assert not rule_change.deferred_cases(second, 800.0)
    third = changed(second, "2.0", "D", 900.0)  # and after the hold neither
    assert not rule_change.deferred_cases(seen(third, 910, WRONG), 910.0)
    assert rule_change.rule_disagreements(seen(third, 910, WRONG))


def test_a_suspicion_that_the_next_configuration_finds_keeps_the_hold_of_the_first() -> None:
    passed = seen(agent_state(configuration="A"), 100, FINE)
    suspected = seen(changed(passed, "1.0", "B", 200.0), 210, WRONG)
    convicted = seen(changed(suspected, "1.0", "C", 210.5), 211, WRONG)
    assert [(one.convicted, one.deferred_until) for one in convicted.cases] == [(True, 800)]


def test_what_is_seen_to_change_under_the_second_wrong_configuration_closes_at_once() -> None:
    second = changed(under_a_wrong_configuration(), "1.0", "C", 500.0)
    assert seen(second, 510, finding(observed="1: DOWN")).cases[0].deferred_until is None


def test_a_configuration_that_is_right_again_and_then_wrong_has_a_hold_of_its_own() -> None:
    right = changed(under_a_wrong_configuration(), "1.0", "A", 500.0)
    for at in (510, 525, 541):
        right = seen(right, at, FINE)
    assert not right.cases[0].convicted
    wrong = seen(seen(changed(right, "1.0", "B", 600.0), 610, WRONG), 611, WRONG)
    assert [one.deferred_until for one in wrong.cases] == [1200]


def test_what_passed_under_the_new_configuration_first_closes_at_once_when_it_fails() -> None:
    """Whoever asks for more than before, and has it: a loss within the ten minutes is the node's own."""
    passed = seen(agent_state(configuration="A"), 100, finding(status=Status.OK))  # no value by which to tell
    new = seen(changed(passed, "1.0", "B", 200.0), 210, finding(status=Status.OK))
    lost = seen(seen(new, 220, finding()), 221, finding())
    assert [(one.convicted, one.deferred_until) for one in lost.cases] == [(True, None)]
    # Without that first look nobody knows, and it is held.
    held = seen(seen(changed(passed, "1.0", "B", 200.0), 210, finding()), 211, finding())
    assert [one.deferred_until for one in held.cases] == [800]


def test_a_waiver_that_is_taken_away_closes_nothing_for_a_while() -> None:
    down = finding(observed="1: DOWN")
    waived = seen(agent_state(configuration="A"), 100, finding(observed="1: DOWN", waived=WAIVED))
    after = seen(seen(changed(waived, "1.0", "B", 200.0), 210, down), 211, down)
    assert [one.deferred_until for one in after.cases] == [800]


def part(name: str) -> dict[str, Any]:
    return {"names": (name,), "profile": {"name": name}}


def test_a_profile_that_replaced_an_open_one_and_never_opens_holds_a_rollout_up_without_end() -> None:
    before = agent_state(configuration="A", gates=OPEN, parts=(part("rdma"),))
    swapped = replace(changed(before, "1.0", "B", 200.0), parts=(part("other"),), gates=())
    closed = (rdma(ready=False, name="other"),)
    assert rollout.rollout_blockers(swapped, closed, 210.0) == ("profile rdma",)
    assert rollout.rollout_blockers(swapped, closed, 9e5) == ("profile rdma",)
    again = changed(swapped, "1.0", "C", 9e5)  # the next configuration has the same profile
    assert rollout.rollout_blockers(again, closed, 1e6) == ("profile rdma",)
    assert rollout.rollout_blockers(again, (rdma(ready=True, name="other"),), 1e6) == ()


def test_a_profile_that_opened_after_the_change_holds_nothing_up_when_it_closes_later() -> None:
    before = agent_state(configuration="A", gates=OPEN, parts=(part("rdma"),))
    swapped = replace(changed(before, "1.0", "B", 200.0), parts=(part("other"),), gates=(("other", "ready"),))
    assert rule_change.settled(swapped, 799.0, is_open=True) is swapped
    assert rule_change.settled(swapped, 800.0, is_open=False) is swapped
    later = replace(rule_change.settled(swapped, 800.0, is_open=True), gates=())
    assert rollout.rollout_blockers(later, (rdma(ready=False, name="other"),), 900.0) == ()


def test_a_profile_that_was_closed_before_holds_nothing_up() -> None:
    """The node had two, of which one was closed; the new configuration takes the open one away."""
    before = agent_state(configuration="A", gates=OPEN, parts=(part("rdma"), part("broken")))
    after = replace(changed(before, "1.0", "B", 200.0), parts=(part("broken"),), gates=())
    assert rollout.rollout_blockers(after, (rdma(ready=False, name="broken"),), 900.0) == ()


def test_a_gate_that_a_wrong_configuration_closed_still_counts_as_open_before_under_the_next() -> None:
    held = replace(under_a_wrong_configuration(), former_gates=OPEN, gates=())
    assert changed(held, "1.0", "C", 850.0).former_gates == OPEN


def test_a_new_gate_that_can_look_again_has_its_time_anew() -> None:
    waits = agent_state(
        unproven_until={"port.gid": 801.0, "pci.link": 801.0}, blind={"port.gid": BlindSince(210.0, "denied")}
    )
    assert rule_change.pending_until(waits, {"port.gid"}, 1500.0) == {"port.gid": 801.0, "pci.link": 801.0}
    assert rule_change.pending_until(waits, (), 1500.0) == {"port.gid": 2100.0, "pci.link": 801.0}


def test_a_change_at_a_time_that_has_not_come_holds_nothing_up() -> None:
    """The profile that it took away would block each rollout, and no time ends that."""
    before = agent_state(configuration="A", gates=OPEN, parts=(part("rdma"),))
    swapped = replace(changed(before, "1.0", "B", 200.0), parts=(part("other"),), gates=())
    closed = (rdma(ready=False, name="other"),)
    kept = stored_state.without_future_times(swapped, 200.0)
    assert rollout.rollout_blockers(kept, closed, 200.0) == ("profile rdma",)
    damaged = stored_state.without_future_times(swapped, 199.0)
    assert rollout.rollout_blockers(damaged, closed, 199.0) == ()


def test_a_damaged_memory_waits_for_no_gate() -> None:
    kept = agent_state(unproven_until={"port.gid": 900.0})
    assert stored_state.has_plausible_times(kept, 300.0)
    assert not stored_state.has_plausible_times(kept, 299.0)
    assert stored_state.without_future_times(kept, 300.0).unproven_until == {"port.gid": 900.0}
    assert stored_state.without_future_times(kept, 299.0).unproven_until == {}
