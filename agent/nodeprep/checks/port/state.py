"""Is every RDMA port that this node needs up?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.expected import soundness
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.link_layers import ETHERNET, INFINIBAND
from nodeprep.model import (
    CannotLook,
    Check,
    Confirmation,
    Reason,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    raw,
)

# enum ib_port_state, ib_port_phys_state (include/rdma/ib_verbs.h): the number is the kernel's ABI.
DOWN, INIT, ARMED, ACTIVE = "1", "2", "3", "4"
POLLING, DISABLED, LINK_UP = "2", "3", "5"
AND_ITS_ADDRESS = "; once up it needs its address, which erdma-controller's agent sets when its pod starts"
FAR_END = "nothing from the far end: cable or switch port"


def judge(seen: Seen) -> Iterator[Verdict]:
    lost = seen[Expected].lost_legs
    yield from seen.each(seen[Rdma].ports, lambda port: verdict(port, lost, seen))


def verdict(port: Port, lost: frozenset[str], seen: Seen) -> Verdict:
    expected = seen[Expected]
    lost_leg = port.place in lost or port.netdev in lost
    wanted_by = expected.of(port) or (expected.by if lost_leg else None)
    state, physical = port.state.partition(":")[0], port.physical.partition(":")[0]
    shows = f"{port.where} is {port.state!r}, {port.physical!r}"
    if state == ACTIVE and physical == LINK_UP:
        return says(port, Status.OK, "Active", shows)
    if wanted_by is None:
        return unwanted(port, shows, expected)
    shows = f"{shows}; ACTIVE is wanted by {wanted_by}"
    if state == ACTIVE:
        return says(port, Status.FAIL, "PhysicalNotUp", f"{shows}; the link under it is not up")
    layer: str | Unreadable = raw(port)["layer"]
    if layer == ETHERNET:
        return of_ethernet(port, state, physical, shows, seen)
    if state in (INIT, ARMED) and layer == INFINIBAND:
        return says(port, Status.FAIL, "NoSubnetManager", f"{shows}; link up, but no subnet manager set it up")
    if physical == DISABLED and layer == INFINIBAND:
        disabled = "the port itself is disabled: by the subnet manager, ibportstate or mlxlink"
        return says(port, Status.FAIL, "PortDisabled", f"{shows}; {disabled}")
    if physical == POLLING:
        return says(port, Status.FAIL, "NoSignal", f"{shows}; {FAR_END}", interface=port.netdev or "")
    return says(port, Status.FAIL, "NotActive", shows)


def of_ethernet(port: Port, state: str, physical: str, shows: str, seen: Seen) -> Verdict:
    """RoCE and iWARP drivers take the state from the netdev: ACTIVE is one that runs and has a carrier.

    They show "3: Disabled" whichever of the two it lacks (mlx5_query_port_roce). Only IFF_UP of the netdev tells.
    """
    links = links_of(seen)
    link = links.under(port.netdev, port.bdf) if links else None
    name = link.name if link else port.netdev
    down = links.set_down_at(link) if links and link else None
    if down is not None:
        up = set_up(down.name, seen[Rdma].device(port.device))
        told = f"{shows}; {down.name} was set down here{AND_ITS_ADDRESS if up.playbook == 'eri_netdev_up' else ''}"
        return says(port, Status.FAIL, "AdministrativelyDown", told, up)
    if state == INIT and name is not None:
        # iw_query_port (drivers/infiniband/core/device.c), usnic_ib_query_port: a carrier, and no entry in ifa_list.
        shows += f"; {name} has a carrier and no IPv4 address: that is INIT on Ethernet, which has no subnet manager"
        return says(port, Status.FAIL, "NoAddress", shows, interface=name)
    without_carrier = link is not None and link.set_down is False and link.has_carrier is False
    if state == DOWN and (physical == POLLING or without_carrier):
        told = f"{name} is set up and has no carrier, {FAR_END}" if without_carrier else FAR_END
        return says(port, Status.FAIL, "NoSignal", f"{shows}; {told}", interface=name or "")
    if state == DOWN and name is not None and (link is None or link.set_down is None or link.has_carrier is None):
        told = f"either {name} was set down here, or {FAR_END}; ip link show {name} tells which"
        return says(port, Status.FAIL, "NoLink", f"{shows}; {told}", interface=name)
    if link is not None and link.has_carrier:
        shows += f", though {name} is set up and has a carrier"
    return says(port, Status.FAIL, "NotActive", shows)


def links_of(seen: Seen) -> Links | None:
    """None also where they could not be observed: the port's own state convicts without them."""
    try:
        return seen.get(Links)
    except CannotLook:
        return None


