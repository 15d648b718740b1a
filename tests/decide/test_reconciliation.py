"""A reconciliation: confirmation, states, what is told, in that order; and whole lives of a node (tests/histories)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.agent_state import AgentState, NodeState, PassStreak
from nodeprep.decide import gate_readiness, reconciliation, repair_slots, rule_change
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.desired import AgentTrouble, Desired, Taint
from nodeprep.decide.gate_readiness import AssignedProfile, Mode
from nodeprep.decide.reconciliation import AgentPolicy, Observed
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from nodeprep.model import Confirmation, Finding, Status
from nodeprep.values import replace
from tests import histories
from tests.agent_state_values import BOOT, PLACE, attempt, case, check, checks, finding, observation
from tests.histories import ALL_FRESH, ALL_WELL, STATE, WORLDS, Event

PORT = "port.state"
RULES = AgentPolicy(
    checks(check(PORT), check("klog.nic", confirmation=Confirmation.LATCHED)),
    (AssignedProfile("rdma-roce", (PORT, "klog.nic"), gating=True, rdma=True),),
    Mode.GATE,
)
FINE = (finding(PORT, Status.OK), finding("klog.nic", Status.OK))


def look(agent_state: AgentState, at: float, *found: Finding) -> tuple[AgentState, Desired]:
    fresh = dict.fromkeys(RULES.checks, CheckObservation(at, at))
    return reconciliation.reconcile(agent_state, Observed(found, fresh, full_round=True), RULES, at)


def ready() -> tuple[AgentState, Desired]:
    agent_state = gate_readiness.state_at_start(None, BOOT, "uid-1", 10.0)
    for at in (20.0, 35.0):
        agent_state, _ = look(agent_state, at, *FINE)
    return look(agent_state, 50.0, *FINE)


def test_opens_with_the_third_pass_and_not_before() -> None:
    agent_state = gate_readiness.state_at_start(None, BOOT, "uid-1", 10.0)
    for at, state in ((20.0, NodeState.BOOTSTRAP), (35.0, NodeState.BOOTSTRAP), (50.0, NodeState.READY)):
        agent_state, told = look(agent_state, at, *FINE)
        assert (told.state, bool(told.taints), told.profiles[0].ready) == (
            state,
            state is not NodeState.READY,
            state is NodeState.READY,
        )


def test_the_second_failing_look_closes_in_the_same_turn() -> None:
    agent_state, _ = ready()
    agent_state, told = look(agent_state, 60.0, finding(PORT), FINE[1])
    assert told.taints == ()
    agent_state, told = look(agent_state, 60.6, finding(PORT), FINE[1])
    assert told.state is NodeState.UNHEALTHY
    assert told.taints == (Taint("nodeprep.io/unhealthy", "NoSignal", "NoSchedule"),)
    assert "feature.node.kubernetes.io/network-rdma.capable" not in told.labels


def test_one_turn_goes_through_as_many_states_as_follow() -> None:
    agent_state, _ = ready()
    agent_state, told = look(agent_state, 60.0, FINE[0], finding("klog.nic", reason="Fatal"))
    assert told.state is agent_state.state is NodeState.AWAITING_HUMAN
    assert told.taints[0].value == "Fatal"


def test_a_quiet_turn_changes_nothing() -> None:
    agent_state, told = ready()
    same, again = look(agent_state, 80.0, *FINE)
    assert same is agent_state
    assert again == told


def test_a_restart_tells_the_same_before_its_first_look() -> None:
    agent_state, told = ready()
    again, at_once = reconciliation.reconcile(
        gate_readiness.state_at_start(agent_state, BOOT, "uid-1", 60.0), Observed(), RULES, 60.0
    )
    assert again is agent_state
    assert (at_once.labels, at_once.taints, at_once.profiles) == (told.labels, told.taints, told.profiles)


def test_what_is_heard_beside_findings_counts() -> None:
    agent_state, _ = ready()
    trouble = AgentTrouble(store="the disk is full")
    _, told = reconciliation.reconcile(agent_state, Observed(FINE, trouble=trouble), RULES, 60.0)
    assert told.conditions[0].message.endswith("; the disk is full")
    observe = replace(RULES, mode=Mode.OBSERVE)
    assert reconciliation.reconcile(agent_state, Observed(FINE), observe, 60.0)[1].bootstrap_taint_may_stay
    assert not reconciliation.reconcile(agent_state, Observed(FINE, full_round=True), observe, 60.0)[
        1
    ].bootstrap_taint_may_stay


@pytest.mark.parametrize(("step", "state"), [("running", NodeState.REPAIRING), ("validating", NodeState.VALIDATING)])
def test_the_attempt_under_way_counts(step: str, state: NodeState) -> None:
    agent_state, _ = ready()
    under_way = attempt(step, step_since=59.0, heard_at=59.0)
    repairing = replace(agent_state, state=NodeState.REPAIRING, cases=(case(convicted_at=51.0),), attempt=under_way)
    assert reconciliation.reconcile(repairing, Observed(FINE), RULES, 60.0)[0].state is state


GUARDS = [
    pytest.param(Mode.GATE, (), False, id="the taint keeps jobs away"),
    pytest.param(Mode.REPAIR, (), False, id="in mode repair too"),
    pytest.param(Mode.OBSERVE, (), None, id="nothing does in mode observe"),
    pytest.param(Mode.REPAIR, (histories.INTOLERANT,), None, id="the taint is withheld"),
]


@pytest.mark.parametrize(("mode", "beside", "was_ready"), GUARDS)
def test_a_node_on_which_jobs_may_land_is_no_new_one(
    mode: Mode, beside: tuple[Finding, ...], *, was_ready: bool | None
) -> None:
    """It would be mended beside ten others, and at once where all have the same fault."""
    booted = replace(gate_readiness.state_at_start(None, BOOT, "uid-1", 10.0), was_ready=False)
    rules = replace(RULES, mode=mode)
    fresh = {PORT: CheckObservation(20.0, 20.0)}
    found = Observed((finding(PORT), FINE[1], *beside), fresh, full_round=True)
    agent_state, _ = reconciliation.reconcile(booted, found, rules, 20.0)
    assert agent_state.was_ready is was_ready
    assert repair_slots.is_serving(agent_state) is (was_ready is None)


def test_the_kernel_log_frees_a_latch() -> None:
    agent_state, _ = ready()
    found = finding("klog.nic", reason="Fatal")
    agent_state, _ = look(agent_state, 60.0, FINE[0], found)
    line = KernelLogLine(1, 65.0, 6, from_kernel=True, text=f"mlx5_core {PLACE}: firmware version: 28.41.1000")
    agent_state, _ = reconciliation.reconcile(
        agent_state, Observed((FINE[0], found), log=KernelLog(66.0, (line,))), RULES, 66.0
    )
    assert not agent_state.cases[0].latched


def grown() -> AgentState:
    """The memory of a node that is ready, at the moment at which a gate came to its profile: 100."""
    agent_state, _ = ready()
    pass_streaks = {check_id: streak for check_id, streak in agent_state.pass_streaks.items() if check_id != PORT}
    return rule_change.with_pending_gates(replace(agent_state, pass_streaks=pass_streaks), [PORT], 100.0)


def test_an_open_gate_waits_for_a_check_that_came_to_it_and_for_ten_minutes() -> None:
    agent_state, told = reconciliation.reconcile(grown(), Observed(FINE), RULES, 100.0)
    assert (told.state, told.taints, told.profiles[0].ready, told.profiles[0].device) == (
        NodeState.READY,
        (),
        True,
        True,
    )
    assert told.conditions[0].reason == "GatesToPass"
    assert told.conditions[0].message == "the gate stays open, though new there and yet to pass: port.state"
    assert (told.conditions[1].status, told.conditions[1].message) == (
        "True",
        "1 of 2 gate checks pass; new there and yet to pass: port.state",
    )
    assert reconciliation.reconcile(agent_state, Observed(), RULES, 699.9)[1].profiles[0].ready
    agent_state, told = reconciliation.reconcile(agent_state, Observed(), RULES, 700.0)
    assert (told.state, bool(told.taints), told.profiles[0].ready) == (NodeState.BOOTSTRAP, True, False)
    assert not told.profiles[0].device


def test_a_check_that_came_to_an_open_gate_passes_or_closes_it() -> None:
    agent_state, _ = look(look(grown(), 110.0, *FINE)[0], 125.0, *FINE)
    agent_state, told = look(agent_state, 140.0, *FINE)
    assert (told.conditions[0].reason, agent_state.pass_streaks[PORT].proven) == ("Ready", True)
    agent_state, told = look(grown(), 110.0, finding(PORT), FINE[1])
    assert told.taints == ()
    agent_state, told = look(agent_state, 110.6, finding(PORT), FINE[1])
    assert told.state is not NodeState.READY
    assert told.taints == (Taint("nodeprep.io/unhealthy", "NoSignal", "NoSchedule"),)


def test_what_is_closed_waits_for_nothing() -> None:
    """A fault beside it closes the gate: then the new check is to pass as any other."""
    agent_state, told = look(grown(), 110.0, FINE[0], finding("klog.nic", reason="Fatal"))
    assert told.state is not NodeState.READY
    released = replace(agent_state, cases=(), state=NodeState.BOOTSTRAP)
    assert reconciliation.reconcile(released, Observed(), RULES, 120.0)[1].state is NodeState.BOOTSTRAP
    assert not reconciliation.reconcile(replace(grown(), gates=()), Observed(), RULES, 120.0)[1].profiles[0].ready


RESULTS = st.text("owfua", min_size=len(ALL_WELL), max_size=len(ALL_WELL))
PAUSES = st.sampled_from(histories.PAUSES)
LOOKS = st.tuples(st.just("look"), PAUSES, RESULTS, st.text("fs", min_size=len(ALL_FRESH), max_size=len(ALL_FRESH)))
WELL = st.tuples(st.just("look"), PAUSES, st.just(ALL_WELL), st.just(ALL_FRESH))
STEPS = st.tuples(st.just("step"), st.sampled_from(histories.STEPS), st.just(""), st.just(""))
OTHERS = st.tuples(
    st.sampled_from([what for what in histories.OTHERS if what != "step"]),
    st.integers(0, 19).map(float),
    st.just(""),
    st.just(""),
)


@settings(max_examples=300, deadline=None)
@given(world=st.sampled_from(WORLDS), events=st.lists(st.one_of(WELL, LOOKS, STEPS, OTHERS), max_size=30))
def test_no_history_opens_what_it_has_not_earned(world: histories.World, events: list[Event]) -> None:
    histories.play(world, events)


def test_thousands_of_drawn_histories_violate_nothing() -> None:
    """`python tests/histories.py` plays as many as are wanted."""
    met, violated = histories.survey(2000, seed=0)
    assert violated == ""
    assert {what for what, times in met.items() if times >= 20} >= {
        "opened",
        "tainted",
        "convicted",
        "released",
        "latched",
    }


NEW = check("port.gid")
ASKS = AgentPolicy(checks(NEW), (AssignedProfile("rdma", (NEW.id,), gating=True, rdma=True),), Mode.GATE)


def newcomers(*looks: tuple[float, Status]) -> tuple[AgentState, list[bool], tuple[str, str]]:
    """An open profile to which a gate came at 100, looked at so: whether it was open each time, and the condition."""
    opened = (("rdma", "device"), ("rdma", "ready"))
    pass_streaks = {"port.state": PassStreak(3, 10.0, 40.0, proven=True)}
    agent_state = AgentState(
        BOOT, "uid-1", state=NodeState.READY, gates=opened, pass_streaks=pass_streaks, unproven_until={NEW.id: 700.0}
    )
    stood, said = [], ("", "")
    for at, status in looks:
        heard = Observed((finding(NEW.id, status),), {NEW.id: observation(at)}, full_round=True)
        agent_state, told = reconciliation.reconcile(agent_state, heard, ASKS, at)
        stood.append(told.profiles[0].ready and told.profiles[0].device)
        said = (told.conditions[0].status, told.conditions[0].reason)
    return agent_state, stood, said


BLIND, PASS, FAIL = Status.UNKNOWN, Status.OK, Status.FAIL
COMES: list[tuple[list[tuple[float, Status]], list[bool], tuple[str, str]]] = [
    # looks at it in turn, whether the profile stands open after each, what TrainingReady says in the end
    ([(110, BLIND), (690, BLIND)], [True, True], ("True", "GatesToPass")),
    ([(110, BLIND), (710, BLIND), (9000, BLIND)], [True, True, True], ("Unknown", "CannotLook")),
    ([(110, BLIND), (900, BLIND), (910, PASS), (925, PASS), (940, PASS)], [True] * 5, ("True", "Ready")),
    ([(110, BLIND), (900, BLIND), (910, FAIL), (911, FAIL)], [True, True, True, False], ("False", "NoSignal")),
    ([(110, FAIL), (111, FAIL)], [True, False], ("False", "NoSignal")),
    ([(110, BLIND), (900, BLIND), (910, PASS), (1509, PASS)], [True] * 4, ("True", "GatesToPass")),
]


@pytest.mark.parametrize(("looks", "stands", "says"), COMES)
def test_a_new_gate_that_cannot_look_closes_nothing(
    looks: list[tuple[float, Status]], stands: list[bool], says: tuple[str, str]
) -> None:
    after, stood, said = newcomers(*looks)
    assert (stood, said) == (stands, says)
    assert (after.state is NodeState.READY) is stands[-1]


def test_nothing_opens_while_a_new_gate_cannot_look() -> None:
    agent_state, stood, _ = newcomers((110, BLIND), (900, BLIND))
    assert stood == [True, True]
    shut = replace(agent_state, gates=())
    _, told = reconciliation.reconcile(
        shut, Observed((finding(NEW.id, BLIND),), {NEW.id: observation(910)}, full_round=True), ASKS, 910
    )
    assert (told.profiles[0].ready, told.profiles[0].device) == (False, False)


WELL_3: list[Event] = [("look", 16.0, ALL_WELL, ALL_FRESH)] * 3
BAD_3: list[Event] = [("look", 16.0, "foo", ALL_FRESH)] * 3
MET: list[tuple[list[Event], set[str]]] = [
    (WELL_3[1:], {"tainted"}),
    (WELL_3, {"tainted", "opened"}),
    (WELL_3 + BAD_3, {"tainted", "opened", "convicted"}),
    (WELL_3 + BAD_3 + WELL_3, {"tainted", "opened", "convicted", "released"}),
    ((BAD_3 + WELL_3) * 3, {"tainted", "opened", "convicted", "released", "latched"}),
]


@pytest.mark.parametrize(("events", "met"), MET)
def test_histories_meet_what_they_are_to_be_judged_by(events: list[Event], met: set[str]) -> None:
    assert WORLDS[0].ids[0] == STATE
    assert histories.play(WORLDS[0], events) == met
