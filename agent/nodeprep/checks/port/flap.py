"""Did the link of an RDMA port go down since the last look?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma import transitions
from nodeprep.facts.rdma.counters import Counters
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.link_layers import INFINIBAND
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict, raw
from nodeprep.values import Value

LINK_DOWNED = "link_downed"


class Want(Value):
    """How often a link may go down between two looks."""

    fail_at: Annotated[
        int,
        "so many times are a fault that closes the gate; fewer are a warning (leptonai/gpud calls three a flap).",
    ] = 3


def judge(seen: Seen) -> Iterator[Verdict]:
    if seen.before is not None:
        before = seen.before
        yield from seen.each(seen[Rdma].ports, lambda port: verdict(port, seen, before))


def verdict(port: Port, seen: Seen, before: Seen) -> Verdict | None:
    downs = [
        count for count in (carriers_lost(port, seen, before), links_downed(port, seen, before)) if count is not None
    ]
    if not downs:
        return None
    wanted_by, times = seen[Expected].of_use(port), max(downs)  # both count the same event
    shows = f"{port.where} lost its link {times} time{'' if times == 1 else 's'} in {seen.seconds:.0f} s"
    if not times:
        return says(port, Status.OK, "Steady", f"{port.where} kept its link for {seen.seconds:.0f} s", times)
    if wanted_by is None:
        return says(port, Status.OK, "NotNeeded", f"{shows}; nothing asks for this port", times)
    shows = f"{shows}; a steady link is wanted by {wanted_by}: cable, transceiver or switch port (dmesg, ethtool -m)"
    coming_up = transitions.coming_up(port, before)
    if times >= seen[Want].fail_at and not coming_up:
        limit = f"fewer than {seen[Want].fail_at} times are wanted {seen.wanted_by('fail-at')}"
        return says(port, Status.FAIL, "Flapping", f"{shows}; {limit}", times)
    shows += f"; {coming_up}, and a link that comes up may be lost again" if coming_up else ""
    return says(port, Status.WARN, "LinkLost", shows, times)


def says(port: Port, status: Status, reason: str, message: str, times: int) -> Verdict:
    return Verdict(port.subject, status, reason, message, observed=str(times), expected="0")


def carriers_lost(port: Port, seen: Seen, before: Seen) -> int | None:
    """How often the port's netdev, or a leg of the bond that is its netdev, lost its carrier; None if nothing tells."""
    now, then = seen.get(Links), before.get(Links)
    counts = [lost(link, then.same(link)) for link in carriers(port, now)] if now and then else []
    return max((count for count in counts if count is not None), default=None)


def carriers(port: Port, links: Links) -> tuple[Link, ...]:
    link = links.named(port.netdev)
    if link is None:
        return ()
    return (link, *links.legs(link.name)) if link.is_bond else (link,)


def lost(now: Link, then: Link | None) -> int | None:
    if then is None or now.downs is None or then.downs is None or now.downs < then.downs:
        return None
    # Linux 6.12 counts an administrator's "down" as a lost carrier.
    return now.downs - then.downs if now.up and then.up else None


def links_downed(port: Port, seen: Seen, before: Seen) -> int | None:
    """By how much the port's own counter grew; None if nothing tells, or if an administrator caused it."""
    now, then = seen.get(Counters), before.get(Counters)
    counters, old = now.of(port) if now else None, then.of(port) if then else None
    if counters is None or old is None or LINK_DOWNED in old.saturated:
        return None
    count, base = counters.get(LINK_DOWNED), old.get(LINK_DOWNED)
    if count is None or base is None or count < base or was_set_down(port, seen) or was_set_down(port, before):
        return None
    return count - base


def was_set_down(port: Port, look: Seen) -> bool:
    """Of Ethernet: an IPoIB interface that is set down, as it often is for good, takes no link down."""
    links = look.get(Links) if raw(port)["layer"] != INFINIBAND else None
    return links is not None and any(not link.up for link in carriers(port, links))


CHECK = Check(
    id="port.flap",
    question="Did the link of an RDMA port go down since the last look?",
    why="Each lost link stalls all ranks for seconds, or ends the job when retries run out; the port looks fine after.",
    fix="Clean or swap the cable and transceiver; see the switch port's error counters; drain the node if it goes on.",
    reasons=(
        Reason("Steady", Status.OK),
        Reason("NotNeeded", Status.OK),
        Reason("Flapping", Status.FAIL),
        Reason("LinkLost", Status.WARN),
    ),
    source="Linux net/core/link_watch.c, IBTA LinkDowned; leptonai/gpud flap >= 3; Azure NHC >= 5 in 24 h",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.LATCHED,
    needs=(Rdma, Expected),
    uses=(Links, Counters),
    judge=judge,
    want=Want,
    rates=True,
    window=lambda _: 60.0,  # a flap is several losses in a short time, not one in each of many looks
)
