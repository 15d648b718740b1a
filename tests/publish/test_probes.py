"""What the kubelet's probes are told."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.publish.probes import health, readiness
from tests.status_values import status

TURNS = [
    # age   interval  says
    (0.24, 30.0, (True, "the loop turned 0.2 s ago")),
    (90.0, 30.0, (True, "the loop turned 90.0 s ago")),
    (90.1, 30.0, (False, "the loop has not turned for 90 s, 3 intervals of 30 s are allowed")),
    (31.0, 10.0, (False, "the loop has not turned for 31 s, 3 intervals of 10 s are allowed")),
]


@pytest.mark.parametrize(("age", "interval", "says"), TURNS)
def test_health(age: float, interval: float, says: tuple[bool, str]) -> None:
    assert health(age, interval) == says


NOT_DONE = "the first full round of this start is not done"
ROUNDS: list[tuple[dict[str, Any], tuple[bool, str]]] = [
    # different                              says
    ({}, (True, "round 7 is done")),
    ({"complete": False}, (False, NOT_DONE)),
    ({"complete": False, "disputed": ("port.mtu",)}, (False, NOT_DONE)),
    ({"disputed": ("port.mtu",)}, (False, "port.mtu: only this version finds the fault")),
    ({"disputed": ("port.mtu", "port.gid", "pci.link")}, (False, "port.mtu and 2 more: only this version finds")),
]


@pytest.mark.parametrize(("different", "says"), ROUNDS)
def test_readiness(different: dict[str, Any], says: tuple[bool, str]) -> None:
    well, why = readiness(status(**different))
    assert (well, why[: len(says[1])]) == says
    assert "\n" not in why


def test_before_the_first_round() -> None:
    assert readiness(None) == (False, NOT_DONE)
