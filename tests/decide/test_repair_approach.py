"""The steps before a remedy runs: what each wants to see, and that each fails closed."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.agent_state import AgentState
from nodeprep.decide import fleet_notes, repair_approach, repair_attempt, repair_choice
from nodeprep.decide.repair_approach import (
    ApproachAction,
    ApproachOutcome,
    ApproachReport,
    ApproachStep,
    FleetRead,
    NodeRead,
    PodsRead,
    RepairApproach,
    SlotAnswer,
)
from nodeprep.decide.repair_choice import LastLook, RepairChoice, RepairTerms
from nodeprep.decide.repair_refusal import SuppressionReason
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Remedy, Subject
from nodeprep.values import replace
from tests import cluster_values
from tests.agent_state_values import attempt, past
from tests.repair_values import (
    NOW,
    OWN,
    RESCAN,
    WALL,
    agent_lease,
    fleet,
    last_look,
    new,
    node,
    slot,
    terms,
    unhealthy,
    without,
    wrong,
)

STATE = unhealthy(wrong(RESCAN))
TRAINS = cluster_values.pod(requests={"rdma/hca": 8})
R = SuppressionReason
NODE = NodeRead(NOW, node())
PODS = PodsRead(NOW + 10, node(), ())
FLEET = FleetRead(NOW + 11, True, fleet())
SLOT = SlotAnswer(NOW + 12, "nodeprep-slot-0", True)
WAY: tuple[ApproachReport, ...] = (NODE, PODS, FLEET, SLOT)


def chosen(state: AgentState = STATE, at: float = NOW) -> RepairChoice:
    return repair_choice.choose(state, terms(at))


def begun(state: AgentState = STATE) -> RepairApproach:
    candidate = chosen(state).candidate
    assert candidate is not None
    return repair_approach.begun("a" * 32, candidate, NOW)


def after(approach: RepairApproach, report: ApproachReport, at: float, state: AgentState = STATE) -> ApproachOutcome:
    """The outcome of a report, in a turn at this time."""
    went = repair_approach.went_on(approach, chosen(state, at), terms(at))
    assert went.approach is not None
    return repair_approach.after(went.approach, report, state, terms(at), OWN)


def walked(*reports: ApproachReport, state: AgentState = STATE) -> RepairApproach:
    """The approach after these reports, each a second after it began."""
    approach = begun(state)
    for report in reports:
        outcome = after(approach, report, report.began + 1, state)
        assert outcome.approach is not None, outcome.suppressed
        approach = outcome.approach
    return approach


def test_the_whole_way_takes_eleven_seconds_and_more() -> None:
    steps = [walked(*WAY[:number]).step for number in range(5)]
    assert steps == ["taint", "settling", "fleet", "slot", "ready"]
    ready = walked(*WAY)
    assert (ready.slot.name, ready.slot_until) == ("nodeprep-slot-0", NOW + 12 + 840)
    state = repair_attempt.begun(STATE, ready, chosen(at=NOW + 13), terms(NOW + 13))
    assert state is not None
    assert state.attempt is not None
    assert (state.attempt.step, state.attempt.remedy, state.slot) == ("ledger", "pci_rescan", "nodeprep-slot-0")


ACTIONS = [
    ((), ApproachAction.READ_NODE, NOW),
    ((NodeRead(NOW, node(taints=())),), ApproachAction.READ_NODE, NOW + 2),
    ((NODE,), ApproachAction.WAIT, NOW + 10),
    ((NODE, PODS), ApproachAction.TELL_AND_LIST_FLEET, NOW),
    ((NODE, PODS, FLEET), ApproachAction.TAKE_SLOT, NOW),
    (WAY, ApproachAction.WRITE_LEDGER, NOW),
]


@pytest.mark.parametrize(("reports", "action", "at"), ACTIONS)
def test_what_is_asked_next(reports: tuple[ApproachReport, ...], action: ApproachAction, at: float) -> None:
    assert repair_approach.action(walked(*reports), terms(NOW)) == (action, at)


def test_after_the_wait_the_pods_are_asked_for() -> None:
    settled = repair_approach.went_on(walked(NODE), chosen(at=NOW + 10), terms(NOW + 10)).approach
    assert settled is not None
    assert repair_approach.action(settled, terms(NOW + 10)) == (ApproachAction.READ_NODE_AND_PODS, NOW + 10)
    early = repair_approach.went_on(walked(NODE), chosen(at=NOW + 9.9), terms(NOW + 9.9)).approach
    assert early is not None
    assert early.step is ApproachStep.SETTLING


SUBJECT = wrong(RESCAN).subject
EARLY = [
    pytest.param(LastLook(), id="nothing was looked at"),
    pytest.param(last_look(NOW + 9.9, SUBJECT), id="before the wait was over"),
    pytest.param(LastLook({Rdma: NOW + 11, Cluster: NOW + 9}, frozenset({SUBJECT})), id="a record is older"),
    pytest.param(last_look(NOW + 11, Subject("0000:ff:00.0")), id="another fails now"),
]


@pytest.mark.parametrize("look", EARLY)
def test_nothing_acts_on_what_was_seen_before_the_wait_was_over(look: LastLook) -> None:
    """A daemon that came back meanwhile, and whose record is read each 15 minutes, must not be stopped."""
    early = terms(NOW + 11, last_look=look)
    waits = repair_approach.went_on(walked(NODE), chosen(at=NOW + 11), early).approach
    assert waits is not None
    assert repair_approach.action(waits, early) == (ApproachAction.WAIT, NOW + 11.5)
    late = terms(NOW + 70.1, last_look=look)
    given_up = repair_approach.went_on(waits, chosen(at=NOW + 70.1), late)
    assert given_up.approach is None
    assert given_up.suppressed is not None
    assert given_up.suppressed.reason is R.UNSEEN
    assert given_up.suppressed.why.startswith("mlx5_3/1: ")
    is_late = any(at < NOW + 10 for at in look.begun.values())
    assert ("no look at" in given_up.suppressed.why) is is_late
    seen = repair_approach.went_on(waits, chosen(at=NOW + 11), terms(NOW + 11, last_look=last_look(NOW + 10)))
    assert seen.approach is not None
    assert seen.approach.step is ApproachStep.PODS


ASKED = [
    # now, when each of two facts was looked at, what is wanted when
    (5.0, 4.0, 4.0, {Rdma: 10.0, Cluster: 10.0}),
    (10.5, 10.1, 4.0, {Cluster: 10.0}),
    (19.9, 10.1, 4.0, {Cluster: 10.0}),
    (20.0, 10.1, 4.0, {Cluster: 20.0}),
    (20.0, 10.1, 10.0, {}),
]


@pytest.mark.parametrize(("now", "rdma", "cluster", "wanted"), ASKED)
def test_so_all_that_its_check_needs_is_looked_at_when_the_wait_is_over(
    now: float, rdma: float, cluster: float, wanted: dict[type, float]
) -> None:
    """What did not come is asked for again: a record may be late, or its keeper."""
    known = terms(NOW + now, last_look=LastLook({Rdma: NOW + rdma, Cluster: NOW + cluster}))
    asked = repair_approach.wanted_facts(walked(NODE), known)
    assert asked == {kind: NOW + at for kind, at in wanted.items()}


def test_nobody_asks_for_a_look_in_another_step() -> None:
    known = terms(last_look=LastLook({Rdma: NOW - 1}))
    assert [repair_approach.wanted_facts(one, known) for one in (None, begun(), walked(NODE, PODS))] == [{}] * 3


def test_a_young_conviction_waits_longer() -> None:
    young = unhealthy(wrong(RESCAN, ago=5.0))
    approach = walked(NODE, state=young)
    assert repair_approach.settled_at(approach, terms()) == NOW + 25
    outcome = repair_approach.after(replace(approach, step=ApproachStep.PODS), PODS, young, terms(NOW + 11), OWN)
    assert outcome.approach is not None
    assert outcome.approach.step is ApproachStep.PODS  # a list from before the conviction is old enough proves nothing


STOPS: list[tuple[tuple[ApproachReport, ...], SuppressionReason, str]] = [
    # the last of these reports stops the approach
    ((NodeRead(NOW, node(annotations={"nodeprep.io/pause": "cable"})),), R.PAUSED, "cable"),
    ((NodeRead(NOW, node(unschedulable=True)),), R.FOREIGN_MAINTENANCE, "cordoned"),
    ((NODE, replace(PODS, node=None, failure="timeout")), R.TAINT, "was not read"),
    ((NODE, replace(PODS, node=node(taints=()))), R.TAINT, "has no taint nodeprep.io/unhealthy:NoSchedule"),
    ((NODE, replace(PODS, node=node(taints=(("nodeprep.io/unhealthy", "PreferNoSchedule"),)))), R.TAINT, "no taint"),
    ((NODE, replace(PODS, node=node(uid="uid-2"))), R.TAINT, "another one"),
    ((NODE, replace(PODS, node=node(annotations={"nodeprep.io/released": ""}))), R.TAINT, "released"),
    ((NODE, replace(PODS, node=node(annotations={"nodeprep.io/pause": "x"}))), R.PAUSED, "x"),
    ((NODE, replace(PODS, node=node(deleting=True))), R.FOREIGN_MAINTENANCE, "deleted"),
    ((NODE, replace(PODS, pods=None, failure="403")), R.IDLE, "could not be listed: 403"),
    ((NODE, replace(PODS, pods=(TRAINS,))), R.IDLE, "default/client-b6989bf87-2bgtc (8 rdma/hca)"),
    (
        (NODE, PODS, replace(FLEET, leases=None, failure="500")),
        R.SLOT,
        "after our own was written: 500",
    ),
    ((NODE, PODS, replace(FLEET, is_told=False)), R.SLOT, "after our own was written"),
    ((NODE, PODS, replace(FLEET, leases=())), R.SLOT, "nodeprep-repair"),
    ((NODE, PODS, replace(FLEET, leases=without(fleet(), "nodeprep-slot-0"))), R.SLOT, "apply components/repair"),
    ((NODE, PODS, replace(FLEET, leases=fleet(slot(holder="n2")))), R.SLOT, "in repair: n2"),
    ((NODE, PODS, replace(FLEET, leases=fleet(orders={"nodeprep.io/pause": "x"}))), R.PAUSED, "the fleet"),
    ((NODE, PODS, replace(FLEET, date=WALL - 3589)), R.SLOT, "clock is 3600 s ahead of the API server's, wanted 60 s"),
    (
        (NODE, PODS, replace(FLEET, date=WALL + 86400)),
        R.SLOT,
        "s behind the API server's, wanted 60 s at most",
    ),
    (
        (
            NODE,
            PODS,
            replace(
                FLEET,
                leases=fleet(*(agent_lease(name, faults={"port.state/NoSignal": WALL}) for name in ("n2", "n3"))),
            ),
        ),
        R.CORRELATED,
        "n1, n2, n3",
    ),
    ((NODE, PODS, FLEET, replace(SLOT, is_taken=False, failure="409")), R.SLOT, "nodeprep-slot-0 was not taken: 409"),
]


@pytest.mark.parametrize(("reports", "reason", "says"), STOPS)
def test_a_step_fails_closed(reports: tuple[ApproachReport, ...], reason: SuppressionReason, says: str) -> None:
    approach = walked(*reports[:-1])
    outcome = after(approach, reports[-1], reports[-1].began + 1)
    assert outcome.approach is None
    assert outcome.suppressed is not None
    assert (outcome.suppressed.reason, outcome.suppressed.check) == (reason, "port.state")
    assert says in outcome.suppressed.why
    assert outcome.suppressed.until == reports[-1].began + 1 + 30.0
    assert outcome.give_back == approach.slot.name


def test_a_node_with_a_wrong_clock_takes_no_living_repair_for_dead() -> None:
    """Nor does it tell the fleet of a hold. Its clock is eight hours ahead, as one that was set in local time."""
    run = tuple(agent_lease(name, trying={"pci_rescan": fleet_notes.UNDER_WAY}) for name in ("n2", "n3", "n4"))
    others = tuple(replace(one, renewed=WALL - 8 * 3600 - 5) for one in run)
    read = replace(FLEET, leases=fleet(*others), date=WALL - 8 * 3600)
    outcome = after(walked(NODE, PODS), read, NOW + 12)
    assert outcome.suppressed is not None
    assert (outcome.suppressed.reason, outcome.held) == (R.SLOT, {})


def test_a_hold_that_was_seen_is_told_on() -> None:
    lame = tuple(agent_lease(name, unhelpful={"pci_rescan": WALL - 5}) for name in ("n2", "n3", "n4"))
    outcome = after(walked(NODE, PODS), replace(FLEET, leases=fleet(*lame)), NOW + 12)
    assert outcome.suppressed is not None
    assert (outcome.suppressed.reason, outcome.held) == (R.HELD, {"pci_rescan": WALL - 5})


def test_a_driver_that_a_pod_of_an_operator_brings_is_left_alone() -> None:
    """The facts may be as old as the agent's last look at the cluster, or the agent just started."""
    state = unhealthy(wrong(Remedy("kernel_modules", {"module": "mlx5_core"})))
    brings = cluster_values.pod(writes=("/run/mellanox/drivers",))
    outcome = after(walked(NODE, state=state), replace(PODS, pods=(brings,)), NOW + 11, state)
    assert outcome.suppressed is not None
    assert outcome.suppressed.reason is R.OPERATOR_OWNED
    assert "NVIDIA's network operator owns mlx5_core" in outcome.suppressed.why
    assert walked(NODE, replace(PODS, pods=(TRAINS,)), state=state).step is ApproachStep.FLEET


