"""What a start believes of its memory: gates that are gone prove nothing, and passes before it do not count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeprep import __version__, job_profile, state_file
from nodeprep.agent import startup
from nodeprep.agent_state import AgentState, Case, NodeState, PassStreak
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.decide.rule_change import RULE_HOLD_SECONDS
from nodeprep.doors.files.state_store import Store
from nodeprep.job_profile import Profile
from nodeprep.values import replace
from tests.agent_state_values import attempt, past

PROVEN, HALF = PassStreak(3, 10.0, 40.0, proven=True), PassStreak(2, 10.0, 20.0)
GATE = ("tcp", "ready")
READY = AgentState(
    "boot", state=NodeState.READY, since=40.0, pass_streaks={"eni.up": PROVEN}, gates=(GATE,), all_passing_since=10.0
)


def test_a_gate_that_is_gone_proves_nothing() -> None:
    assert startup.vouched(READY, frozenset({GATE, ("other", "device")}), 50.0) == READY
    gone = startup.vouched(READY, frozenset(), 50.0)
    assert (gone.state, gone.since, gone.gates, dict(gone.pass_streaks)) == (NodeState.BOOTSTRAP, 50.0, (), {})
    assert "tcp.ready" in gone.why


def test_what_is_proven_stays_and_what_is_half_proven_begins_anew() -> None:
    agent_state = replace(READY, pass_streaks={"eni.up": PROVEN, "route.out": HALF})
    assert startup.resumed(agent_state) == replace(agent_state, pass_streaks={"eni.up": PROVEN}, all_passing_since=None)


def test_passes_before_a_start_release_nobody() -> None:
    """Nobody looked between them and the next; and a memory of before does not know of faults since."""
    case = Case("eni.up", "eth2", None, "eth2", "NoCarrier", "", passes=2, passing_since=10.0, convicted_at=5.0)
    turned = replace(case, convicted_at=None, flaps=(9.0,))
    kept, other = startup.resumed(replace(READY, cases=(case, turned))).cases
    assert (kept.passes, kept.passing_since, kept.convicted_at) == (0, None, 5.0)
    assert other == turned
    policy, observation = ConfirmationPolicy(), CheckObservation(50.0, 50.0)
    assert policy.is_enough(case.passes + 1, case.passing_since, observation.began)
    assert not policy.is_enough(kept.passes + 1, observation.ended, observation.began)


NOW, SET = 1000.0, "kube-system/rdma-dp"
PART = {"names": ("tcp",), "profile": job_profile.mapping(Profile("tcp", gates=("eni.up",)))}
OF_ANOTHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # what another version left, what of it is believed; it asked for eni.up
    ({"unproven_until": {"port.gid": 900.0}}, {"unproven_until": {}}),  # this one's newcomer has its own ten minutes
    ({"unproven_until": {"port.gid": 1200.0}}, {"unproven_until": {}}),
    ({"unproven_until": {"eni.up": 1200.0}}, {"unproven_until": {"eni.up": 1200.0}}),
    ({"unproven_until": {"eni.up": 900.0}}, {"unproven_until": {"eni.up": 900.0}}),  # it could not look since
    ({"unproven_until": {"eni.up": NOW + RULE_HOLD_SECONDS + 1}}, {"unproven_until": {}}),  # of a boot before
    ({"unproven_until": {"eni.up": RULE_HOLD_SECONDS - 1}}, {"unproven_until": {}}),
    ({"intolerant": {SET: 50.0}}, {"intolerant": {}}),  # that version saw that all bear it
    ({"intolerant": {SET: None}}, {"intolerant": {}}),
    ({"intolerant": {SET: 5000.0}, "taint_tolerated": False}, {"intolerant": {SET: None}, "taint_tolerated": False}),
    ({"came_with_rules": ("eni.up",)}, {"came_with_rules": ()}),
]


@pytest.mark.parametrize(("left", "believed"), OF_ANOTHER)
def test_what_a_version_left_that_did_not_know_it_is_not_believed(
    tmp_path: Path, left: dict[str, Any], believed: dict[str, Any]
) -> None:
    store = Store(str(tmp_path), str(tmp_path))
    assert not store.save(state_file.dumps(replace(READY, version="0.0.1", parts=(PART,), gates=(), **left)))
    found = startup.start(store, str(tmp_path / "run"), "boot", "", NOW).agent_state
    assert found.state is NodeState.READY, found.why
    assert {name: getattr(found, name) for name in believed} == believed


def test_what_this_version_left_is_believed() -> None:
    left = replace(READY, version=__version__, unproven_until={"port.gid": 900.0}, intolerant={SET: 50.0})
    assert startup.still_true(left, __version__, NOW) is left


@pytest.mark.parametrize(
    ("kept", "forgetful"), [(None, True), (AgentState("boot"), True), (AgentState("boot", "u1"), False)]
)
def test_a_memory_that_never_heard_its_node_has_what_that_kept_yet_to_come(
    kept: AgentState | None, tmp_path: Path, *, forgetful: bool
) -> None:
    """A start without a memory saves one at once, and may be killed before it hears what was tried on this node."""
    store = Store(str(tmp_path), str(tmp_path / "spare"))
    if kept is not None:
        state_file.save(store, kept)
    assert startup.start(store, str(tmp_path), "boot", "", 50.0).forgetful is forgetful


@pytest.mark.parametrize(("boot", "cut_off"), [("boot", ()), ("later", ("a" * 32,))])
def test_an_attempt_that_a_reboot_ended_is_news(boot: str, cut_off: tuple[str, ...], tmp_path: Path) -> None:
    """So is none that ended before, and none at the next start."""
    store = Store(str(tmp_path), str(tmp_path / "spare"))
    over = past("cut-off", id="c" * 32, boot_id="earlier")
    under_way = attempt("running", id="a" * 32, boot_id="boot")
    state_file.save(store, replace(READY, attempt=under_way, attempts=(over,)))
    found = startup.start(store, str(tmp_path), boot, "", 50.0)
    assert found.cut_off == cut_off
    state_file.save(store, found.agent_state)
    assert startup.start(store, str(tmp_path), boot, "", 60.0).cut_off == ()
