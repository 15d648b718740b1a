"""Has every RoCE and iWARP rail its network interface, up and on the same card?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.expected.kinds import Member
from nodeprep.facts.expected.soundness import RUNNING
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.link_layers import ETHERNET, INFINIBAND
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Unreadable, Verdict, raw

NOT_RUNNING = (
    "ip link show {interface}. Without the flag UP: ip link set {interface} up. With it: ethtool {interface}, "
    "dmesg | grep {interface}; then the cable, the switch port, the card."
)
SET_UP = "ip link set {interface} up"
NO_NETDEV = "Load the card's Ethernet driver (lspci -nnk -s {place}), then the network configuration."
NAME_AGAIN = (
    "ls -l /sys/class/net: give the netdev of {expected} its name back (udev rule, systemd .link file), then reboot."
)


def judge(seen: Seen) -> Iterator[Verdict]:
    expected = seen[Expected]
    rails = [port for port in seen[Rdma].ports if expected.of(port) or is_live_spare(port, expected)]
    yield from seen.each(rails, lambda port: verdict(port, seen))


def is_live_spare(port: Port, expected: Expected) -> bool:
    """Whether it is up, and another port stands in for what it lacks, or it for others. A leg has its bond."""
    member = expected.kinds.of(port)
    of_use = expected.is_spare(member) or expected.is_stand_in(member)
    return member is not None and of_use and not member.leg and inventory.is_active(port)


def verdict(port: Port, seen: Seen) -> Verdict | None:
    named = seen[Expected].port(port, lambda want: want.netdev)
    if port.layer != ETHERNET and named is None:
        return ipoib(port, seen) if port.layer == INFINIBAND else None
    link = seen[Links].shown_under(port.netdev, port.bdf)
    if link is None:
        return without(port, named.value if named else None, seen)
    shows = f"netdev {link.name} of {port.where} is {link.operstate}"
    wants = f"it is wanted up by {seen[Expected].of_use(port)}"
    status = Status.WARN if seen[Expected].of(port) is None else Status.FAIL
    if port.bdf and link.bdf and link.bdf != port.bdf and not (link.master or is_eri(port, seen)):
        message = f"netdev {link.name} of {port.where} is on another function, {link.bdf}; see ls -l /sys/class/net"
        return Verdict(port.subject, status, "OtherFunction", message, observed=link.bdf, expected=port.bdf)
    runs = link.operstate in RUNNING
    carries = link.carrier is not False and link.has_carrier is not False
    if not inventory.may_be_active(port) or (runs and carries):  # if not ACTIVE, port.state says why
        return Verdict(port.subject, Status.OK, "Netdev", shows, observed=link.operstate)
    about = {"interface": link.name}
    if link.set_down:
        message = f"netdev {link.name} of {port.where} was set down here while the port is ACTIVE; {wants}"
        return Verdict(port.subject, status, "NetdevDown", message, Remedy("link_up", about), link.operstate, "up")
    shows += " and has no carrier" if runs else ""
    shows = f"{shows} while the port is ACTIVE; {wants}"
    # Where its flags cannot be read, the command tells whether it was set down.
    see = f"ethtool {link.name}, dmesg" if link.set_down is False else f"ip link show {link.name} (flag UP), dmesg"
    return Verdict(port.subject, status, "NetdevNotRunning", f"{shows}: {see}", None, link.operstate, "up", args=about)


def without(port: Port, named: str | None, seen: Seen) -> Verdict | None:
    """The verdict on a rail whose netdev is not among this namespace's interfaces."""
    live = seen[Links].addresses is not None
    shows = f"{port.where} has no netdev here ({port.netdev or named or 'its name is not shown'})"
    if live and inventory.is_active(port) and port.layer == ETHERNET:
        # Its driver takes the state from the netdev, so there is one: in the network namespace of a container.
        return Verdict(port.subject, Status.OK, "NetdevElsewhere", f"{shows}, so another network namespace holds it")
    if not live and not others_have_one(port, seen):
        return None  # a tree that records no netdevs of RDMA ports
    expected = seen[Expected]
    wants = f"wanted by {expected.of_use(port)}"
    message = f"{shows}; {wants}: see whether its driver made one (dmesg, ip -d link)"
    status = Status.WARN if expected.of(port) is None else Status.FAIL
    return Verdict(port.subject, status, "NoNetdev", message, observed="none", expected=named or "a netdev")


def ipoib(port: Port, seen: Seen) -> Verdict | None:
    """InfiniBand carries verbs without its IPoIB interface: it is told where others of its kind have theirs up."""
    expected, link = seen[Expected], seen[Links].under(port.netdev, port.bdf)
    member = expected.kinds.of(port) if expected.by_kind else None
    if link is None or member is None or link.operstate in RUNNING:
        return None
    running = next((one.name for one in expected.kinds.likes(member) if runs(one, seen[Links])), None)
    if running is None:
        return None
    shows = f"IPoIB interface {link.name} of {port.where} is {link.operstate}"
    shows += f", while others of its kind have theirs up, {running} among them"
    return Verdict(port.subject, Status.WARN, "IpoibDown", shows, None, link.operstate, "up")


def runs(member: Member, links: Links) -> bool:
    link = links.under(member.port.netdev, member.port.bdf) if member.port is not None else None
    return link is not None and raw(link)["operstate"] in RUNNING


def others_have_one(port: Port, seen: Seen) -> bool:
    others = (other for other in seen[Rdma].ports if other.subject != port.subject and is_ethernet(other))
    return any(seen[Links].under(other.netdev, other.bdf) for other in others)


def is_eri(port: Port, seen: Seen) -> bool:
    """An Elastic RDMA interface carries RDMA only; the function beside it with the same MAC is its netdev."""
    device = seen[Rdma].device(port.device)
    return device is not None and device.id == VENDOR_DEVICE


def is_ethernet(port: Port) -> bool:
    layer: str | Unreadable = raw(port)["layer"]
    return layer == ETHERNET


CHECK = Check(
    id="port.netdev",
    question="Has every RoCE and iWARP rail its network interface, up and on the same card?",
    why="RoCE and iWARP take addresses, routes and MTU from the netdev: without it the port connects to nobody.",
    fix="ls -l /sys/class/net, and dmesg | grep {place}.",
    reasons=(
        Reason("OtherFunction", Status.FAIL, NAME_AGAIN),
        Reason("OtherFunction", Status.WARN, NAME_AGAIN),
        Reason("Netdev", Status.OK),
        Reason("NetdevNotRunning", Status.FAIL, NOT_RUNNING),
        Reason("NetdevNotRunning", Status.WARN, NOT_RUNNING),
        Reason("NetdevDown", Status.FAIL, SET_UP),
        Reason("NetdevDown", Status.WARN, SET_UP),
        Reason(
            "IpoibDown",
            Status.WARN,
            "ip -d link, then the network configuration of the interface.",
            against_likes=True,
        ),
        Reason("NetdevElsewhere", Status.OK),
        Reason("NoNetdev", Status.FAIL, NO_NETDEV),
        Reason("NoNetdev", Status.WARN, NO_NETDEV),
    ),
    source="Linux drivers/infiniband/core/roce_gid_mgmt.c; facebookresearch/gcm (critical: operstate, mismatch)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Rdma, Links, Expected),
    after=("port.present", "port.state"),
    remedies=("link_up",),
    judge=judge,
)