def test_what_must_not_be_idle_is_not_asked_of_pods() -> None:
    """S1: the training pod goes on."""
    state = unhealthy(wrong())
    assert walked(NODE, replace(PODS, pods=(TRAINS,)), state=state).step is ApproachStep.FLEET


STALE: list[tuple[tuple[ApproachReport, ...], ApproachReport]] = [
    # an answer to a question that was asked too early, or to that of another step
    ((), replace(NODE, began=NOW - 1)),
    ((NODE,), replace(PODS, began=NOW + 9.9)),
    ((NODE, PODS), replace(FLEET, began=NOW + 9)),
    ((NODE, PODS, FLEET), replace(SLOT, began=NOW + 10)),
    ((NODE, PODS, FLEET), replace(SLOT, name="nodeprep-slot-1")),
    ((), PODS),
    ((), SLOT),
    ((NODE,), FLEET),
    ((NODE, PODS, FLEET), FLEET),
    (WAY, SLOT),
]


@pytest.mark.parametrize(("reports", "report"), STALE)
def test_an_answer_to_another_question_changes_nothing(
    reports: tuple[ApproachReport, ...], report: ApproachReport
) -> None:
    approach = walked(*reports)
    outcome = repair_approach.after(approach, report, STATE, terms(NOW + 13), OWN)
    assert outcome == ApproachOutcome(approach)


