"""What the Node object tells the agent, and what the agent says of it by memory alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodeprep.agent.meeting import before_looking, meet
from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.profiles import named
from nodeprep.config.rules import Rule
from nodeprep.config.settings import Settings
from nodeprep.decide.desired import HELD, NO_TROUBLE, RESET_DONE, TRAINING_READY, GatePolicy, Trouble
from nodeprep.decide.readiness import Mode, begin
from nodeprep.facts.past import Past, Proof, State
from nodeprep.profile import mapping
from nodeprep.publish.publisher import NodeSays

NOW = 1000.0
PART = {"names": named("rdma-roce").names, "profile": mapping(named("rdma-roce").profile)}
KNOWN = Past("boot", "u1", state=State.READY, since=100.0, proofs={"port.state": Proof(3, 1.0, 40.0)}, parts=(PART,))


def says(uid: str = "u1", reset: str = "", *, done: str = "", held: str = "") -> NodeSays:
    kept = ((HELD, held), (RESET_DONE, done))
    return NodeSays(uid, reset, tuple((key, value) for key, value in kept if value))


def test_the_same_node_changes_nothing() -> None:
    met = meet(KNOWN, says(), NOW, forgetful=False)
    assert met.past is KNOWN
    assert (met.is_new, met.reset) == (False, False)


def test_a_node_that_was_not_known_yet_is_not_another_one() -> None:
    met = meet(replace(KNOWN, node_uid=""), says(), NOW, forgetful=False)
    assert (met.past.node_uid, met.past.state, met.is_new) == ("u1", State.READY, False)


def test_another_object_of_the_name_has_proven_nothing() -> None:
    met = meet(KNOWN, says("u2"), NOW, forgetful=False)
    assert met.is_new
    assert (met.past.node_uid, met.past.state, met.past.proofs) == ("u2", State.BOOTSTRAP, {})


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
    met = meet(replace(KNOWN, reset_done=done), says(reset=asked), NOW, forgetful=False)
    assert (met.reset, met.inventory, met.past.reset_done) == (reset, inventory, then)


def test_what_the_node_kept_counts_where_the_disk_was_lost() -> None:
    lost = begin(None, "boot", "", NOW)
    kept = says("u1", "now", done="now", held="rdma-roce,no-such-profile,tcp-shared-eni")
    met = meet(lost, kept, NOW, forgetful=True)
    assert met.past.held == ("rdma-roce", "tcp-shared-eni")
    assert not met.reset
    assert meet(lost, kept, NOW, forgetful=False).past.held == ()
    assert not meet(lost, kept, NOW, forgetful=False).reset  # a life of ours did it, whoever remembers
    assert meet(lost, says("u1", "later", done="now"), NOW, forgetful=True).reset


def test_what_hardware_shows_meanwhile_takes_nothing_back() -> None:
    lost = replace(begin(None, "boot", "u1", NOW), held=("tcp-shared-eni",))
    assert meet(lost, says(held="rdma-roce"), NOW, forgetful=True).past.held == ("tcp-shared-eni", "rdma-roce")


def told(past: Past, mode: Mode, trouble: Trouble = NO_TROUBLE, **gate: Any) -> Any:
    return before_looking(past, Settings(agent_part=AgentSettings(mode=mode, gate=GatePolicy(**gate))), trouble, NOW)


NEW = begin(None, "boot", "u1", NOW)
BOOTED = begin(KNOWN, "another boot", "u1", NOW)
FIRST = [
    # memory, mode, whether the taint stands before the first look
    pytest.param(KNOWN, Mode.GATE, True, id="a gate that nothing proves yet"),
    pytest.param(BOOTED, Mode.GATE, True, id="another boot"),
    pytest.param(BOOTED, Mode.OBSERVE, False, id="observe sets none"),
    pytest.param(replace(BOOTED, taint_borne=False), Mode.GATE, False, id="plugins were seen that do not bear it"),
    pytest.param(NEW, Mode.GATE, False, id="no profile is known"),
    pytest.param(replace(NEW, held=("rdma-roce",)), Mode.GATE, True, id="the Node kept what the disk lost"),
]


def test_the_configurations_profile_needs_no_look() -> None:
    gate = AgentSettings(mode=Mode.GATE)
    settings = Settings(default="rdma-roce", agent_part=gate)
    assert before_looking(NEW, settings, NO_TROUBLE, NOW).taints
    rule = Rule(match={"rack": "a*"}, use=("base",), expect="", profiles=(named("base"),))
    ruled = replace(settings, agent_part=replace(gate, assign=(rule,)))
    assert not before_looking(NEW, ruled, NO_TROUBLE, NOW).taints


@pytest.mark.parametrize(("past", "mode", "tainted"), FIRST)
def test_what_is_said_before_the_first_look(past: Past, mode: Mode, *, tainted: bool) -> None:
    desired = told(past, mode)
    assert bool(desired.taints) is tainted
    assert desired.bootstrap_taint_may_stay or past.state is State.READY
    assert GatePolicy().rdma_label not in desired.labels
    (training,) = (one for one in desired.conditions if one.type == TRAINING_READY)
    assert training.status == "False"


def test_a_ready_node_stays_ready_over_a_restart() -> None:
    proofs = {gate: Proof(3, 1.0, 40.0, proven=True) for gate in named("rdma-roce").profile.gates}
    ready = replace(KNOWN, proofs=proofs, held=("rdma-roce",), reset_done="now")
    desired = told(ready, Mode.GATE, Trouble(publish="denied: x"))
    assert desired.taints == ()
    assert desired.labels[GatePolicy().rdma_label] == "true"
    assert desired.annotations == {HELD: "rdma-roce", RESET_DONE: "now"}
    assert desired.conditions[0].message.endswith("; denied: x")
