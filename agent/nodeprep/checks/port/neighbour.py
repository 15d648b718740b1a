"""Does anybody answer on each RoCE rail?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Links
from nodeprep.facts.network.neighbours import Neighbour, Neighbours
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.link_layers import ETHERNET
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict, raw

# NUD states (include/uapi/linux/neighbour.h). PROBE tells nothing yet; multicast and loopback have NOARP.
SILENT_STATES = ("FAILED", "INCOMPLETE")
ANSWERED_STATES = ("REACHABLE", "STALE", "DELAY", "PERMANENT")


def judge(seen: Seen) -> Iterator[Verdict]:
    rails = [port for port in seen[Rdma].ports if seen[Expected].of(port) is not None]
    yield from seen.each(rails, lambda port: verdict(port, rails, seen))


def verdict(port: Port, rails: list[Port], seen: Seen) -> Verdict | None:
    if port.layer != ETHERNET:
        return None
    silent, answered = around(port, seen, SILENT_STATES), around(port, seen, ANSWERED_STATES)
    if not silent and not answered:
        return None
    count = len(answered)
    shows = (
        f"{port.where} ({port.netdev}): {count} neighbour{'' if count == 1 else 's'} answered, {len(silent)} did not"
    )
    if not silent:
        return Verdict(port.subject, Status.OK, "Answered", shows)
    shows += f" ({', '.join(f'{one.address} {one.state}' for one in silent)})"
    elsewhere = next((rail for rail in rails if around(rail, seen, ANSWERED_STATES)), None)
    if answered or elsewhere is None:
        return Verdict(port.subject, Status.OK, "SomeSilent", f"{shows}; single ones that are gone are normal")
    message = (
        f"{shows}, while on {elsewhere.where} some do; wanted by {seen[Expected].of(port)}: wrong VLAN, or the "
        f"wrong switch port? ip neighbour show dev {port.netdev}"
    )
    about = {"interface": port.netdev or ""}
    return Verdict(port.subject, Status.WARN, "NobodyAnswers", message, None, f"0 of {len(silent)}", "any", args=about)


def around(port: Port, seen: Seen, states: tuple[str, ...]) -> list[Neighbour]:
    """The unicast neighbours on a rail in one of these states; those of a bond are its own, not its leg's."""
    links = seen[Links]
    link = links.named(port.netdev)
    if link is None or raw(port)["layer"] != ETHERNET:
        return []
    places = {one.index for one in (link, links.named(link.master)) if one is not None}
    found = [one for one in seen[Neighbours].entries if one.index in places and one.state in states]
    return [one for one in found if not is_multicast(one.address)]


def is_multicast(address: str) -> bool:
    """ff00::/8 (RFC 4291) and 224.0.0.0/4 (RFC 5771)."""
    head = address.partition(".")[0]
    return address.startswith("ff") or (head.isdecimal() and 224 <= int(head) <= 239)


CHECK = Check(
    id="port.neighbour",
    question="Does anybody answer on each RoCE rail?",
    why="A rail in the wrong VLAN has link, address and GID, and reaches nobody: the job hangs when it connects.",
    fix="Compare the switch port's VLAN with that of a rail that works; then the address and prefix of the netdev (ip "
    "address show dev {interface}).",
    reasons=(
        Reason("Answered", Status.OK),
        Reason("SomeSilent", Status.OK),
        Reason("NobodyAnswers", Status.WARN),
    ),
    source="Linux net/core/neighbour.c (NUD states); Alibaba Cloud Lingjun (neighbour of the default route)",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, Links, Neighbours, Expected),
    after=("port.gid",),
    judge=judge,
)
