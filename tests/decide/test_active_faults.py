"""Which of several convictions a person should look at first."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.agent_state import Case
from nodeprep.decide import active_faults
from tests.agent_state_values import case, check, checks

CHECKS = checks(
    check("pci.driver-bound"),
    check("port.present", after=("pci.driver-bound",)),
    check("port.state", after=("port.present",)),
    check("port.gid"),
)
ELSEWHERE = "0000:ff:00.0"


def wrong(check_id: str, *, place: str = "0000:5c:00.0", port: int | None = None) -> Case:
    return case(check_id, place=place, port=port)


PORT_1, PORT_2 = wrong("port.state", port=1), wrong("port.state", port=2)
ROWS: list[tuple[tuple[Case, ...], list[str]]] = [
    ((), []),
    ((PORT_1,), ["port.state"]),
    ((PORT_1, wrong("pci.driver-bound")), ["pci.driver-bound"]),
    ((PORT_1, wrong("pci.driver-bound", place=ELSEWHERE)), ["pci.driver-bound", "port.state"]),
    ((PORT_1, wrong("pci.driver-bound", place="")), ["pci.driver-bound"]),
    ((PORT_1, wrong("port.present", port=1)), ["port.present"]),
    ((PORT_1, wrong("port.present", port=2)), ["port.present", "port.state"]),
    ((wrong("port.state", place="*"), wrong("pci.driver-bound")), ["pci.driver-bound"]),
    ((wrong("port.state", place=""), wrong("pci.driver-bound")), ["pci.driver-bound"]),
    ((wrong("port.state"), wrong("pci.driver-bound", place="*")), ["pci.driver-bound", "port.state"]),
    ((PORT_1, PORT_2), ["port.state", "port.state"]),
    ((wrong("no.such"), wrong("port.gid"), PORT_1), ["port.state", "port.gid", "no.such"]),
]


@pytest.mark.parametrize(("cases", "first"), ROWS)
@pytest.mark.parametrize("turned", [False, True])
def test_roots(cases: tuple[Case, ...], first: list[str], turned: bool) -> None:
    assert [one.check for one in active_faults.roots(cases[::-1] if turned else cases, CHECKS)] == first


def test_of_the_same_check_the_first_port_comes_first() -> None:
    assert (
        active_faults.roots((PORT_2, PORT_1), CHECKS)
        == active_faults.roots((PORT_1, PORT_2), CHECKS)
        == (PORT_1, PORT_2)
    )


@pytest.mark.parametrize(
    ("different", "words"),
    [({}, "port.state NoSignal: mlx5_3/1: NoSignal"), ({"message": ""}, "port.state NoSignal: mlx5_3/1")],
)
def test_told_for_people(different: dict[str, Any], words: str) -> None:
    assert active_faults.summary(case(**different)) == words
