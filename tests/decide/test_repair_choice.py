"""Which remedy runs for which conviction: a table of every reason why not, and what is chosen where none holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.agent_state import AgentState, Case, NodeState
from nodeprep.decide import repair_choice, repair_refusal, repair_slots
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.driver_owner import DriverFamily
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.remediator_limits import RemediatorLimits, RunRefusal
from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.decide.repair_choice import RepairChoice, RepairTerms
from nodeprep.decide.repair_policy import RepairPolicy, RepairWaits
from nodeprep.decide.repair_refusal import Suppression, SuppressionReason
from nodeprep.model import Remedy
from nodeprep.values import replace
from tests.agent_state_values import BOOT, PLACE, attempt, past
from tests.repair_values import DRIVER, LINK_UP, NOW, PLUGIN, PORT, RESCAN, new, node, terms, unhealthy, wrong

APPROVED = "firmware;until=2027-01-20T00:00:00Z"  # WALL is 2027-01-15
FIRMWARE = wrong(Remedy("firmware"))
OF_ANOTHER = attempt("running", check=DRIVER, remedy="driver_bind")
KEY = repair_choice.key_of(wrong(), LINK_UP)
STOPPED = Suppression(SuppressionReason.IDLE, PORT, "link_up", "a pod has it", NOW + 20)
DRILL = DrillNotice("link-down", "eth2", ("mlx5_3/1",), BOOT, NOW - 500, NOW + 500)


def told(state: AgentState, given_terms: RepairTerms) -> list[str]:
    """What is chosen and what is not, in words."""
    choice = repair_choice.choose(state, given_terms)
    chosen = [choice.candidate.remedy.playbook] if choice.candidate else []
    return chosen + [f"{one.reason}: {one.check}" for one in choice.suppressed]


def refused(word: str, ago: float, stood: float = 100.0) -> AgentState:
    return unhealthy(wrong(ago=stood), attempts=(past("refused", refused=word, at=NOW - ago),))


R = SuppressionReason
ROWS: list[tuple[AgentState, dict[str, Any], SuppressionReason | None, str]] = [
    # state, terms, why not, a part of the line
    (unhealthy(wrong()), {}, None, ""),
    (new(wrong()), {}, None, ""),
    (unhealthy(wrong()), {"mode": Mode.GATE}, R.MODE, "mode is gate"),
    (unhealthy(wrong()), {"mode": Mode.OBSERVE}, R.MODE, "mode is observe"),
    (unhealthy(wrong(Remedy("erdma_install"))), {}, R.NOT_BUILT, "mirror of the driver's packages"),
    (unhealthy(wrong(Remedy("no_such"))), {}, R.NOT_BUILT, "this installation has no such remedy"),
    (unhealthy(wrong(deferred_until=NOW - 1)), {}, R.DISPUTED, "only this version takes it for a fault: a human says"),
    (unhealthy(wrong(deferred_by="version")), {}, R.DISPUTED, "right after another version, which may see wrong"),
    (unhealthy(wrong(opened_at=NOW - 50)), {"drill": DRILL}, R.DRILL, "drill link-down of eth2 made this fault"),
    (unhealthy(wrong(opened_at=NOW - 900)), {"drill": DRILL}, None, ""),
    (unhealthy(wrong(Remedy("reboot"))), {}, R.CLASS, "class S4"),
    (unhealthy(wrong(RESCAN)), {"policy": RepairPolicy(max_class=SafetyClass.S1)}, R.CLASS, "repair.max-class is S1"),
    (new(wrong(RESCAN)), {"policy": RepairPolicy(max_class=SafetyClass.S1)}, None, ""),
    (new(wrong(RESCAN)), {"policy": RepairPolicy(bootstrap_max_class=SafetyClass.S1)}, R.CLASS, "bootstrap-max-class"),
    (
        unhealthy(wrong(Remedy("kernel_modules", {"module": "mlx5_core"}))),
        {"families": frozenset({DriverFamily.MELLANOX})},
        R.OPERATOR_OWNED,
        "network operator owns mlx5_core",
    ),
    (unhealthy(wrong()), {"node": node(annotations={"nodeprep.io/pause": "cable"})}, R.PAUSED, "this node is paused"),
    (unhealthy(wrong()), {"node": node(unschedulable=True)}, R.FOREIGN_MAINTENANCE, "cordoned"),
    (unhealthy(wrong()), {"memory": "/var/lib/nodeprep: full"}, R.MEMORY, "full"),
    (unhealthy(wrong()), {"node": None}, R.TAINT, "was not read from the API server yet"),
    (unhealthy(wrong()), {"node": node(uid="uid-2")}, R.TAINT, "another one"),
    (unhealthy(wrong(), node_uid=""), {"node": node(uid="")}, R.TAINT, "another one"),
    (unhealthy(wrong()), {"gate": GatePolicy(effect="PreferNoSchedule")}, R.TAINT, "gate.effect is PreferNoSchedule"),
    (unhealthy(wrong()), {"node": node(annotations={"nodeprep.io/released": ""})}, R.TAINT, "released this Node"),
    (unhealthy(wrong()), {"taint": "no taint: kube-system/x does not tolerate it"}, R.TAINT, "kube-system/x"),
    (unhealthy(wrong()), {"node": node(taints=())}, None, ""),  # it is on its way: the approach reads it back
    (unhealthy(wrong(), attempts=(past(at=NOW - 10),)), {}, R.BACK_OFF, "the next comes in 50 s"),
    (unhealthy(wrong(), attempts=(past(at=NOW - 60),)), {}, None, ""),
    (unhealthy(wrong(), attempts=tuple(past(at=NOW) for _ in "123")), {}, R.BUDGET, "3 tries in 24 hours or in a row"),
    (unhealthy(wrong(), attempts=(past("changed", at=NOW),)), {}, None, ""),
    (refused("in-use", 100.0), {}, R.IDLE, "the remediator refused it (in-use)"),
    (refused("in-use", 120.0), {}, None, ""),
    (refused("in-use", 150.0, stood=400.0), {}, R.IDLE, "is asked again in 50 s"),  # after half of its age
    (refused("in-use", 200.0, stood=400.0), {}, None, ""),
    (refused("in-use", 3599.0, stood=86400.0), {}, R.IDLE, "is asked again in 1 s"),  # an hour at most
    (refused("doubt", 3600.0, stood=86400.0), {}, None, ""),
    (refused("version", 60.0, stood=86400.0), {}, None, ""),  # a rollout is over soon, however long it fails
    (refused("attempts", 30.0), {}, R.REMEDIATOR, "(attempts)"),  # nobody's tries are spent
    (refused("day", 30.0), {}, R.BUDGET, "(day)"),
    (
        unhealthy(wrong(), attempts=tuple(past(place="mlx5_9", at=NOW) for _ in range(24))),
        {},
        R.BUDGET,
        "24 attempts of all faults in 24 hours, wanted at most 24: look",
    ),
    (refused("version", 30.0), {}, R.REMEDIATOR, "(version)"),
    (refused("a newer word", 599.0), {}, R.REMEDIATOR, "(a newer word)"),
    (refused("a newer word", 600.0), {}, None, ""),
    (refused("unsaved", 10.0), {}, R.MEMORY, "(unsaved)"),
    (refused("unsent", 10.0), {}, R.REMEDIATOR, "(unsent)"),
    (unhealthy(FIRMWARE), {}, R.APPROVAL, "firmware runs only after an approval"),
    (unhealthy(FIRMWARE), {"node": node(annotations={"nodeprep.io/approve": APPROVED})}, None, ""),
    (
        unhealthy(FIRMWARE, approved=APPROVED),
        {"node": node(annotations={"nodeprep.io/approve": APPROVED})},
        R.APPROVAL,
        "was used",
    ),
    (unhealthy(wrong()), {"remediator": "/run/x: nobody listens"}, R.REMEDIATOR, "nobody listens"),
    (unhealthy(wrong(), attempt=OF_ANOTHER), {}, R.BUSY, "driver_bind for pci.driver-bound runs"),
    (unhealthy(wrong(), attempt=replace(OF_ANOTHER, step="validating")), {}, R.BUSY, "one at a time"),
    (unhealthy(wrong()), {"stopped": {KEY: STOPPED}}, R.IDLE, "a pod has it"),
    (unhealthy(wrong()), {"stopped": {KEY: replace(STOPPED, until=NOW)}}, None, ""),
]


def test_what_is_being_mended_is_neither_chosen_nor_held_back() -> None:
    for step in ("ledger", "running", "validating"):
        assert repair_choice.choose(unhealthy(wrong(), attempt=attempt(step)), terms()) == RepairChoice()


def test_who_was_stopped_lets_another_pass() -> None:
    other = wrong(RESCAN, check=DRIVER, place="0000:5d:00.0")
    state = unhealthy(other, wrong())
    first = repair_choice.choose(state, terms())
    assert first.candidate is not None
    assert first.candidate.case.check == DRIVER
    then = repair_choice.choose(state, terms(stopped={first.candidate.key: STOPPED}))
    assert then.candidate is not None
    assert (then.candidate.case.check, then.suppressed) == (PORT, (STOPPED,))


@pytest.mark.parametrize(("state", "different", "reason", "says"), ROWS)
def test_a_remedy_runs_or_not(
    state: AgentState, different: dict[str, Any], reason: SuppressionReason | None, says: str
) -> None:
    choice = repair_choice.choose(state, terms(**different))
    if reason is None:
        assert choice.candidate is not None
        assert choice.suppressed == ()
        return
    (one,) = choice.suppressed
    assert (choice.candidate, one.reason) == (None, reason)
    assert says in one.why
    assert one.why.isprintable()


def test_every_reason_is_seen_here_or_belongs_to_the_steps() -> None:
    of_steps = {R.SLOT, R.CORRELATED, R.HELD, R.UNSEEN}  # tests of repair_approach
    assert {reason for _, _, reason, _ in ROWS if reason} == set(R) - of_steps


def test_every_refusal_of_the_remediator_has_a_meaning() -> None:
    assert repair_refusal.REFUSAL_MEANINGS.keys() == set(RunRefusal)
    assert all(repair_refusal.meaning(word) is one for word, one in repair_refusal.REFUSAL_MEANINGS.items())


NOT_WANTED: list[Case] = [
    wrong(None),
    wrong(latched="3 times"),
    wrong(passes=1, passing_since=NOW - 1),
    wrong(blind=True),
    wrong(convicted_at=None),
    wrong(deferred_until=NOW + 1),  # it closes no gate yet
    wrong(check="time.sync"),  # no gate
]


@pytest.mark.parametrize("case", NOT_WANTED)
def test_what_is_no_root_that_fails_now_is_not_due(case: Case) -> None:
    assert told(unhealthy(case), terms()) == []


def test_only_roots_are_mended() -> None:
    """The port is down because its function has no driver."""
    driver = wrong(Remedy("driver_bind"), check=DRIVER, port=None)
    assert told(unhealthy(wrong(), driver), terms()) == ["driver_bind"]
    elsewhere = replace(driver, place="0000:ff:00.0")
    assert told(unhealthy(wrong(), elsewhere), terms()) == ["driver_bind"]
    assert told(unhealthy(wrong(), replace(driver, remedy=None)), terms()) == []


def test_what_is_held_back_keeps_no_other_from_being_mended() -> None:
    spent = tuple(past(at=NOW) for _ in "123")
    other = wrong(Remedy("plugin_restart"), check=PLUGIN, place="rdma/hca", port=None)
    assert told(unhealthy(wrong(), other, attempts=spent), terms()) == ["plugin_restart", "budget: port.state"]


def test_one_that_is_due_comes_before_one_that_is_not() -> None:
    young = wrong(Remedy("driver_bind"), ago=5.0, check=DRIVER, place="0000:ff:00.0", port=None)
    assert told(unhealthy(young, wrong()), terms()) == ["link_up"]
    assert told(unhealthy(young), terms()) == ["driver_bind"]
    assert told(unhealthy(young), terms(mode=Mode.GATE)) == []  # not due, so it is not counted


DUE = [
    # readiness.remedy-after, the floor, seconds from the conviction
    (30.0, 30.0, 30.0),
    (0.0, 30.0, 30.0),
    (90.0, 30.0, 90.0),
    (0.0, 1.0, 1.0),
]


@pytest.mark.parametrize(("after", "floor", "due"), DUE)
def test_no_configuration_makes_a_conviction_younger_than_the_floor(after: float, floor: float, due: float) -> None:
    waits = RepairWaits(conviction=floor)
    choice = repair_choice.choose(unhealthy(wrong(ago=100.0)), terms(remedy_after=after, waits=waits))
    assert choice.candidate is not None
    assert choice.candidate.due_at == NOW - 100.0 + due


SERVES = [
    (unhealthy(was_ready=True), True),
    (new(was_ready=True), True),
    (new(was_ready=None), True),  # a memory that was lost
    (new(), False),
    (new(state=NodeState.AWAITING_HUMAN), False),
    (unhealthy(was_ready=False), True),
    (new(state=NodeState.READY), True),
]


@pytest.mark.parametrize(("state", "serves"), SERVES)
def test_a_node_serves(state: AgentState, *, serves: bool) -> None:
    assert repair_slots.is_serving(state) is serves
    choice = repair_choice.choose(replace(state, cases=(wrong(),)), terms())
    assert choice.candidate is not None
    assert choice.candidate.serving is serves


def test_a_node_that_no_agent_ever_described_is_new() -> None:
    """Both have no memory. The second had one, and may serve jobs."""
    forgetful = new(was_ready=None)
    assert repair_slots.met(forgetful, "", 60.0).was_ready is False
    assert repair_slots.met(forgetful, "Bootstrap", 60.0).was_ready is None
    assert repair_slots.met(unhealthy(), "", 60.0).was_ready is True


@pytest.mark.parametrize(
    ("age", "is_new"), [(0.0, True), (3599.0, True), (3600.0, False), (None, False), (-61.0, False)]
)
def test_an_old_node_of_which_no_agent_said_anything_may_serve(age: float | None, *, is_new: bool) -> None:
    """nodeprep was just installed there: ten such nodes at once, and no correlation hold, is for none that has jobs."""
    found = repair_slots.met(new(was_ready=None), "", age)
    assert found.was_ready is (False if is_new else None)
    assert repair_slots.is_serving(found) is not is_new


def test_an_approval_is_used_by_a_remedy_that_needs_one() -> None:
    approving = terms(node=node(annotations={"nodeprep.io/approve": APPROVED}))
    with_need = repair_choice.choose(unhealthy(FIRMWARE), approving).candidate
    without = repair_choice.choose(unhealthy(wrong()), approving).candidate
    assert with_need is not None
    assert without is not None
    assert (with_need.approval, without.approval) == (APPROVED, "")


CASES = st.builds(
    wrong,
    st.sampled_from([None, LINK_UP, RESCAN, Remedy("firmware"), Remedy("reboot"), Remedy("nothing")]),
    st.floats(0, 200),
    check=st.sampled_from(["port.state", DRIVER, PLUGIN, "time.sync"]),
    place=st.sampled_from([PLACE, "0000:ff:00.0", ""]),
    latched=st.sampled_from(["", "", "3 times"]),
    passes=st.sampled_from([0, 0, 1]),
    blind=st.booleans(),
    deferred_until=st.sampled_from([None, None, NOW - 1, NOW + 1]),
)


@given(
    st.lists(CASES, max_size=5),
    st.sampled_from(Mode),
    st.booleans(),
    st.sampled_from(["", "trouble"]),
    st.sampled_from([None, attempt("running")]),
)
def test_whatever_is_chosen_may_run(cases: list[Case], mode: Mode, is_new: bool, memory: str, under_way: Any) -> None:
    """By rules of this test's own. And nothing that is due is left out in silence, but for what waits its turn."""
    state = (new if is_new else unhealthy)(*cases, attempt=under_way)
    choice = repair_choice.choose(state, terms(mode=mode, memory=memory))
    if choice.candidate is not None:
        case, header = choice.candidate.case, choice.candidate.header
        assert (mode, memory, under_way) == (Mode.REPAIR, "", None)
        assert case in cases
        assert case.convicted
        assert (case.latched, case.passes, case.blind, case.deferred_until) == ("", 0, False, None)
        assert case.check in terms().gates
        assert header.safety in (SafetyClass.S1, SafetyClass.S2)
        assert choice.candidate.due_at - (case.convicted_at or 0) == 30.0
    mended = None if under_way is None else (under_way.check, under_way.subject)
    wanted = [case for case, _ in repair_choice.wanted(state, terms()) if (case.check, case.subject) != mended]
    due = [case for case in wanted if NOW - (case.convicted_at or 0) >= 30.0]
    if mode is not Mode.REPAIR or memory or under_way:
        assert len(choice.suppressed) == len(due)
    assert len(choice.suppressed) + (choice.candidate is not None) >= min(len(due), 1)


