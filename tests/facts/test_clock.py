"""The clock's keeping as a fact: this kernel's own."""

from __future__ import annotations

from nodeprep.doors import clock as door
from nodeprep.doors.clock import ClockState
from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import clock as clock_facts
from nodeprep.facts.machine.clock import FACT, Clock
from nodeprep.model import Unreadable, Why


class Told(Host):
    """A host whose kernel answers what a test has it answer."""

    def __init__(self, answer: ClockState | Unreadable) -> None:
        super().__init__()
        self.answer = answer

    def clock_state(self) -> ClockState | Unreadable:
        return self.answer


def test_this_machines_clock() -> None:
    before, seen, state = door.now(), clock_facts.observe(Host()), door.state()
    assert isinstance(seen, Clock)
    assert before <= seen.at <= door.now()
    assert seen.synchronised is state.synchronised
    assert abs(seen.max_error - state.max_error) < 0.01
    assert abs(seen.offset - state.offset) < 0.01


def test_each_value_is_in_its_place() -> None:
    seen = clock_facts.observe(Told(ClockState(synchronised=True, offset=-0.25, max_error=1.5)))
    assert isinstance(seen, Clock)
    assert (seen.synchronised, seen.offset, seen.max_error) == (True, -0.25, 1.5)


def test_a_kernel_that_refuses() -> None:
    refused = Unreadable(Why.DENIED, "adjtimex", 1)
    assert clock_facts.observe(Told(refused)) == refused


def test_a_dead_tree_has_no_clock() -> None:
    assert FACT.live
