"""Whether something keeps the node's clock right, as the kernel knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.model import Fact, Shown, Unreadable, shown

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host


@shown
class Clock(Shown):
    """`offset` and `max_error` are seconds; `synchronised` says that something disciplines the clock."""

    at: float
    synchronised: bool
    offset: float
    max_error: float


def observe(host: Host) -> Clock | Unreadable:
    state = host.clock_state()
    if isinstance(state, Unreadable):
        return state
    return Clock(host.now(), state.synchronised, state.offset, state.max_error)


FACT = Fact(Clock, observe, every=60.0, live=True)