def test_the_taint_is_awaited_for_a_minute() -> None:
    waits = walked(NodeRead(NOW, node(taints=())))
    assert repair_approach.went_on(waits, chosen(at=NOW + 60), terms(NOW + 60)).approach is not None
    late = repair_approach.went_on(waits, chosen(at=NOW + 60.1), terms(NOW + 60.1))
    assert (late.approach, late.suppressed and late.suppressed.reason) == (None, R.TAINT)


AGED: list[tuple[tuple[ApproachReport, ...], float]] = [((NODE, PODS), 40.1), ((NODE, PODS, FLEET), 40.1), (WAY, 40.1)]


@pytest.mark.parametrize(("reports", "at"), AGED)
def test_what_was_seen_is_worth_half_a_minute(reports: tuple[ApproachReport, ...], at: float) -> None:
    """Ten seconds from the Node's read to the list of pods, and 30 s from that."""
    approach = walked(*reports)
    kept = repair_approach.went_on(approach, chosen(at=NOW + at - 0.2), terms(NOW + at - 0.2)).approach
    anew = repair_approach.went_on(approach, chosen(at=NOW + at), terms(NOW + at))
    assert kept is not None
    assert (kept.step, anew.approach and anew.approach.step) == (approach.step, ApproachStep.TAINT)
    assert anew.give_back == approach.slot.name