def unwanted(port: Port, shows: str, expected: Expected) -> Verdict:
    """A spare, or a port of the front end: a mixture is told, and where none of its kind is up nobody needs it."""
    member = expected.unwanted(port)
    camps = expected.camps(member) if member is not None else ""
    if camps and not soundness.is_live(port):
        return says(port, Status.WARN, "UnlikeOthers", f"{shows}; {camps}; no job is known to need it")
    return says(port, Status.OK, "NotNeeded", f"{shows}; nothing asks for this port")


def set_up(netdev: str, device: RdmaDevice | None) -> Remedy:
    """An Elastic RDMA interface may get a second default route with its address: that one wants it unused."""
    if device is not None and device.id == VENDOR_DEVICE:
        return Remedy("eri_netdev_up", {"interface": netdev})
    return Remedy("link_up", {"interface": netdev})


def says(port: Port, status: Status, reason: str, message: str, remedy: Remedy | None = None, **args: str) -> Verdict:
    expected = "4: ACTIVE" if status is Status.FAIL else ""  # of a spare nobody wants anything
    return Verdict(port.subject, status, reason, message, remedy, observed=port.state, expected=expected, args=args)


CHECK = Check(
    id="port.state",
    question="Is every RDMA port that this node needs up?",
    why="NCCL opens a queue pair on every rail: one port that is not ACTIVE fails the job at its start, or halves it.",
    fix="ibstat, and dmesg | grep {place}.",
    reasons=(
        Reason("Active", Status.OK),
        Reason("NotNeeded", Status.OK),
        Reason("UnlikeOthers", Status.WARN),
        Reason("PhysicalNotUp", Status.FAIL),
        Reason("NoSubnetManager", Status.FAIL, "Ask for the subnet manager with sminfo, then see its log and switch."),
        Reason(
            "NoAddress",
            Status.FAIL,
            "Give {interface} its IPv4 address (DHCP, CNI or cloud configuration): ip address show {interface}.",
        ),
        Reason("AdministrativelyDown", Status.FAIL, "ip link set {interface} up"),
        Reason(
            "PortDisabled",
            Status.FAIL,
            "Enable it again: mlxlink -d {place} -a UP, or ibportstate LID PORT enable; see the subnet manager's log.",
        ),
        Reason(
            "NoSignal",
            Status.FAIL,
            "Look at the switch port, then at the module and cable: mlxlink -d {place} -m, or ethtool -m {interface}.",
        ),
        Reason(
            "NoLink",
            Status.FAIL,
            "ip link show {interface}. Without the flag UP: ip link set {interface} up. With UP and NO-CARRIER: see "
            "the switch port, then the module and cable (ethtool -m {interface}).",
        ),
        Reason("NotActive", Status.FAIL),
    ),
    source="Linux drivers/infiniband/core/{sysfs,device}.c; query_port of each driver (on Ethernet, 3: Disabled is any "
    "missing carrier); facebookresearch/gcm check_iblink (INIT carries no traffic)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Rdma, Expected),
    uses=(Links,),
    after=("pci.rdma-driver", "port.present", "port.layer"),
    remedies=("link_up", "eri_netdev_up"),
    judge=judge,
)
