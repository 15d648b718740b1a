"""Which of several convictions a person should look at first."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.agent_state import Case
from nodeprep.decide import active_faults
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.model import Lack
from nodeprep.values import replace
from tests.agent_state_values import case, check, checks

CHECKS = checks(
    check("pci.driver-bound"),
    check("port.present", after=("pci.driver-bound",)),
    check("port.state", after=("port.present",)),
    check("port.gid"),
)
ELSEWHERE = "0000:ff:00.0"
DRILL = DrillNotice("link-down", "eth1", ("eth1", "0000:5c:00.0"), "b1", 50.0, 500.0)


def wrong(check_id: str, *, place: str = "0000:5c:00.0", port: int | None = None, **different: Any) -> Case:
    return case(check_id, place=place, port=port, **different)


def short(count: int, *counted: str) -> Case:
    """Too few ports."""
    return wrong("port.present", place="*", lack=Lack(count, counted))


def passing(one: Case, since: float = 110.0) -> Case:
    """It passed in its last look, or was waived."""
    return replace(one, passes=1, passing_since=since)


UNBOUND, UNBOUND_TOO = wrong("pci.driver-bound"), wrong("pci.driver-bound", place="0000:ff:00.0")
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
    # A verdict may name which of its check's causes explain it.
    ((wrong("port.state", follows=("port.gid",)), UNBOUND), ["pci.driver-bound", "port.state"]),
    ((wrong("port.state", follows=("port.present",)), UNBOUND), ["pci.driver-bound"]),
    # A shortage of n is explained by n faults.
    ((short(1), UNBOUND), ["pci.driver-bound"]),
    ((short(2), UNBOUND), ["pci.driver-bound", "port.present"]),
    ((short(2), UNBOUND, UNBOUND_TOO), ["pci.driver-bound", "pci.driver-bound"]),
    ((short(5), UNBOUND, UNBOUND_TOO), ["pci.driver-bound", "pci.driver-bound", "port.present"]),
    ((short(1, UNBOUND.place), UNBOUND), ["pci.driver-bound", "port.present"]),
    ((short(5), wrong("pci.driver-bound", place="")), ["pci.driver-bound"]),
    # What passes now explains nothing that fails, and is looked at later.
    ((short(5), passing(UNBOUND)), ["port.present", "pci.driver-bound"]),
    ((short(1), passing(UNBOUND)), ["port.present", "pci.driver-bound"]),
    ((PORT_1, passing(UNBOUND)), ["port.state", "pci.driver-bound"]),
    ((passing(PORT_1), passing(UNBOUND)), ["pci.driver-bound"]),
    ((passing(PORT_1), UNBOUND), ["pci.driver-bound"]),
    ((PORT_1, passing(UNBOUND_TOO)), ["port.state", "pci.driver-bound"]),
    # Of what passes, the last to pass is looked at first, and an earlier one explains nothing of it.
    ((passing(PORT_1, 111.0), passing(UNBOUND, 110.0)), ["port.state", "pci.driver-bound"]),
    ((passing(PORT_1, 110.0), passing(UNBOUND, 111.0)), ["pci.driver-bound"]),
    ((passing(PORT_1, 110.0), passing(UNBOUND_TOO, 111.0)), ["pci.driver-bound", "port.state"]),
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


@given(ends=st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_the_first_fault_does_not_go_to_and_fro_while_all_end(ends: list[int]) -> None:
    """They begin to pass at these times, and are released in that order: the Node's reason tells each of them once."""
    every = (PORT_1, PORT_2, UNBOUND, wrong("port.gid", place=ELSEWHERE))
    first = []
    for now in range(-1, 4):
        cases = [passing(one, end) if end <= now else one for one, end in zip(every, ends, strict=True)]
        first += [active_faults.roots(cases, CHECKS)[0].subject]
    for now in range(4):
        cases = [passing(one, end) for one, end in zip(every, ends, strict=True) if end > now]
        first += [one.subject for one in active_faults.roots(cases, CHECKS)[:1]]
    told = [subject for subject, _ in groupby(first)]
    assert len(told) == len(set(told))


@pytest.mark.parametrize(
    ("different", "words"),
    [({}, "port.state NoSignal: mlx5_3/1: NoSignal"), ({"message": ""}, "port.state NoSignal: mlx5_3/1")],
)
def test_told_for_people(different: dict[str, Any], words: str) -> None:
    assert active_faults.summary(case(**different)) == words


def test_what_a_drill_made_comes_after_each_real_fault() -> None:
    """A real one that appears during a drill is what a person should hear of."""
    made, real = wrong("pci.driver-bound", opened_at=60.0), wrong("port.gid", place=ELSEWHERE, opened_at=60.0)
    assert active_faults.roots((made, real), CHECKS) == (made, real)
    assert active_faults.roots((made, real), CHECKS, DRILL) == (real, made)
    before = replace(made, opened_at=40.0)
    assert active_faults.roots((before, real), CHECKS, DRILL) == (before, real)


def test_a_summary_begins_with_the_drill_that_made_it() -> None:
    made = wrong("pci.driver-bound", opened_at=60.0)
    plain = active_faults.summary(made)
    assert active_faults.summary(made, DRILL) == f"drill link-down of eth1: {plain}"
    assert active_faults.summary(replace(made, opened_at=40.0), DRILL) == plain
