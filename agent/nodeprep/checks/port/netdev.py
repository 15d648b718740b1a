"""Has every RoCE and iWARP rail its network interface, up and on the same card?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Unreadable, Verdict, raw

ETHERNET = "Ethernet"
RUNNING = ("up", "unknown")  # IF_OPER_UNKNOWN is what drivers show that do not track it (include/uapi/linux/if.h)


def judge(seen: Seen) -> Iterator[Verdict]:
    rails = [port for port in seen[Rdma].ports if seen[Expected].of(port) is not None]
    recorded = cache(lambda: records_netdevs(seen))
    yield from seen.each(rails, lambda port: verdict(port, recorded, seen))


def verdict(port: Port, recorded: Callable[[], bool], seen: Seen) -> Verdict | None:
    named = seen[Expected].port(port, lambda want: want.netdev)
    if port.layer != ETHERNET and named is None:
        return None
    link = seen[Links].under(port.netdev, port.bdf)
    if link is None:
        return without(port, named.value if named else None, recorded, seen)
    shows = f"netdev {link.name} of {port.where} is {link.operstate}"
    wants = f"it is wanted up by {seen[Expected].of(port)}"
    if port.bdf and link.bdf and link.bdf != port.bdf and not (link.master or is_eri(port, seen)):
        message = f"netdev {link.name} of {port.where} is on another function, {link.bdf}; see ls -l /sys/class/net"
        return Verdict(port.subject, Status.FAIL, "OtherFunction", message, observed=link.bdf, expected=port.bdf)
    runs = link.operstate in RUNNING
    if not inventory.may_be_active(port) or (runs and link.carrier is not False):  # if not ACTIVE, port.state says why
        return Verdict(port.subject, Status.OK, "Netdev", shows, observed=link.operstate)
    shows += " and has no carrier" if runs else ""
    shows, about = f"{shows} while the port is ACTIVE; {wants}", {"interface": link.name}
    if link.set_down:
        up = Remedy("link_up", about)
        message = f"{shows}, and was set down here"
        return Verdict(port.subject, Status.FAIL, "NetdevDown", message, up, link.operstate, "up")
    # Where its flags cannot be read, the command tells whether it was set down.
    see = f"ethtool {link.name}, dmesg" if link.set_down is False else f"ip link show {link.name} (flag UP), dmesg"
    return Verdict(
        port.subject, Status.FAIL, "NetdevNotRunning", f"{shows}: {see}", None, link.operstate, "up", args=about
    )


def without(port: Port, named: str | None, recorded: Callable[[], bool], seen: Seen) -> Verdict | None:
    """The verdict on a rail whose netdev is not among this namespace's interfaces."""
    live = seen[Links].addresses is not None
    shows = f"{port.where} has no netdev here ({port.netdev or named or 'its name is not shown'})"
    if live and inventory.is_active(port) and port.layer == ETHERNET:
        # Its driver takes the state from the netdev, so there is one: in the network namespace of a container.
        return Verdict(port.subject, Status.OK, "NetdevElsewhere", f"{shows}, so another network namespace holds it")
    if not live and not recorded():
        return None  # a tree that records no netdevs of RDMA ports
    message = f"{shows}; {seen[Expected].of(port)} wants this rail: see whether its driver made one (dmesg, ip -d link)"
    return Verdict(port.subject, Status.FAIL, "NoNetdev", message, observed="none", expected=named or "a netdev")


def records_netdevs(seen: Seen) -> bool:
    """Whether a tree shows the netdev of any RDMA port."""
    return any(seen[Links].under(other.netdev, other.bdf) for other in seen[Rdma].ports if is_ethernet(other))


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
        Reason(
            "OtherFunction",
            Status.FAIL,
            "ls -l /sys/class/net: give the netdev of {expected} its name back (udev rule, systemd .link file), then "
            "reboot.",
        ),
        Reason("Netdev", Status.OK),
        Reason(
            "NetdevNotRunning",
            Status.FAIL,
            "ip link show {interface}. Without the flag UP: ip link set {interface} up. With it: ethtool {interface}, "
            "dmesg | grep {interface}; then the cable, the switch port, the card.",
        ),
        Reason("NetdevDown", Status.FAIL, "ip link set {interface} up"),
        Reason("NetdevElsewhere", Status.OK),
        Reason(
            "NoNetdev",
            Status.FAIL,
            "Load the card's Ethernet driver (lspci -nnk -s {place}), then the network configuration.",
        ),
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