GONE: list[AgentState] = [
    unhealthy(wrong(RESCAN, passes=1, passing_since=NOW)),
    unhealthy(),
    unhealthy(wrong(replace(RESCAN, args={"bdf": "0000:ff:00.0"}))),
    unhealthy(wrong(RESCAN, reason="Another")),
    unhealthy(wrong(RESCAN, deferred_until=NOW - 1)),
    unhealthy(wrong(Remedy("driver_bind"), check="pci.driver-bound", port=None), wrong(RESCAN)),
]


@pytest.mark.parametrize("state", GONE)
def test_another_fault_or_none_ends_the_approach(state: AgentState) -> None:
    """Why it is not chosen any more the choice says, as long as it holds: nothing of it stays with the approach."""
    outcome = repair_approach.went_on(walked(*WAY), chosen(state, NOW + 13), terms(NOW + 13))
    assert (outcome.approach, outcome.suppressed) == (None, None)
    assert outcome.give_back == "nodeprep-slot-0"


def ledger(different_state: AgentState = STATE, at: float = NOW + 13, **different: Any) -> AgentState | None:
    given: RepairTerms = terms(at, **different)
    return repair_attempt.begun(different_state, walked(*WAY), repair_choice.choose(STATE, given), given)


LAST_MOMENT: list[tuple[AgentState, float, dict[str, Any]]] = [
    (STATE, NOW + 13, {"node": node(taints=())}),
    (STATE, NOW + 13, {"node": None}),
    (STATE, NOW + 13, {"memory": "full"}),
    (STATE, NOW + 40.1, {}),
    (unhealthy(wrong(RESCAN), node_uid="uid-2"), NOW + 13, {}),
    (unhealthy(wrong(RESCAN), attempt=attempt()), NOW + 13, {}),
    (unhealthy(wrong(RESCAN), attempts=(past(id="a" * 32),)), NOW + 13, {}),
]


@pytest.mark.parametrize(("state", "at", "different"), LAST_MOMENT)
def test_the_last_look_before_the_ledger(state: AgentState, at: float, different: dict[str, Any]) -> None:
    assert ledger(state, at, **different) is None
    assert ledger() is not None


def test_a_new_node_takes_a_slot_of_its_own() -> None:
    state = new(wrong(RESCAN))
    assert walked(NODE, PODS, FLEET, state=state).slot.name == "nodeprep-slot-bootstrap-0"


def test_a_slot_of_new_nodes_is_none_for_a_node_that_may_serve_by_now() -> None:
    """As after `nodeprep nodes release`, or where a plugin keeps our taint away."""
    way = (NODE, PODS, FLEET, replace(SLOT, name="nodeprep-slot-bootstrap-0"))
    ready = walked(*way, state=new(wrong(RESCAN)))
    assert ready.step == "ready"
    outcome = repair_approach.went_on(ready, chosen(at=NOW + 13), terms(NOW + 13))
    assert (outcome.approach, outcome.give_back) == (None, "nodeprep-slot-bootstrap-0")
