"""The states of a node: every row of the table, what a start may believe, and whether a profile is ready."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.agent_state import AgentState, BlindSince, Case, NodeState, PassStreak, PastAttempt
from nodeprep.decide import fault_confirmation, gate_readiness
from nodeprep.decide.gate_readiness import AssignedProfile, ReadinessPolicy
from nodeprep.decide.state_table import TABLE
from nodeprep.model import Remedy, Severity, Stage
from nodeprep.values import replace
from tests.agent_state_values import BOOT, agent_state, attempt, case, check, checks, past

POLICY = ReadinessPolicy()
NOW = 10_000.0
DEVICE, NODE_STAGE = "port.state", "plugin.registered"
CHECKS = checks(
    check("pci.driver-bound"),
    check(DEVICE, after=("pci.driver-bound",)),
    check(NODE_STAGE, stage=Stage.NODE),
    check("time.sync", severity=Severity.WARN),
)
RDMA = AssignedProfile("rdma-roce", (DEVICE, NODE_STAGE), gating=True, rdma=True)
PROVEN = PassStreak(3, 100.0, 130.0, proven=True)
ONCE = PassStreak(1, 100.0, 100.0)
BOTH = {DEVICE: PROVEN, NODE_STAGE: PROVEN}
LINK_UP = Remedy("link_up", {"interface": "eth2"})
SPENT = True


def wrong(ago: float = 100.0, **different: Any) -> Case:
    """A conviction of the port that stands for `ago` seconds."""
    usual: dict[str, Any] = {"convicted_at": NOW - ago, "looks": ((NOW - ago, True),)}
    return case(**(usual | different))


def suspect() -> Case:
    return case(convicted_at=None, looks=((NOW, True),))


def memory(state: NodeState, ago: float = 100.0, **different: Any) -> AgentState:
    """A node that is in a state for `ago` seconds and whose gates have all passed."""
    return agent_state(**({"state": state, "since": NOW - ago, "pass_streaks": BOTH} | different))


def then(before: AgentState, *assigned: AssignedProfile, spent: bool = False) -> AgentState:
    return gate_readiness.advance(before, assigned or (RDMA,), CHECKS, POLICY, NOW, budget_spent=spent)


BOOTSTRAP, READY, UNHEALTHY = NodeState.BOOTSTRAP, NodeState.READY, NodeState.UNHEALTHY
REPAIRING, VALIDATING, AWAITING_HUMAN = NodeState.REPAIRING, NodeState.VALIDATING, NodeState.AWAITING_HUMAN

BLIND = {DEVICE: BlindSince(NOW - 1, "/sys/class/infiniband: denied (errno 13)")}
REFUSED = replace(RDMA, refusal="no baseline confirms rdma-roce")
MENDABLE: dict[str, Any] = {"cases": (wrong(remedy=LINK_UP),)}
WRONG: dict[str, Any] = {"cases": (wrong(),)}
RUNS: dict[str, Any] = {**MENDABLE, "attempt": attempt("running")}
JUDGED: dict[str, Any] = {**MENDABLE, "attempts": (past(state_before="Unhealthy"),)}
FOR_HUMAN: dict[str, Any] = {"attempts": (past("released", state_before="AwaitingHuman"),)}
SPARED: dict[str, Any] = {"cases": (wrong(deferred_until=NOW + 1),)}

ROWS = [
    # from, memory, profile, whether the budget is spent, to
    (BOOTSTRAP, {}, RDMA, False, READY),
    (BOOTSTRAP, {"pass_streaks": {}}, RDMA, False, BOOTSTRAP),
    (BOOTSTRAP, {"pass_streaks": {DEVICE: PROVEN}}, RDMA, False, BOOTSTRAP),
    (BOOTSTRAP, {"pass_streaks": BOTH | {DEVICE: ONCE}}, RDMA, False, BOOTSTRAP),
    (BOOTSTRAP, {"cases": (suspect(),)}, RDMA, False, BOOTSTRAP),
    (BOOTSTRAP, {"blind": BLIND}, RDMA, False, BOOTSTRAP),
    (BOOTSTRAP, SPARED, RDMA, False, READY),
    (BOOTSTRAP, {"cases": (wrong(59.0, looks=((NOW, False),)),)}, RDMA, False, BOOTSTRAP),
    (BOOTSTRAP, {}, REFUSED, False, BOOTSTRAP),
    (BOOTSTRAP, {"ago": 3600.0}, REFUSED, False, BOOTSTRAP),
    (BOOTSTRAP, RUNS, RDMA, False, REPAIRING),
    (BOOTSTRAP, MENDABLE, RDMA, False, BOOTSTRAP),
    (BOOTSTRAP, MENDABLE, RDMA, SPENT, AWAITING_HUMAN),
    (BOOTSTRAP, {"cases": (wrong(remedy=LINK_UP, latched="3 times"),)}, RDMA, False, AWAITING_HUMAN),
    (BOOTSTRAP, WRONG, RDMA, False, AWAITING_HUMAN),
    (BOOTSTRAP, {"cases": (wrong(59.0),)}, RDMA, False, BOOTSTRAP),
    (
        BOOTSTRAP,
        {"cases": (wrong(61.0, passes=2, looks=((NOW, False),)),)},
        RDMA,
        False,
        BOOTSTRAP,
    ),  # it ends by itself
    (BOOTSTRAP, {"pass_streaks": {}, "ago": 3600.0}, RDMA, False, AWAITING_HUMAN),
    (BOOTSTRAP, {"pass_streaks": {}, "ago": 3599.0}, RDMA, False, BOOTSTRAP),
    (READY, {}, RDMA, False, READY),
    (READY, {"attempt": attempt("asked")}, RDMA, False, REPAIRING),
    (READY, WRONG, RDMA, False, UNHEALTHY),
    (READY, SPARED, RDMA, False, READY),
    (READY, {"cases": (wrong(deferred_until=NOW),)}, RDMA, False, UNHEALTHY),
    (READY, {"cases": (suspect(),)}, RDMA, False, READY),
    (READY, {"blind": BLIND}, RDMA, False, READY),
    (READY, {"cases": (wrong(check="time.sync"),)}, RDMA, False, READY),
    (READY, {"pass_streaks": {DEVICE: PROVEN}}, RDMA, False, BOOTSTRAP),
    (READY, {}, REFUSED, False, BOOTSTRAP),
    (UNHEALTHY, {}, RDMA, False, READY),
    (UNHEALTHY, {"cases": (suspect(),)}, RDMA, False, UNHEALTHY),
    (UNHEALTHY, {**WRONG, "pass_streaks": {DEVICE: PROVEN}}, RDMA, False, BOOTSTRAP),
    (UNHEALTHY, WRONG, REFUSED, False, BOOTSTRAP),
    (UNHEALTHY, {"attempt": attempt("ledger")}, RDMA, False, REPAIRING),
    (UNHEALTHY, {**RUNS, "attempt": attempt("asked")}, RDMA, False, REPAIRING),
    (UNHEALTHY, {**RUNS, "attempt": attempt("of a newer version")}, RDMA, False, REPAIRING),
    (UNHEALTHY, MENDABLE, RDMA, False, UNHEALTHY),
    (UNHEALTHY, {"cases": (wrong(latched="3 times"),)}, RDMA, False, AWAITING_HUMAN),
    (UNHEALTHY, WRONG, RDMA, SPENT, AWAITING_HUMAN),
    (REPAIRING, RUNS, RDMA, False, REPAIRING),
    (REPAIRING, {"attempt": attempt("running")}, RDMA, SPENT, REPAIRING),
    (REPAIRING, {**RUNS, "attempt": attempt("validating")}, RDMA, False, VALIDATING),
    (REPAIRING, MENDABLE, RDMA, False, VALIDATING),
    (VALIDATING, {"attempt": attempt("validating")}, RDMA, False, VALIDATING),
    (VALIDATING, {**MENDABLE, "attempt": attempt("validating"), "ago": 9999.0}, RDMA, SPENT, VALIDATING),
    (VALIDATING, RUNS, RDMA, False, REPAIRING),
    (VALIDATING, {}, RDMA, False, READY),
    (VALIDATING, {"cases": (suspect(),)}, RDMA, False, UNHEALTHY),
    (VALIDATING, {"pass_streaks": {DEVICE: PROVEN}}, RDMA, False, BOOTSTRAP),
    (VALIDATING, {}, REFUSED, False, BOOTSTRAP),
    (VALIDATING, JUDGED, RDMA, False, UNHEALTHY),
    (VALIDATING, {**JUDGED, "pass_streaks": {}}, RDMA, False, BOOTSTRAP),
    (VALIDATING, FOR_HUMAN, RDMA, False, AWAITING_HUMAN),
    (AWAITING_HUMAN, {"all_passing_since": NOW - 600.0}, RDMA, False, READY),
    (AWAITING_HUMAN, {"all_passing_since": NOW - 599.0}, RDMA, False, AWAITING_HUMAN),
    (AWAITING_HUMAN, {"ago": 9999.0}, RDMA, False, AWAITING_HUMAN),
    (AWAITING_HUMAN, {**WRONG, "all_passing_since": NOW - 600.0}, RDMA, False, AWAITING_HUMAN),
    (AWAITING_HUMAN, {"blind": BLIND, "all_passing_since": NOW - 600.0}, RDMA, False, AWAITING_HUMAN),
    (AWAITING_HUMAN, {"all_passing_since": NOW - 600.0}, REFUSED, False, AWAITING_HUMAN),
    (AWAITING_HUMAN, RUNS, RDMA, SPENT, REPAIRING),
]


@pytest.mark.parametrize(("start", "holds", "profile", "spent", "to"), ROWS)
def test_follows(
    start: NodeState, holds: dict[str, Any], profile: AssignedProfile, *, spent: bool, to: NodeState
) -> None:
    before = memory(start, **holds)
    after = then(before, profile, spent=spent)
    assert after.state is to
    assert after.since == (NOW if to is not start else before.since)
    fails = any(case.convicted for case in holds.get("cases", ()))
    assert bool(after.why) == (to is not start or (start is NodeState.UNHEALTHY and fails))


REFUSED_RUN = past("refused", state_before="Bootstrap", state_since=NOW - 3000.0)
SINCES = [
    (REFUSED_RUN, NOW - 3000.0),
    (replace(REFUSED_RUN, outcome="unreleased"), NOW),  # something happened here
    (replace(REFUSED_RUN, state_before="Unhealthy"), NOW),  # it is another state now
    (replace(REFUSED_RUN, boot_id="of another boot"), NOW),
    (replace(REFUSED_RUN, state_since=NOW + 1.0), NOW),
    (replace(REFUSED_RUN, state_since=0.0), NOW),  # of a version that did not note it
]


@pytest.mark.parametrize(("last", "since"), SINCES)
def test_a_remedy_that_was_refused_does_not_begin_the_time_of_a_state_anew(last: PastAttempt, since: float) -> None:
    """A new node whose remedy is refused again and again would else never call a human."""
    before = memory(VALIDATING, **{**MENDABLE, "pass_streaks": {}, "attempts": (last,)})
    assert (then(before, RDMA).state, then(before, RDMA).since) == (BOOTSTRAP, since)


def test_every_row_of_the_table_is_walked_by_a_row_here() -> None:
    walked = {(start, to) for start, _, _, _, to in ROWS if start is not to}
    assert walked == {(row.start, row.to) for row in TABLE}


def test_what_stays_as_it_is_is_the_same_value() -> None:
    """The agent writes its memory to disk only when it changed."""
    ready = memory(READY, all_passing_since=200.0)
    assert then(ready) is ready


@pytest.mark.parametrize(("start", "holds", "profile", "spent", "to"), ROWS)
def test_walking_on_comes_to_an_end(
    start: NodeState, holds: dict[str, Any], profile: AssignedProfile, *, spent: bool, to: NodeState
) -> None:
    del to
    now = memory(start, **holds)
    for _ in range(6):
        now = then(now, profile, spent=spent)
    assert then(now, profile, spent=spent) is now


WHYS = [
    (memory(READY, **WRONG), RDMA, "a gate check fails: port.state NoSignal: mlx5_3/1: NoSignal"),
    (memory(READY, pass_streaks={DEVICE: PROVEN}), RDMA, "gates that are yet to pass often enough: plugin.registered"),
    (memory(READY), REFUSED, "the profile is refused: no baseline confirms rdma-roce"),
    (memory(BOOTSTRAP), RDMA, "every gate check passed often enough in this boot"),
    (memory(UNHEALTHY, **RUNS), RDMA, "a remedy runs: link_up for port.state"),
    (memory(READY, attempt=attempt("asked", remedy="mtu", check="eni.mtu")), RDMA, "a remedy runs: mtu for eni.mtu"),
]


@pytest.mark.parametrize(("before", "profile", "why"), WHYS)
def test_says_why(before: AgentState, profile: AssignedProfile, why: str) -> None:
    assert then(before, profile).why == why


def test_a_consequence_calls_no_human_while_its_root_can_be_repaired() -> None:
    """The port has no remedy; the driver under it has."""
    root = case("pci.driver-bound", port=None, convicted_at=NOW - 100, remedy=Remedy("driver_bind"))
    both = memory(BOOTSTRAP, cases=(wrong(), root))
    profile = replace(RDMA, gates=("pci.driver-bound", DEVICE))
    assert then(both, profile).state is BOOTSTRAP
    elsewhere = replace(root, place="0000:ff:00.0")
    assert then(replace(both, cases=(wrong(), elsewhere)), profile).state is AWAITING_HUMAN


@pytest.mark.parametrize("start", NodeState)
@pytest.mark.parametrize(("step", "end"), [("running", REPAIRING), ("validating", VALIDATING)])
def test_no_gate_is_open_under_repair(start: NodeState, step: str, end: NodeState) -> None:
    """Whatever state a memory holds beside an attempt. A play may end between two rounds."""
    now = memory(start, attempt=attempt(step), all_passing_since=0.0)
    for _ in TABLE:
        now = then(now)
    assert now.state is end


def test_passing_is_counted_from_when_everything_passed() -> None:
    waits = memory(AWAITING_HUMAN)
    assert then(waits).all_passing_since == NOW
    since = memory(AWAITING_HUMAN, all_passing_since=NOW - 5)
    assert then(since).all_passing_since == NOW - 5
    broken: tuple[dict[str, Any], ...] = (WRONG, {"cases": (suspect(),)}, {"blind": BLIND}, {"pass_streaks": {}})
    for different in broken:
        assert then(replace(since, **different)).all_passing_since is None


GATES = [
    # profiles, gates that the state goes by
    ((RDMA,), (DEVICE, NODE_STAGE)),
    ((RDMA, AssignedProfile("tcp", ("cni.first",), gating=False, rdma=False)), (DEVICE, NODE_STAGE)),
    ((AssignedProfile("tcp", ("cni.first", DEVICE), gating=False, rdma=False),), ("cni.first", DEVICE)),
    ((), ()),
]


@pytest.mark.parametrize(("profiles", "gates"), GATES)
def test_the_state_goes_by_gating_profiles_else_by_all(
    profiles: tuple[AssignedProfile, ...], gates: tuple[str, ...]
) -> None:
    assert gate_readiness.node_gates(profiles) == gates


@pytest.mark.parametrize(
    ("pass_streaks", "cases", "state"),
    [
        ({}, (), BOOTSTRAP),
        ({DEVICE: PROVEN, "time.sync": ONCE}, (), READY),
        ({DEVICE: ONCE}, (), BOOTSTRAP),
        ({DEVICE: ONCE, "time.sync": PROVEN}, (), READY),
        ({DEVICE: PROVEN}, (wrong(1.0),), READY),
    ],
)
def test_without_a_profile_nothing_is_demanded_but_that_it_was_looked_at(
    pass_streaks: dict[str, PassStreak], cases: tuple[Case, ...], state: NodeState
) -> None:
    before = agent_state(pass_streaks=pass_streaks, cases=cases, since=NOW)
    assert gate_readiness.advance(before, (), CHECKS, POLICY, NOW).state is state


def test_an_unhealthy_node_says_what_is_wrong_now() -> None:
    """One fault may be gone and another have come while the state is the same."""
    first, second = wrong(1.0), replace(wrong(1.0), reason="NotActive", message="another")
    one = then(memory(NodeState.READY, cases=(first,)))
    assert "NoSignal" in one.why
    other = then(replace(one, cases=(second,)))
    assert (other.state, other.since) == (one.state, one.since)
    assert "NotActive" in other.why


def test_what_just_failed_opens_no_gate_and_closes_none() -> None:
    """A suspicion is to be confirmed before a gate closes, and to be gone before one opens."""
    suspect = replace(wrong(1.0), convicted_at=None, looks=((NOW - 1.0, True),), passes=0)
    shut = memory(READY, cases=(suspect,))
    open_ = replace(shut, gates=((RDMA.name, "device"), (RDMA.name, "ready")))
    assert [(one.device, one.ready) for one in gate_readiness.profile_readiness(shut, (RDMA,), CHECKS, NOW)] == [
        (False, False)
    ]
    assert [(one.device, one.ready) for one in gate_readiness.profile_readiness(open_, (RDMA,), CHECKS, NOW)] == [
        (True, True)
    ]
    assert gate_readiness.open_gates(gate_readiness.profile_readiness(open_, (RDMA,), CHECKS, NOW)) == open_.gates


def test_a_profile_without_gates_does_not_open_before_the_first_looks() -> None:
    empty = AssignedProfile("mine", (), gating=True, rdma=True)
    assert then(agent_state(since=NOW), empty).state is BOOTSTRAP
    assert not gate_readiness.profile_readiness(agent_state(state=READY), (empty,), CHECKS, NOW)[0].ready
    assert not gate_readiness.profile_readiness(agent_state(state=READY), (empty,), CHECKS, NOW)[0].device


KEPT = memory(
    READY,
    at=NOW - 50,
    cases=(wrong(flaps=(NOW - 60,), passing_since=NOW - 5, deferred_until=NOW + 10),),
    blind=BLIND,
    all_passing_since=NOW - 40,
    rules_changed_at=NOW - 590,
    gates=(("rdma-roce", "ready"),),
)
OUTLIVES: dict[str, Any] = {
    "attempts": (past(),),
    "approved": "fabric_reset;until=2026-11-28T00:00:00Z",
    "helped": {"link_up": 1.8e9},
    "unhelpful": {"driver_bind": 1.8e9},
    "held": {"driver_bind": 1.8e9},
    "slot": "nodeprep-slot-0",
    "hardware_profiles": ("rdma-roce",),
    "profile": {"name": "rdma-roce"},
    "chosen_by": "hardware",
    "parts": ({"name": "rdma-roce"},),
    "baseline": {"name": "baseline"},
    "passed": {"port.state x 1": "4: ACTIVE"},
    "version": "1.0",
    "serial": 7,
}


@pytest.mark.parametrize("uid", ["uid-1", ""])
def test_a_restart_in_the_same_boot_keeps_everything(uid: str) -> None:
    assert gate_readiness.state_at_start(KEPT, BOOT, uid, NOW) is KEPT


def test_the_node_uid_is_learned_once() -> None:
    learned = gate_readiness.state_at_start(replace(KEPT, node_uid=""), BOOT, "uid-1", NOW)
    assert learned == KEPT
    assert gate_readiness.state_at_start(learned, BOOT, "uid-2", NOW).state is BOOTSTRAP


def test_a_boot_before_the_node_is_read_forgets_no_uid() -> None:
    """Else whatever Node has the name by then has what this boot proved for another one."""
    booted = gate_readiness.state_at_start(KEPT, "another boot", "", NOW)
    proven = replace(booted, state=READY, pass_streaks=BOTH)
    assert gate_readiness.state_at_start(proven, "another boot", "uid-1", NOW) == proven
    anew = gate_readiness.state_at_start(proven, "another boot", "uid-2", NOW)
    assert (anew.node_uid, anew.state, anew.pass_streaks) == ("uid-2", BOOTSTRAP, {})


LATER = NOW + 1
DAMAGED: list[dict[str, Any]] = [
    {"at": LATER},
    {"since": LATER},
    {"since": -1.0},
    {"since": float("nan")},
    {"all_passing_since": LATER},
    {"rules_changed_at": LATER},
    {"blind": {DEVICE: BlindSince(LATER, "")}},
    {"pass_streaks": {DEVICE: replace(PROVEN, first=LATER)}},
    {"pass_streaks": {DEVICE: replace(PROVEN, last=LATER)}},
    {"cases": (wrong(opened_at=LATER),)},
    {"cases": (wrong(looks=((LATER, False),)),)},
    {"cases": (wrong(convicted_at=LATER),)},
    {"cases": (wrong(latched_at=LATER),)},
    {"cases": (wrong(passing_since=LATER),)},
    {"cases": (wrong(flaps=(LATER,)),)},
    {"cases": (wrong(deferred_until=NOW + 601),)},
]
STRANGE: list[tuple[AgentState | None, str, str]] = [
    (None, BOOT, "uid-1"),
    (KEPT, "another boot", "uid-1"),
    (KEPT, "", "uid-1"),
    (replace(KEPT, boot_id=""), "", "uid-1"),
    (KEPT, BOOT, "uid-2"),
    *((replace(KEPT, **damage), BOOT, "uid-1") for damage in DAMAGED),
]


@pytest.mark.parametrize(("kept", "boot", "uid"), STRANGE)
def test_what_is_not_of_this_boot_and_node_opens_nothing(kept: AgentState | None, boot: str, uid: str) -> None:
    whole = kept and replace(kept, **OUTLIVES)
    new = gate_readiness.state_at_start(whole, boot, uid, NOW)
    outlives = OUTLIVES if whole else {}
    new_boot = bool(kept and boot and kept.boot_id) and kept is not None and kept.boot_id != boot
    assert new == AgentState(
        boot_id=boot,
        node_uid=uid,
        state=BOOTSTRAP,
        since=NOW,
        why=new.why,
        was_ready=False if new_boot else None,
        **outlives,
    )
    assert new.why


def test_a_reset_closes_and_forgets() -> None:
    before = replace(
        memory(AWAITING_HUMAN, cases=(wrong(latched="3 times"),), all_passing_since=100.0), hardware_profiles=("rdma",)
    )
    after = fault_confirmation.reset(before, NOW)
    assert (after.state, after.since, after.all_passing_since, after.hardware_profiles) == (
        BOOTSTRAP,
        NOW,
        None,
        ("rdma",),
    )
    assert not any(streak.proven for streak in after.pass_streaks.values())
    assert not any(one.convicted for one in after.cases)
    assert then(after).state is BOOTSTRAP


OTHER = AssignedProfile("tcp", (DEVICE,), gating=False, rdma=False)
STANDINGS: list[tuple[AgentState, AssignedProfile, bool, bool, str, str]] = [
    # memory, profile, device-ready, ready, in the way, its check and reason
    (memory(READY), RDMA, True, True, "", " "),
    (memory(READY, blind=BLIND), RDMA, True, True, "", " "),
    (memory(READY, **SPARED), RDMA, True, True, "", " "),
    (memory(UNHEALTHY, why="because"), RDMA, True, False, "the node is Unhealthy: because", " Unhealthy"),
    (memory(UNHEALTHY), OTHER, True, True, "", " "),
    (memory(UNHEALTHY, **WRONG), RDMA, False, False, "port.state NoSignal: mlx5_3/1: NoSignal", "port.state NoSignal"),
    (memory(UNHEALTHY, **WRONG), OTHER, False, False, "port.state NoSignal: mlx5_3/1: NoSignal", "port.state NoSignal"),
    (
        memory(UNHEALTHY, cases=(wrong(check=NODE_STAGE),)),
        RDMA,
        True,
        False,
        "plugin.registered NoSignal: mlx5_3/1: NoSignal",
        "plugin.registered NoSignal",
    ),
    (memory(READY), REFUSED, False, False, "no baseline confirms rdma-roce", " ProfileRefused"),
    (
        memory(BOOTSTRAP, pass_streaks={DEVICE: PROVEN, NODE_STAGE: ONCE}),
        RDMA,
        True,
        False,
        "1 of 2 gate checks passed often enough in this boot; not yet plugin.registered",
        " Bootstrap",
    ),
    (
        memory(BOOTSTRAP, pass_streaks={DEVICE: ONCE}, blind=BLIND),
        RDMA,
        False,
        False,
        "port.state could not look: /sys/class/infiniband: denied (errno 13)",
        "port.state CannotLook",
    ),
    (
        memory(READY),
        AssignedProfile("mine", ("no.such",), gating=False, rdma=False),
        False,
        False,
        "0 of 1 gate checks passed often enough in this boot; not yet no.such",
        " Bootstrap",
    ),
    (
        memory(READY),
        AssignedProfile("mine", tuple("abcde"), gating=False, rdma=False),
        False,
        False,
        "0 of 5 gate checks passed often enough in this boot; not yet a, b, c and 2 more",
        " Bootstrap",
    ),
]


@pytest.mark.parametrize(("now", "profile", "device", "ready", "why", "reason"), STANDINGS)
def test_a_profile_stands(
    now: AgentState, profile: AssignedProfile, *, device: bool, ready: bool, why: str, reason: str
) -> None:
    stands = gate_readiness.profile_readiness(now, (profile,), CHECKS, NOW)[0]
    assert (stands.device, stands.ready, stands.why) == (device, ready, why)
    assert f"{stands.check} {stands.reason}" == reason
    assert (stands.name, stands.gating, stands.rdma, stands.gates) == (
        profile.name,
        profile.gating,
        profile.rdma,
        profile.gates,
    )
