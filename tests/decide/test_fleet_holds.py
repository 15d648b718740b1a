"""What agents tell each other by their Leases, the holds that follow from it, and who gets a slot."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.config import keys
from nodeprep.decide import attempt_steps, fleet_holds, fleet_notes, repair_slots
from nodeprep.decide.fleet_holds import FLEET
from nodeprep.decide.fleet_notes import FleetLease, RepairNote
from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.decide.repair_policy import SHIPPED_WAITS, RepairPolicy
from nodeprep.decide.repair_refusal import SuppressionReason
from nodeprep.publish import admission_policy, agent_lease
from nodeprep.repair import remediator
from nodeprep.values import replace
from tests.agent_state_values import attempt, past
from tests.repair_values import NOW, OWN, WALL, clock, fleet, new, slot, unhealthy, without, wrong
from tests.repair_values import agent_lease as lease_of

FAULT, REMEDY = "port.state/NoSignal", "link_up"
MINUTE = 60.0


def ill(node: str, minutes: float = 0.0, fault: str = FAULT) -> FleetLease:
    """A serving node that has the fault since so many minutes."""
    return lease_of(node, faults={fault: WALL - minutes * MINUTE})


def failed(node: str, minutes: float = 1.0) -> FleetLease:
    return lease_of(node, unhelpful={REMEDY: WALL - minutes * MINUTE})


def tries(node: str, minutes: float = 1.0) -> FleetLease:
    return lease_of(node, trying={REMEDY: WALL - minutes * MINUTE})


def runs(node: str) -> FleetLease:
    """It runs the remedy now: no clock says since when."""
    return lease_of(node, trying={REMEDY: fleet_notes.UNDER_WAY})


def silent(lease: FleetLease, minutes: float) -> FleetLease:
    """Its agent has not renewed it for so many minutes."""
    return replace(lease, renewed=WALL - minutes * MINUTE)


HELPED = lease_of("n9", helped={REMEDY: WALL - 9e6})
BLIND = [lease_of(name, unreadable=True) for name in ("b1", "b2", "b3")]
RESUMED = {"nodeprep.io/resumed.link_up": "2027-01-15T07:30:00Z"}  # half an hour ago: WALL is 08:00
R = SuppressionReason

HELD: list[tuple[tuple[FleetLease, ...], bool, SuppressionReason | None, str]] = [
    # Leases, whether this node serves, what holds the remedy back, a part of the line
    (fleet(), True, None, ""),
    (fleet(), False, None, ""),
    (without(fleet(), FLEET), True, R.SLOT, "no Lease nodeprep-repair: apply components/repair"),
    (without(fleet(), "agent-n1"), True, R.SLOT, "no Lease agent-n1"),
    (fleet(orders={"nodeprep.io/pause": "upgrade"}), True, R.PAUSED, "the fleet (Lease nodeprep-repair) is paused"),
    (fleet(orders={"nodeprep.io/pause": "upgrade"}), False, R.PAUSED, "(upgrade)"),
    # the same fault elsewhere
    (fleet(ill("n2")), True, None, ""),
    (fleet(ill("n2"), ill("n3")), True, R.CORRELATED, "is on 3 nodes within 10 min (n1, n2, n3)"),
    (fleet(ill("n2"), ill("n3")), False, None, ""),
    (fleet(ill("n2", 10.0), ill("n3", 5.0)), True, R.CORRELATED, "repairs go on in 30 min"),
    (fleet(ill("n2", 10.1), ill("n3", 5.0)), True, None, ""),
    (fleet(ill("n2"), ill("n3", fault="port.state/NotActive")), True, None, ""),
    (fleet(ill("n2"), ill("n3", -60.0)), True, R.CORRELATED, ""),  # a time to come is now
    (fleet(ill("n2", 20.0), ill("n3", 22.0), ill("n4", 29.0)), True, R.CORRELATED, "go on in 10 min"),
    (fleet(ill("n2", 31.0), ill("n3", 32.0), ill("n4", 39.0)), True, None, ""),  # the hold is over
    (fleet(ill("n2"), BLIND[0]), True, R.CORRELATED, ""),
    (fleet(*BLIND), True, R.CORRELATED, ""),
    # a remedy that does not help
    (fleet(HELPED, failed("n2"), failed("n3")), True, None, ""),
    (fleet(HELPED, failed("n2"), failed("n3"), failed("n4")), True, R.HELD, "nodeprep repair resume --remedy link_up"),
    (fleet(HELPED, failed("n2"), failed("n3"), failed("n4")), False, R.HELD, "n2, n3, n4"),
    (fleet(HELPED, failed("n2", 1439), failed("n3", 1439), failed("n4", 1439)), False, R.HELD, ""),
    (fleet(HELPED, failed("n2", 1441), failed("n3"), failed("n4")), False, None, ""),  # more than a day
    (fleet(HELPED, lease_of("n2", held={REMEDY: WALL - 9e6})), False, R.HELD, ""),  # what was held is for ever
    (fleet(failed("n2"), failed("n3"), failed("n4"), orders=RESUMED), False, R.HELD, ""),  # since the resume
    (fleet(HELPED, failed("n2", 31), failed("n3", 31), failed("n4"), orders=RESUMED), False, None, ""),
    (fleet(HELPED, failed("n2"), failed("n3"), BLIND[0]), False, R.HELD, "b1"),
    (fleet(HELPED, *BLIND), False, None, ""),  # nobody says anything of this remedy
    (fleet(HELPED, lease_of("n2", held={REMEDY: WALL - 60})), False, R.HELD, "on several nodes, as n2 saw"),
    (fleet(HELPED, lease_of("n2", held={REMEDY: WALL + 61})), False, None, ""),  # nobody saw that yet
    (fleet(HELPED, lease_of("n2", held={REMEDY: 9e15}), orders=RESUMED), False, None, ""),
    (fleet(HELPED, lease_of("n2", held={REMEDY: WALL - 3600}), orders=RESUMED), False, None, ""),
    (fleet(HELPED, lease_of("n2", held={"mtu": WALL})), False, None, ""),
    # one that helped nowhere yet
    (fleet(tries("n2"), tries("n3")), False, None, ""),
    (fleet(tries("n2"), tries("n3"), tries("n4")), False, R.SLOT, "tried out on n2, n3, n4"),
    (fleet(tries("n2"), tries("n3"), tries("n4")), True, R.SLOT, ""),
    (fleet(tries("n2"), tries("n3"), tries("n4"), HELPED), False, None, ""),
    (fleet(tries("n2"), tries("n3"), failed("n4")), False, R.SLOT, ""),
    (fleet(tries("n2"), failed("n3"), failed("n4")), False, R.SLOT, ""),
    (fleet(tries("n2"), tries("n3", 15.0), tries("n4")), False, None, ""),  # n3 is gone
    (fleet(tries("n2"), tries("n3"), tries("n0", 0.0)), False, R.SLOT, ""),  # of the same moment, by name
    (fleet(tries("n2", 0.0), tries("n3", 0.0), tries("n4", 0.0)), False, None, ""),
    (fleet(tries("n2"), tries("n3"), tries("n4"), HELPED, orders=RESUMED), False, R.SLOT, ""),  # helped long ago
    (fleet(runs("n2"), runs("n3"), runs("n4")), False, R.SLOT, "tried out on n2, n3, n4"),  # whoever told when
    # their nodes died in the middle: it did not help there, and within a day that counts
    (fleet(silent(runs("n2"), 15.1), silent(runs("n3"), 99.0), silent(runs("n4"), 1439)), False, R.HELD, "n2, n3, n4"),
    (fleet(silent(runs("n2"), 15.1), silent(runs("n3"), 99.0), silent(runs("n4"), 1441)), False, None, ""),
    (fleet(HELPED, *(silent(runs(one), 31) for one in ("n2", "n3", "n4")), orders=RESUMED), False, None, ""),
    (fleet(runs("n2"), runs("n3"), silent(runs("n4"), 14.9)), False, R.SLOT, ""),
    (fleet(failed("n2"), failed("n3"), silent(runs("n4"), 9e5), tries("n5")), False, R.SLOT, ""),
    (fleet(tries("n2"), tries("n3"), silent(tries("n4"), 15.1)), False, None, ""),  # it only waited for its turn
    (fleet(silent(failed("n2"), 99.0), silent(failed("n3"), 99.0), tries("n5")), False, R.SLOT, ""),  # it failed there
    (
        fleet(*(lease_of(one, unhelpful={REMEDY: 1e12}) for one in ("n2", "n3", "n4")), orders=RESUMED),
        False,
        R.HELD,
        "",
    ),
    (fleet(tries("n2"), tries("n3"), tries("n4"), lease_of("n9", helped={REMEDY: WALL + 61})), False, R.SLOT, ""),
    (fleet(tries("n2"), tries("n3"), tries("n4"), lease_of("n9", helped={REMEDY: 1e12})), False, R.SLOT, ""),
    (fleet(failed("n2", 1439), failed("n3", 1439), tries("n4")), False, R.SLOT, ""),
    (fleet(failed("n2", 1441), failed("n3", 1441), failed("n4", 9e5), tries("n5")), False, None, ""),  # days ago
]


@pytest.mark.parametrize(("leases", "serving", "reason", "says"), HELD)
def test_the_fleet_holds_a_remedy_back(
    leases: tuple[FleetLease, ...], *, serving: bool, reason: SuppressionReason | None, says: str
) -> None:
    found = fleet_holds.hindrance(leases, OWN, FAULT, REMEDY, WALL, serving=serving)
    assert (found and found.reason) == reason
    assert found is None or says in found.why
    assert (found is not None and found.held_at > 0) == (reason is R.HELD)


RESUMES = [
    ("2027-01-15T07:59:30Z", None),
    ("2027-01-15T08:00:30Z", None),  # half a minute ahead: another clock
    ("2027-01-15T08:02:00Z", R.HELD),  # it has not come yet, and must not hide what fails until then
    ("yesterday", R.HELD),
    ("", R.HELD),
]


@pytest.mark.parametrize(("at", "reason"), RESUMES)
def test_a_human_resumes(at: str, reason: SuppressionReason | None) -> None:
    orders = {"nodeprep.io/resumed.link_up": at, "nodeprep.io/resumed.mtu": "2027-01-15T08:00:00Z"}
    leases = fleet(HELPED, failed("n2"), failed("n3"), failed("n4"), orders=orders)
    leases = (*without(leases, "agent-n9"), lease_of("n9", helped={REMEDY: WALL + 1}))
    found = fleet_holds.hindrance(leases, OWN, FAULT, REMEDY, WALL, serving=False)
    assert (found and found.reason) == reason


def resumed(at: str) -> FleetLease:
    return FleetLease(FLEET, orders={f"{fleet_holds.RESUMED}{REMEDY}": at})


AGAINST: list[tuple[tuple[FleetLease, ...], list[str], bool]] = [
    # Leases, the nodes that say something against a remedy, whether it is held
    ((), [], False),
    ((FleetLease(FLEET), failed("n2")), ["n2"], False),
    ((failed("n2"), failed("n3"), failed("n4")), ["n2", "n3", "n4"], True),  # also without the fleet's Lease
    ((failed("n2", 1441), failed("n3", 1441), failed("n4", 1441)), ["n2", "n3", "n4"], False),  # days ago
    ((lease_of("n2", held={REMEDY: WALL - 9e6}),), ["n2"], True),
    (
        (lease_of("n2", held={"mtu": WALL}, unhelpful={"mtu": WALL}, helped={REMEDY: WALL}, trying={REMEDY: WALL}),),
        [],
        False,
    ),
    ((BLIND[0], failed("n2"), failed("n3")), ["n2", "n3"], True),
    ((slot(holder="n2"), failed("n2")), ["n2"], False),
    ((resumed("2027-01-15T07:58:30Z"), failed("n2", 1), failed("n3", 2)), ["n2"], False),
    ((resumed("2027-01-15T08:00:01Z"), failed("n2", 0), lease_of("n3", held={REMEDY: WALL})), [], False),
    ((resumed("2027-01-15T09:00:00Z"), failed("n2")), ["n2"], False),  # what is to come resumes nothing
]


@pytest.mark.parametrize(("leases", "nodes", "is_held"), AGAINST)
def test_who_says_something_against_a_remedy(
    leases: tuple[FleetLease, ...], nodes: list[str], *, is_held: bool
) -> None:
    assert sorted(fleet_holds.against(leases, REMEDY, WALL)) == nodes
    assert (fleet_holds.held(leases, REMEDY, WALL) is not None) == is_held


@given(st.permutations(range(8)), st.integers(1, 8))
def test_of_many_that_begin_at_once_three_try_a_remedy_that_helped_nowhere(order: list[int], count: int) -> None:
    """Each tells first and lists then. Whoever tells when, and whatever the clocks say, at most three go on."""
    told: list[FleetLease] = []
    goes_on = []
    for place, number in enumerate(order[:count]):
        told.append(tries(f"n{number}", -float(place)))
        leases = (FleetLease(FLEET), *told)
        if fleet_holds.hindrance(leases, f"n{number}", FAULT, REMEDY, WALL + 9 * MINUTE, serving=False) is None:
            goes_on.append(number)
    assert len(goes_on) == min(count, 3)


SLOTS: list[tuple[tuple[FleetLease, ...], bool, str, bool]] = [
    # Leases, whether the node serves, the slot, whether it is held already
    ((slot(),), True, "nodeprep-slot-0", False),
    ((slot(holder="n2"),), True, "", False),
    ((slot(holder="n2", ago=239.0),), True, "", False),
    ((slot(holder="n2", ago=241.0),), True, "nodeprep-slot-0", False),  # its time, and a minute for clocks
    ((slot(holder="n2", ago=-9e9),), True, "", False),
    ((slot(holder=OWN),), True, "nodeprep-slot-0", True),
    ((slot(holder=OWN, ago=9e3),), True, "nodeprep-slot-0", True),
    ((replace(slot(holder="n2", ago=9e3), renewed=None),), True, "", False),
    ((replace(slot(holder="n2", ago=9e3), duration=None),), True, "", False),
    ((replace(slot(holder="n2"), duration=math.nan),), True, "", False),
    ((slot(holder="n2"), slot(1)), True, "", False),  # K is 1, whatever Leases there are
    ((slot(kind="bootstrap-"),), True, "", False),
    ((slot(),), False, "", False),
    ((slot(kind="bootstrap-", holder="n2"), slot(1, kind="bootstrap-")), False, "nodeprep-slot-bootstrap-1", False),
    ((), True, "", False),
]


@pytest.mark.parametrize(("leases", "serving", "name", "own"), SLOTS)
def test_a_slot(leases: tuple[FleetLease, ...], *, serving: bool, name: str, own: bool) -> None:
    found = repair_slots.choice(leases, OWN, RepairPolicy(), WALL, serving=serving)
    assert (found.name, found.is_own) == (name, own)
    assert bool(found.why) == (not name)


def test_of_many_that_ask_at_once_few_want_the_same_slot() -> None:
    """One of them gets it, and the others are denied and wait, while other slots are free."""
    free, policy = tuple(slot(number) for number in range(4)), RepairPolicy(slots=4)
    wanted = [repair_slots.choice(free, f"n{number}", policy, WALL, serving=True).name for number in range(100)]
    assert {wanted.count(one.name) for one in free} <= set(range(10, 50))


def test_slots_and_leases_are_those_of_the_admission_policy() -> None:
    names = (*repair_slots.names(RepairPolicy(), serving=True), *repair_slots.names(RepairPolicy(), serving=False))
    assert all(name.startswith(admission_policy.SLOT) for name in names)
    assert len(names) == 1 + 10
    assert fleet_holds.AGENT == agent_lease.AGENT
    assert not fleet_holds.FLEET.startswith((admission_policy.SLOT, agent_lease.AGENT))
    assert repair_slots.duration(keys.PLAY_LIMIT_SECONDS) <= admission_policy.LEASE_DURATION_LIMIT_SECONDS
    assert fleet_notes.SKEW_SECONDS >= admission_policy.CLOCK_SKEW_SECONDS


NOTES: list[tuple[RepairNote, dict[str, float]]] = [
    (fleet_notes.note(unhealthy(wrong()), (wrong(),), True, {}, clock()), {FAULT: WALL - 100}),
    (fleet_notes.note(new(wrong()), (wrong(),), False, {}, clock()), {}),  # new nodes share faults as a rule
    (
        fleet_notes.note(unhealthy(attempts=(past("released", wall=WALL - 60),)), (), True, {}, clock()),
        {FAULT: WALL - 60},
    ),
    (fleet_notes.note(unhealthy(attempts=(past(wall=WALL - 2401),)), (), True, {}, clock()), {}),
    (fleet_notes.note(unhealthy(attempts=(past(wall=WALL - 60, serving=False),)), (), True, {}, clock()), {}),
    (fleet_notes.note(unhealthy(attempts=(past("cut-off", wall=WALL),)), (), True, {}, clock()), {}),
]


@pytest.mark.parametrize(("said", "faults"), NOTES)
def test_a_node_says_its_faults(said: RepairNote, faults: dict[str, float]) -> None:
    assert said.faults == faults
    assert fleet_notes.parsed(fleet_notes.text(said)) == said


def test_a_node_says_what_it_tries_and_what_came_of_it() -> None:
    state = unhealthy(helped={"mtu": WALL}, unhelpful={"link_up": WALL}, held={"x": WALL})
    said = fleet_notes.note(state, (), True, {"driver_bind": WALL}, clock())
    assert (said.trying, said.helped, said.unhelpful, said.held) == (
        {"driver_bind": WALL},
        {"mtu": WALL},
        {"link_up": WALL},
        {"x": WALL},
    )
    assert fleet_notes.parsed(fleet_notes.text(said)) == said


def test_a_note_stays_short() -> None:
    many = tuple(wrong(reason=f"Reason{number}", ago=float(number)) for number in range(500))
    said = fleet_notes.note(unhealthy(), many, True, {}, clock())
    assert len(said.faults) == fleet_notes.ENTRIES_LIMIT
    assert "port.state/Reason0" in said.faults
    assert len(fleet_notes.text(said)) < fleet_notes.NOTE_LIMIT_CHARACTERS


UNREADABLE = ["", "{", "[]", "1", '{"faults": []}', '{"faults": {"a": "b"}}', '{"faults": {"a": true}}']
UNREADABLE += ['{"faults": {"a": NaN}}', '{"faults": {"a": 1e999}}', '{"faults": null}', "[" * 9999, " " * 5000 + "{}"]
UNREADABLE += [json.dumps({"faults": {"a": 10**400}})]  # which is no float
UNREADABLE += [json.dumps({"faults": {"a" * 200: 1}}), json.dumps({"helped": {str(n): 1 for n in range(40)}})]


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_note_that_cannot_be_read_says_so(text: str) -> None:
    assert fleet_notes.parsed(text).unreadable


def test_what_a_newer_version_says_beside_is_passed_over() -> None:
    assert fleet_notes.parsed('{"later": 1, "helped": {"mtu": 5}}') == RepairNote(helped={"mtu": 5.0})
    assert fleet_notes.parsed(None) == RepairNote()
    assert fleet_notes.parsed('{"unreadable": true}') == RepairNote()


@given(st.text(max_size=120) | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(str))
def test_whatever_stands_in_a_note_breaks_nothing(text: Any) -> None:
    assert isinstance(fleet_notes.parsed(text), RepairNote)


def test_who_hangs_in_a_remedy_says_that_it_does_not_help() -> None:
    """It frees its slot. Else each node of the fleet would hang in it, one after the other."""
    run = attempt("running", step_since=NOW - 120 - attempt_steps.HUNG_SECONDS)
    for ago, said in ((0.0, {}), (1.0, {"link_up": run.wall})):
        hangs = unhealthy(attempt=replace(run, step_since=run.step_since - ago))
        told = fleet_notes.note(hangs, (), serving=True, trying={"link_up": fleet_notes.UNDER_WAY}, clock=clock())
        assert told.unhelpful == said


@pytest.mark.parametrize("safety", [SafetyClass.S1, SafetyClass.S2])
def test_a_holder_without_the_api_server_has_ended_before_another_takes_its_slot(safety: SafetyClass) -> None:
    """It lost the server right after it took the slot. Its clock is a minute slow, and the other one a minute fast."""
    play = RepairPolicy().deadline.of(safety)
    ends = SHIPPED_WAITS.fresh + SHIPPED_WAITS.unknown + play + remediator.MARGIN_SECONDS
    taken = repair_slots.duration(play) + fleet_notes.SKEW_SECONDS - 2 * admission_policy.CLOCK_SKEW_SECONDS
    assert taken >= ends
