"""What the kubelet's probes are told."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.publish import probes
from nodeprep.publish.series import ALL
from nodeprep.values import replace
from tests.status_values import standing, status

TURNS = [
    # age   interval  says
    (0.24, 30.0, (True, "the loop turned 0.2 s ago")),
    (90.0, 30.0, (True, "the loop turned 90.0 s ago")),
    (90.1, 30.0, (False, "the loop has not turned for 90 s, 3 intervals of 30 s are allowed")),
    (31.0, 10.0, (False, "the loop has not turned for 31 s, 3 intervals of 10 s are allowed")),
]


@pytest.mark.parametrize(("age", "interval", "says"), TURNS)
def test_health(age: float, interval: float, says: tuple[bool, str]) -> None:
    assert probes.health(age, interval) == says


NEW = "new in this version and yet to pass"
SHUT = standing(device=False, ready=False, gates=("port.mtu", "port.gid"))
OTHER = standing(device=False, ready=False, gates=("eni.up",))
NOT_DONE = "the first full round of this start is not done"
ROUNDS: list[tuple[dict[str, Any], tuple[bool, str]]] = [
    # different                              says
    ({}, (True, "round 7 is done")),
    ({"complete": False}, (False, NOT_DONE)),
    ({"complete": False, "rule_disagreements": ("port.mtu",)}, (False, NOT_DONE)),
    ({"rule_disagreements": ("port.mtu",)}, (False, "port.mtu: only this version finds the fault")),
    (
        {"rule_disagreements": ("port.mtu", "port.gid", "pci.link")},
        (False, "port.mtu and 2 more: only this version finds"),
    ),
    (
        {"rollout_blockers": ("port.mtu",)},
        (False, "port.mtu: closed a gate that stood open before this version came; the "),
    ),
    (
        {"rollout_blockers": ("a.b", "profile x"), "complete": True},
        (False, "a.b and 1 more: closed a gate that stood open"),
    ),
    (
        {"rollout_blockers": ("port.mtu",), "rule_disagreements": ("port.gid",)},
        (False, "port.gid: only this version finds the fault"),
    ),
    ({"rollout_blockers": ("port.mtu",), "complete": False}, (False, NOT_DONE)),
    ({"suspected": ("port.mtu",)}, (False, "port.mtu: failed under a new version and is looked at again")),
    ({"suspected": ("port.mtu",), "complete": False}, (False, NOT_DONE)),
    (
        {"suspected": ("port.mtu",), "rollout_blockers": ("port.gid",)},
        (False, "port.gid: closed a gate that stood open"),
    ),
    (
        {"pending_gates": ("port.mtu",)},
        (False, f"port.mtu: {NEW}; the gate stays open for 10 minutes, or while it cannot"),
    ),
    ({"pending_gates": ("port.mtu",), "profiles": (OTHER,)}, (False, f"port.mtu: {NEW}; the gate stays open")),
    (
        {"pending_gates": ("port.mtu",), "profiles": (OTHER, SHUT)},
        (False, f"port.mtu: {NEW}; the gate is closed; the roll"),
    ),
    (
        {"pending_gates": ("port.mtu",), "rollout_blockers": ("port.mtu",), "profiles": (SHUT,)},
        (False, f"port.mtu: {NEW}; the gate is closed; the rollout waits until it passed"),
    ),
    (
        {"pending_gates": ("port.mtu",), "rollout_blockers": ("port.mtu", "port.gid")},
        (False, "port.gid: closed a gate that stood open"),
    ),
]


@pytest.mark.parametrize(("different", "says"), ROUNDS)
def test_readiness(different: dict[str, Any], says: tuple[bool, str]) -> None:
    well, why = probes.readiness(status(**different))
    assert (well, why[: len(says[1])]) == says
    assert "\n" not in why


def test_before_the_first_round() -> None:
    assert probes.readiness(None) == (False, NOT_DONE)


def test_the_series_of_a_rollout_and_of_a_taint_that_is_held_back() -> None:
    series = {one.name: one for one in ALL}
    held = status(
        rule_disagreements=("port.mtu",), rollout_blockers=("port.mtu", "port.gid"), pending_gates=("pci.link",)
    )
    assert series["nodeprep_upgrade_deferred_checks"].of(held) == {(): 3.0}
    assert series["nodeprep_upgrade_deferred_checks"].of(status(pending_gates=("pci.link",))) == {(): 1.0}
    assert series["nodeprep_upgrade_deferred_checks"].of(status()) == {(): 0.0}
    assert series["nodeprep_taint_ok"].of(held) == {(): 1.0}
    untainted = replace(held, desired=replace(held.desired, taint_hindrance="no taint: kube-system/rdma-dp ..."))
    assert series["nodeprep_taint_ok"].of(untainted) == {(): 0.0}
