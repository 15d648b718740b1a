"""Is the MTU of every RoCE and iWARP rail as large as is expected of it?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.expected.bonds import ExpectedBond
from nodeprep.facts.expected.inventory import Expectancy, Expected
from nodeprep.facts.expected.kinds import Member
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma import payload
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.link_layers import ETHERNET
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Unreadable, Verdict, raw
from nodeprep.values import Value


class Want(Value):
    """The MTU of a rail's netdev."""

    at_least: Annotated[
        int,
        "bytes; for ports that a profile wants and states no MTU for; once an operator sets it, for every wanted "
        "port. 4200 is what RoCE needs to carry 4096 bytes in a packet (Mellanox's advice; the kernel is content "
        "with 4192).",
    ] = 4200
    exactly: Annotated[
        tuple[int, ...],
        "bytes; any other MTU fails, whatever else is stated. Of several, an Elastic RDMA interface must have the "
        "largest where erdma-controller's record says jumbo frames and the smallest where it says none; any will do "
        "where there is no record.",
    ] = ()


def judge(seen: Seen) -> Iterator[Verdict]:
    expected = seen[Expected]
    ports = [port for port in seen[Rdma].ports if is_judged(port, expected)]
    bests = expected.bests(lambda member: mtu_of(member, seen[Links]))
    yield from seen.each(ports, lambda port: verdict(port, bests.get(port.subject.key), seen))
    judged = {link.name for port in ports if (link := seen[Links].under(port.netdev, port.bdf)) is not None}
    yield from seen.each(expected.bonds, lambda bond: None if bond.now in judged else of_bond(bond, seen))


def is_judged(port: Port, expected: Expected) -> bool:
    """Whether somebody wants it or states its MTU; of the front end, what is up is held against its likes.

    So is the leg of a rails' bond, though another leg stands in for it, or dead ports of a faster kind are the rails.
    """
    if expected.of_rail(port) or expected.of(port) or expected.port(port, lambda one: one.mtu):
        return True
    member = expected.kinds.of(port)
    held = expected.unwanted(port) is not None or expected.is_spare(member) or expected.is_stand_in(member)
    return member is not None and member.live and held


def verdict(port: Port, best: Expectancy[int] | None, seen: Seen) -> Verdict | None:
    link = seen[Links].shown_under(port.netdev, port.bdf)
    if port.layer != ETHERNET or link is None or not is_recorded(link):
        return None
    shows = f"{port.where}: MTU of {link.name} is {payload.shown(link.mtu, port, seen[Rdma])}"
    if seen[Want].exactly:
        return exact(port, link, shows, seen)
    wanted = asked(port, link, best, seen)
    if wanted is None:
        return Verdict(port.subject, Status.OK, "NothingExpected", shows, observed=str(link.mtu))
    has, wants = str(link.mtu), str(wanted.value)
    if link.mtu >= wanted.value:
        return Verdict(port.subject, Status.OK, "Mtu", shows, observed=has, expected=wants)
    asks = f"{payload.shown(wanted.value, port, seen[Rdma])} is wanted by {wanted.by}; the switch port must carry it"
    up = change(port, link, wanted.value, seen)
    return Verdict(port.subject, Status.WARN, "BelowMtu", f"{shows}; {asks}", up, has, wants)


def of_bond(bond: ExpectedBond, seen: Seen) -> Verdict | None:
    """The verdict on a bond whose MTU the profile states. Its legs follow it."""
    link, wanted = seen[Links].named(bond.now), bond.want.mtu
    if link is None or wanted is None or not is_recorded(link):
        return None
    about, shows = {"interface": link.name, "mtu": str(wanted)}, f"MTU of bond {link.name} is {link.mtu}"
    if link.mtu >= wanted:
        return Verdict(bond.subject, Status.OK, "Mtu", shows, observed=str(link.mtu), expected=str(wanted))
    message = f"{shows}; {wanted} is wanted by {seen[Expected].by}; the switch ports of its legs must carry it"
    return Verdict(bond.subject, Status.WARN, "BelowMtu", message, Remedy("mtu", about), str(link.mtu), str(wanted))