def test_who_is_held_back_again_and_again_asks_ever_more_rarely() -> None:
    in_use = [repair_refusal.waits(R.IDLE, times, 0.0) for times in range(1, 7)]
    assert in_use == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert repair_refusal.waits(R.CORRELATED, 1000, 0.0) == 20.0
    assert repair_refusal.waits(R.TAINT, 1000, 0.0) == repair_refusal.USUAL_LONGEST_WAIT
    assert repair_refusal.waits(R.IDLE, 1, 1.0) == 1.0 + repair_refusal.WAIT_SPREAD_SHARE, "nodes of a fleet come apart"


def test_eight_devices_in_use_all_day_leave_the_other_remedies_their_attempts() -> None:
    """The remediator has 240 attempts a day, and each question about a device in use is one."""
    asked, at, state = 0, NOW, unhealthy(wrong())
    while at < NOW + 86400.0:
        choice = repair_choice.choose(state, terms(at))
        if choice.candidate is not None:
            asked += 1
            state = replace(state, attempts=(past("refused", refused="in-use", at=at, wall=terms(at).clock.wall),))
        at += 30.0
    assert 24 <= asked <= RemediatorLimits().attempts / 8 + 5


def test_one_that_is_on_its_way_goes_on_and_lets_none_pass_that_is_due() -> None:
    """A remedy that waits for pods is approached again and again. Without this no other would get to its end."""
    first, second = wrong(LINK_UP), wrong(RESCAN, check_id=DRIVER, place="0000:ff:00.0")
    state = unhealthy(first, second)
    usual = repair_choice.choose(state, terms()).candidate
    assert usual is not None
    for case in (first, second):
        assert case.remedy is not None
        key = repair_choice.key_of(case, case.remedy)
        chosen = repair_choice.choose(state, terms(approached=key)).candidate
        assert chosen is not None
        assert chosen.key == key
    young = unhealthy(first, wrong(RESCAN, ago=5.0, check_id=DRIVER, place="0000:ff:00.0"))
    early = repair_choice.choose(young, terms(approached=repair_choice.key_of(second, RESCAN))).candidate
    assert early is not None
    assert early.remedy == LINK_UP
