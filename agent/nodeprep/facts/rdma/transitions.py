"""Whether a link came up, or the node booted, between two looks: then counters move without a fault.

A port that trains its link makes symbol errors, retrainings and buffer overruns. Healthy rails of H100 nodes in service
show 11 to 15 of the 15 overruns that the counter can hold (such a node is a fixture of leptonai/gpud).
"""

from __future__ import annotations

from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma.counters import Counters
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.link_layers import ETHERNET
from nodeprep.model import CannotLook, Seen, T, Unreadable, raw

BOOT_SECONDS = 180.0  # of CLOCK_BOOTTIME: links come up while drivers and the network's configuration start (ours)
ACTIVE, LINK_UP = "4", "5"


def unsettled(port: Port, seen: Seen, before: Seen) -> str:
    """What happened to the link of the port between two looks, "" for nothing. What cannot be read has not happened."""
    came_up = coming_up(port, before)
    if came_up:
        return came_up
    if not _is_up(port):
        return "its link is not up now"
    if _link_downed(port, seen, before) or _carriers_lost(port, seen, before):
        return "its link was lost and came up again"
    return ""


def coming_up(port: Port, before: Seen) -> str:
    """Why the link of the port may still have been coming up after the look before, "" for no reason."""
    if 0.0 < before[Rdma].at < BOOT_SECONDS:  # 0.0 is no time
        return f"the node had booted less than {BOOT_SECONDS:.0f} s before"
    earlier = next((one for one in before[Rdma].ports if one.subject == port.subject), None)
    return "" if earlier is not None and _is_up(earlier) else "its link was not up before"


def _is_up(port: Port) -> bool:
    state, physical = raw(port)["state"], raw(port)["physical"]
    return _says(state, ACTIVE) and _says(physical, LINK_UP)


def _says(word: str | Unreadable, number: str) -> bool:
    return isinstance(word, Unreadable) or word.partition(":")[0] == number


def _link_downed(port: Port, seen: Seen, before: Seen) -> bool:
    now, then = _fact(Counters, seen), _fact(Counters, before)
    counters, old = now.of(port) if now else None, then.of(port) if then else None
    return bool(counters and old and counters.since(old).get("link_downed"))


def _carriers_lost(port: Port, seen: Seen, before: Seen) -> bool:
    """Of Ethernet: an IPoIB interface has a carrier of its own, and is often set down for good."""
    if raw(port)["layer"] != ETHERNET:
        return False
    now, then = _fact(Links, seen), _fact(Links, before)
    link = now.under(port.netdev, port.bdf) if now else None
    if now is None or then is None or link is None:
        return False
    at = {(one.subject.place, raw(one)["index"]): one for one in then.links}
    both = [(one, at.get((one.subject.place, raw(one)["index"]))) for one in (link, *now.legs(link.name))]
    return any(_lost(one, old) for one, old in both)


def _lost(now: Link, then: Link | None) -> bool:
    """Also a link that is another than before: its driver was bound again. A leg that stays down loses nothing."""
    if then is None or {now.has_carrier, then.has_carrier} == {True, False}:
        return True
    new, old = raw(now)["downs"], raw(then)["downs"]
    return isinstance(new, int) and isinstance(old, int) and new != old


def _fact(kind: type[T], look: Seen) -> T | None:
    try:
        return look.get(kind)
    except CannotLook:
        return None