def exact(port: Port, link: Link, shows: str, seen: Seen) -> Verdict:
    """The verdict where a job that gets it wrong computes wrong numbers: all but the stated MTU fails."""
    right, by = allowed(port, seen)
    has, wants = str(link.mtu), " or ".join(map(str, right))
    if link.mtu in right:
        return Verdict(port.subject, Status.OK, "Mtu", shows, observed=has, expected=wants)
    remedy = change(port, link, right[0], seen) if len(right) == 1 else None
    message = f"{shows}; exactly {wants} is wanted {by}: with another NCCL may corrupt data in silence"
    args = {"interface": link.name, "mtu": wants}
    return Verdict(port.subject, Status.FAIL, "WrongMtu", message, remedy, has, wants, args=args)


def allowed(port: Port, seen: Seen) -> tuple[tuple[int, ...], str]:
    """The MTUs that are right here, and who says so."""
    exactly, cluster = seen[Want].exactly, seen.get(Cluster) if is_eri(port, seen) else None
    record = cluster.erdma if cluster else None
    if record is None:
        return exactly, seen.wanted_by("exactly")
    value, frames = (max(exactly), "jumbo frames") if record.jumbo else (min(exactly), "no jumbo frames")
    return (value,), f"{seen.wanted_by('exactly')} and by erdma-controller's record ({frames})"


def change(port: Port, link: Link, mtu: int, seen: Seen) -> Remedy:
    return Remedy("eri_mtu" if is_eri(port, seen) else "mtu", {"interface": link.name, "mtu": str(mtu)})


def is_eri(port: Port, seen: Seen) -> bool:
    device = seen[Rdma].device(port.device)
    return device is not None and device.id == VENDOR_DEVICE


def is_recorded(link: Link) -> bool:
    mtu = raw(link)["mtu"]
    return not (isinstance(mtu, Unreadable) and mtu.not_recorded)


def asked(port: Port, link: Link, best: Expectancy[int] | None, seen: Seen) -> Expectancy[int] | None:
    """What the profile states, or an operator's number; else the best of the like rails."""
    expected, number = seen[Expected], seen[Want].at_least
    least = Expectancy(number, seen.wanted_by("at-least").removeprefix("by "), firm=True)
    stated = expected.port(port, lambda one: one.mtu)
    if stated is not None or number != Want().at_least:
        return stated or least
    if not expected.is_firm(port):
        return best
    return best if best is not None and link.mtu >= least.value else least


def mtu_of(member: Member, links: Links) -> int | None:
    link = links.under(member.port.netdev, member.port.bdf) if member.port is not None else None
    mtu = raw(link)["mtu"] if link is not None else None
    return mtu if isinstance(mtu, int) else None


CHECK = Check(
    id="port.mtu",
    question="Is the MTU of every RoCE and iWARP rail as large as is expected of it?",
    why="A rail at MTU 1500 sends 1024 bytes in a packet where the others send 4096, and cannot talk to jumbo peers.",
    fix="ip link set {interface} mtu {mtu}, also in the network configuration; the switch port must carry it too. If "
    "{name} is not a rail, leave it: nodeprep profile capture --accept port.mtu@{name}.",
    reasons=(
        Reason("NothingExpected", Status.OK),
        Reason("Mtu", Status.OK),
        Reason("BelowMtu", Status.WARN, against_likes=True),
        Reason(
            "WrongMtu",
            Status.FAIL,
            "ip link set {interface} mtu {mtu} while no job uses the port, also in the network configuration.",
        ),
    ),
    source="Linux include/rdma/ib_addr.h iboe_get_mtu; facebookresearch/gcm (warning); Alibaba Cloud ECS guide to "
    "eRDMA on GPU instances (1400, or 8500 with jumbo frames)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, Links, Expected),
    uses=(Cluster,),
    after=("port.netdev",),
    remedies=("mtu", "eri_mtu"),
    judge=judge,
    want=Want,
)
