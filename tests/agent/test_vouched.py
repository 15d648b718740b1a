"""What a start believes of its memory: gates that are gone prove nothing, and passes before it do not count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeprep import __version__
from nodeprep.agent.starting import resumed, start, still_true, vouched
from nodeprep.decide.policy import DampingPolicy, Glance
from nodeprep.decide.upgrade import HOLD
from nodeprep.doors.store import Store
from nodeprep.facts.past import Case, Past, Proof, State
from nodeprep.memory import dumps
from nodeprep.profile import Profile, mapping

PROVEN, HALF = Proof(3, 10.0, 40.0, proven=True), Proof(2, 10.0, 20.0)
GATE = ("tcp", "ready")
READY = Past("boot", state=State.READY, since=40.0, proofs={"eni.up": PROVEN}, gates=(GATE,), all_passing_since=10.0)


def test_a_gate_that_is_gone_proves_nothing() -> None:
    assert vouched(READY, frozenset({GATE, ("other", "device")}), 50.0) == READY
    gone = vouched(READY, frozenset(), 50.0)
    assert (gone.state, gone.since, gone.gates, dict(gone.proofs)) == (State.BOOTSTRAP, 50.0, (), {})
    assert "tcp.ready" in gone.why


def test_what_is_proven_stays_and_what_is_half_proven_begins_anew() -> None:
    past = replace(READY, proofs={"eni.up": PROVEN, "route.out": HALF})
    assert resumed(past) == replace(past, proofs={"eni.up": PROVEN}, all_passing_since=None)


def test_passes_before_a_start_release_nobody() -> None:
    """Nobody looked between them and the next; and a memory of before does not know of faults since."""
    case = Case("eni.up", "eth2", None, "eth2", "NoCarrier", "", passes=2, passing_since=10.0, convicted_at=5.0)
    turned = replace(case, convicted_at=None, turns=(9.0,))
    kept, other = resumed(replace(READY, cases=(case, turned))).cases
    assert (kept.passes, kept.passing_since, kept.convicted_at) == (0, None, 5.0)
    assert other == turned
    policy, glance = DampingPolicy(), Glance(50.0, 50.0)
    assert policy.enough(case.passes + 1, case.passing_since, glance.began)
    assert not policy.enough(kept.passes + 1, glance.ended, glance.began)


NOW, SET = 1000.0, "kube-system/rdma-dp"
PART = {"names": ("tcp",), "profile": mapping(Profile("tcp", gates=("eni.up",)))}
OF_ANOTHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # what another version left, what of it is believed; it asked for eni.up
    ({"unproven_until": {"port.gid": 900.0}}, {"unproven_until": {}}),  # this one's newcomer has its own ten minutes
    ({"unproven_until": {"port.gid": 1200.0}}, {"unproven_until": {}}),
    ({"unproven_until": {"eni.up": 1200.0}}, {"unproven_until": {"eni.up": 1200.0}}),
    ({"unproven_until": {"eni.up": 900.0}}, {"unproven_until": {"eni.up": 900.0}}),  # it could not look since
    ({"unproven_until": {"eni.up": NOW + HOLD + 1}}, {"unproven_until": {}}),  # of a boot before
    ({"unproven_until": {"eni.up": HOLD - 1}}, {"unproven_until": {}}),
    ({"intolerant": {SET: 50.0}}, {"intolerant": {}}),  # that version saw that all bear it
    ({"intolerant": {SET: None}}, {"intolerant": {}}),
    ({"intolerant": {SET: 5000.0}, "taint_borne": False}, {"intolerant": {SET: None}, "taint_borne": False}),
    ({"came_with_version": ("eni.up",)}, {"came_with_version": ()}),
]


@pytest.mark.parametrize(("left", "believed"), OF_ANOTHER)
def test_what_a_version_left_that_did_not_know_it_is_not_believed(
    tmp_path: Path, left: dict[str, Any], believed: dict[str, Any]
) -> None:
    store = Store(str(tmp_path), str(tmp_path))
    assert not store.save(dumps(replace(READY, version="0.0.1", parts=(PART,), gates=(), **left)))
    found = start(store, str(tmp_path / "run"), "boot", NOW).past
    assert found.state is State.READY, found.why
    assert {name: getattr(found, name) for name in believed} == believed


def test_what_this_version_left_is_believed() -> None:
    left = replace(READY, version=__version__, unproven_until={"port.gid": 900.0}, intolerant={SET: 50.0})
    assert still_true(left, __version__, NOW) is left
