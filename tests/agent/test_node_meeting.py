"""What the Node object tells the agent, and what the agent says of it by memory alone."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep import job_profile
from nodeprep.agent import node_meeting
from nodeprep.agent_state import AgentState, NodeState, PassStreak
from nodeprep.config import profile_files
from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.assign_rules import AssignRule
from nodeprep.config.configuration import Settings
from nodeprep.decide import attempt_note, fleet_notes, gate_readiness
from nodeprep.decide.attempt_note import ATTEMPTS
from nodeprep.decide.desired import (
    HARDWARE_PROFILES_ANNOTATION,
    NO_TROUBLE,
    RESET_DONE_ANNOTATION,
    TRAINING_READY,
    AgentTrouble,
    GatePolicy,
)
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.repair_orders import APPROVED
from nodeprep.publish.publisher import NodeAnnotations
from nodeprep.values import replace
from tests.agent_state_values import case, past
from tests.repair_values import clock, unhealthy

NOW = 1000.0
AT = clock(NOW, boot_id="boot")
PART = {
    "names": profile_files.named("rdma-roce").names,
    "profile": job_profile.mapping(profile_files.named("rdma-roce").profile),
}
KNOWN = AgentState(
    "boot",
    "u1",
    state=NodeState.READY,
    since=100.0,
    pass_streaks={"port.state": PassStreak(3, 1.0, 40.0)},
    parts=(PART,),
)


def says(uid: str = "u1", reset: str = "", *, done: str = "", held: str = "") -> NodeAnnotations:
    kept = ((HARDWARE_PROFILES_ANNOTATION, held), (RESET_DONE_ANNOTATION, done))
    return NodeAnnotations(uid, reset, tuple((key, value) for key, value in kept if value))


def test_the_same_node_changes_nothing() -> None:
    met = node_meeting.meet_node(KNOWN, says(), AT, forgetful=False)
    assert met.agent_state is KNOWN
    assert (met.is_new, met.reset) == (False, False)


def test_a_node_that_was_not_known_yet_is_not_another_one() -> None:
    met = node_meeting.meet_node(replace(KNOWN, node_uid=""), says(), AT, forgetful=False)
    assert (met.agent_state.node_uid, met.agent_state.state, met.is_new) == ("u1", NodeState.READY, False)


def test_another_object_of_the_name_has_proven_nothing() -> None:
    met = node_meeting.meet_node(KNOWN, says("u2"), AT, forgetful=False)
    assert met.is_new
    assert (met.agent_state.node_uid, met.agent_state.state, met.agent_state.pass_streaks) == (
        "u2",
        NodeState.BOOTSTRAP,
        {},
    )


def test_another_object_of_the_name_frees_no_latched_fault() -> None:
    """It is the same machine in the same boot: only what mends the device, or a human, says that it is well."""
    latched = case(latched="such a fault is believed at once and held", latched_at=120.0)
    held_open = replace(latched, deferred_until=900.0)
    known = replace(KNOWN, cases=(held_open, case(check="port.errors")), rules_changed_at=300.0)
    assert node_meeting.meet_node(known, says("u2"), AT, forgetful=False).agent_state.cases == (latched,)
    later = node_meeting.meet_node(known, says("u2"), replace(AT, now=100.0), forgetful=False)
    assert later.agent_state.cases == (), "of a damaged memory nothing is known"


RESETS = [
    pytest.param("", "", False, False, "", id="nobody asked"),
    pytest.param("now", "", True, False, "now", id="a human asked"),
    pytest.param("now", "now", False, False, "now", id="it was done"),
    pytest.param("later", "now", True, False, "later", id="asked again"),
    pytest.param("now inventory", "now", True, True, "now inventory", id="with the inventory"),
    pytest.param("now;inventory", "", True, True, "now;inventory", id="in one word"),
    pytest.param("", "now", False, False, "now", id="the wish was taken back"),
]


@pytest.mark.parametrize(("asked", "done", "reset", "inventory", "then"), RESETS)
def test_a_wish_to_start_over_is_followed_once(
    asked: str, done: str, *, reset: bool, inventory: bool, then: str
) -> None:
    met = node_meeting.meet_node(replace(KNOWN, reset_done=done), says(reset=asked), AT, forgetful=False)
    assert (met.reset, met.inventory, met.agent_state.reset_done) == (reset, inventory, then)


def test_what_the_node_kept_counts_where_the_disk_was_lost() -> None:
    lost = gate_readiness.state_at_start(None, "boot", "", NOW)
    kept = says("u1", "now", done="now", held="rdma-roce,no-such-profile,tcp-shared-eni")
    met = node_meeting.meet_node(lost, kept, AT, forgetful=True)
    assert met.agent_state.hardware_profiles == ("rdma-roce", "tcp-shared-eni")
    assert not met.reset
    assert node_meeting.meet_node(lost, kept, AT, forgetful=False).agent_state.hardware_profiles == ()
    assert not node_meeting.meet_node(lost, kept, AT, forgetful=False).reset  # a life of ours did it, whoever remembers
    assert node_meeting.meet_node(lost, says("u1", "later", done="now"), AT, forgetful=True).reset


def test_a_node_that_lost_its_disk_knows_what_was_tried_and_what_was_approved() -> None:
    lost = gate_readiness.state_at_start(None, "boot", "u1", NOW)
    tried = attempt_note.text(unhealthy(attempts=(past(),)))
    kept = NodeAnnotations("u1", annotations=((ATTEMPTS, tried), (APPROVED, "firmware;until=2026-12-01T00:00:00Z")))
    met = node_meeting.meet_node(lost, kept, AT, forgetful=True)
    assert [one.remedy for one in met.agent_state.attempts] == ["link_up"]
    assert met.agent_state.approved == "firmware;until=2026-12-01T00:00:00Z"
    assert met.forgotten == ""
    kept_memory = node_meeting.meet_node(lost, kept, AT, forgetful=False).agent_state
    assert (kept_memory.attempts, kept_memory.approved) == ((), "")


def test_a_node_that_lost_its_disk_says_to_the_fleet_what_did_not_help() -> None:
    """A remedy that crashes each node whose disk is empty at each boot would else never be held."""
    lost = gate_readiness.state_at_start(None, "boot", "u1", NOW)
    tried = (
        past("cut-off", remedy="mtu", wall=1.0, boot_id="the former"),
        past("cut-off", remedy="nm_unmanage", wall=1.5, boot_id="boot"),
        past("unreleased", remedy="qos", wall=2.0),
        past("unreleased", remedy="memlock", wall=3.0),
        past("released", remedy="memlock", wall=4.0),
        past("changed", remedy="link_up", wall=5.0),
    )
    kept = NodeAnnotations("u1", annotations=((ATTEMPTS, attempt_note.text(unhealthy(attempts=tried))),))
    met = node_meeting.meet_node(lost, kept, AT, forgetful=True)
    assert met.agent_state.unhelpful == {"mtu": 1.0, "qos": 2.0}
    assert fleet_notes.note(met.agent_state, (), False, {}, AT).unhelpful == {"mtu": 1.0, "qos": 2.0}


def test_what_was_tried_and_cannot_be_read_is_not_nothing() -> None:
    lost = gate_readiness.state_at_start(None, "boot", "u1", NOW)
    met = node_meeting.meet_node(lost, NodeAnnotations("u1", annotations=((ATTEMPTS, "{"),)), AT, forgetful=True)
    assert met.forgotten.startswith(f"{ATTEMPTS} on the Node cannot be read")


def test_a_node_of_which_no_agent_ever_said_anything_is_new() -> None:
    lost = gate_readiness.state_at_start(None, "boot", "u1", NOW)
    for heard, was_ready in (
        (NodeAnnotations("u1", created=AT.wall - 60), False),
        (NodeAnnotations("u1", created=AT.wall - 7200), None),  # it may have jobs: nodeprep was just installed
        (NodeAnnotations("u1"), None),
        (NodeAnnotations("u1", stated="Ready", created=AT.wall - 60), None),
    ):
        assert node_meeting.meet_node(lost, heard, AT, forgetful=True).agent_state.was_ready is was_ready


def test_what_hardware_shows_meanwhile_takes_nothing_back() -> None:
    lost = replace(gate_readiness.state_at_start(None, "boot", "u1", NOW), hardware_profiles=("tcp-shared-eni",))
    assert node_meeting.meet_node(lost, says(held="rdma-roce"), AT, forgetful=True).agent_state.hardware_profiles == (
        "tcp-shared-eni",
        "rdma-roce",
    )


def told(agent_state: AgentState, mode: Mode, trouble: AgentTrouble = NO_TROUBLE, **gate: Any) -> Any:
    return node_meeting.before_looking(
        agent_state, Settings(agent_part=AgentSettings(mode=mode, gate=GatePolicy(**gate))), trouble, NOW
    )


NEW = gate_readiness.state_at_start(None, "boot", "u1", NOW)
BOOTED = gate_readiness.state_at_start(KNOWN, "another boot", "u1", NOW)
FIRST = [
    # memory, mode, whether the taint stands before the first look
    pytest.param(KNOWN, Mode.GATE, True, id="a gate that nothing proves yet"),
    pytest.param(BOOTED, Mode.GATE, True, id="another boot"),
    pytest.param(BOOTED, Mode.OBSERVE, False, id="observe sets none"),
    pytest.param(replace(BOOTED, taint_tolerated=False), Mode.GATE, False, id="plugins were seen that do not bear it"),
    pytest.param(NEW, Mode.GATE, False, id="no profile is known"),
    pytest.param(
        replace(NEW, hardware_profiles=("rdma-roce",)), Mode.GATE, True, id="the Node kept what the disk lost"
    ),
]


def test_the_configurations_profile_needs_no_look() -> None:
    gate = AgentSettings(mode=Mode.GATE)
    settings = Settings(default="rdma-roce", agent_part=gate)
    assert node_meeting.before_looking(NEW, settings, NO_TROUBLE, NOW).taints
    rule = AssignRule(match={"rack": "a*"}, use=("base",), expect="", profiles=(profile_files.named("base"),))
    ruled = replace(settings, agent_part=replace(gate, assign=(rule,)))
    assert not node_meeting.before_looking(NEW, ruled, NO_TROUBLE, NOW).taints


@pytest.mark.parametrize(("agent_state", "mode", "tainted"), FIRST)
def test_what_is_said_before_the_first_look(agent_state: AgentState, mode: Mode, *, tainted: bool) -> None:
    desired = told(agent_state, mode)
    assert bool(desired.taints) is tainted
    assert desired.bootstrap_taint_may_stay or agent_state.state is NodeState.READY
    assert GatePolicy().rdma_label not in desired.labels
    (training,) = (one for one in desired.conditions if one.type == TRAINING_READY)
    assert training.status == "False"


def test_a_ready_node_stays_ready_over_a_restart() -> None:
    pass_streaks = {
        gate: PassStreak(3, 1.0, 40.0, proven=True) for gate in profile_files.named("rdma-roce").profile.gates
    }
    ready = replace(KNOWN, pass_streaks=pass_streaks, hardware_profiles=("rdma-roce",), reset_done="now")
    desired = told(ready, Mode.GATE, AgentTrouble(publish="denied: x"))
    assert desired.taints == ()
    assert desired.labels[GatePolicy().rdma_label] == "true"
    assert desired.annotations == {HARDWARE_PROFILES_ANNOTATION: "rdma-roce", RESET_DONE_ANNOTATION: "now"}
    assert desired.conditions[0].message.endswith("; denied: x")
