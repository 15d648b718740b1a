"""The neighbour table, by rtnetlink: who answered on which interface.

It is a fact of its own because its states change by the second: with them in `Links`, every look at links would show
something new, and each check that uses links would be judged again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.model import Fact, Shown, Unreadable, shown

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host


@shown
class Neighbour(Shown):
    """A neighbour-table entry of the interface with this index; `state` is the kernel's word, such as REACHABLE."""

    index: int
    address: str
    state: str


@shown
class Neighbours(Shown):
    """All entries of the host's network namespace, IPv4 and IPv6."""

    at: float
    entries: tuple[Neighbour, ...]


def observe(host: Host) -> Neighbours | Unreadable:
    told = host.neighbours()
    if isinstance(told, Unreadable):
        return told
    return Neighbours(host.now(), tuple(Neighbour(one.index, one.address, one.state) for one in told))


FACT = Fact(Neighbours, observe, every=60.0, live=True, doors=("nodeprep.doors.netlink.interfaces",))
