"""Whether a port can carry a job's traffic: it is live, and lacks neither address, LID, netdev nor rate."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nodeprep.facts.machine.pci import PciDevice
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Gid, Port, RdmaDevice
from nodeprep.link_layers import ETHERNET, INFINIBAND
from nodeprep.model import Unreadable
from nodeprep.shown import field_of

DOWN, ACTIVE, LINK_UP = "1", "4", "5"  # enum ib_port_state, ib_port_phys_state (include/rdma/ib_verbs.h)
POWERED_OFF = "D3cold"  # Documentation/power/pci.rst: no power, so no driver can be talking to it
ZERO_GUID = "0000:0000:0000:0000"
IWARP = "4"  # RDMA_NODE_RNIC (include/rdma/ib_verbs.h): its one GID is made of its MAC
RUNNING = ("up", "unknown")  # IF_OPER_UNKNOWN is what drivers show that do not track it (include/uapi/linux/if.h)


def is_live(port: Port) -> bool:
    """ACTIVE, and nothing says that the link under it is down.

    LinkUp tells it where the state cannot be read: on Ethernet drivers make both of the same netdev, and an InfiniBand
    port that no subnet manager set up has no LID.
    """
    state, physical = field_of(port, "state"), field_of(port, "physical")
    has_link = isinstance(physical, str) and physical.partition(":")[0] == LINK_UP
    if isinstance(state, Unreadable):
        return has_link
    return state.partition(":")[0] == ACTIVE and (has_link or isinstance(physical, Unreadable))


def may_be_live(port: Port) -> bool:
    """Whether nothing that can be read denies that it is ACTIVE with its link up."""
    state, physical = field_of(port, "state"), field_of(port, "physical")
    denied = isinstance(state, str) and state.partition(":")[0] != ACTIVE
    return not denied and not (isinstance(physical, str) and physical.partition(":")[0] != LINK_UP)


def is_awake(nic: PciDevice | None, device: RdmaDevice | None) -> bool:
    """Whether the function answers and has power, and its device an identity, as far as that can be read."""
    gone = nic is not None and (field_of(nic, "answers") is False or field_of(nic, "power") == POWERED_OFF)
    return not gone and (device is None or field_of(device, "node_guid") != ZERO_GUID)


def is_sound(
    port: Port, device: RdmaDevice | None, links: Links | None, rate: float, addressed: Collection[str]
) -> bool:
    """Live, and nothing that can be read is amiss that would close a gate.

    `rate` is Gb/s that a profile asks for, `addressed` are the bonds that have an address (`bonds_with_address`).
    """
    layer, runs_at = field_of(port, "layer"), field_of(port, "rate")
    if not is_live(port) or (isinstance(runs_at, float) and runs_at < rate):
        return False
    if layer == INFINIBAND:
        lids = [field_of(port, name) for name in ("lid", "sm_lid")]
        return not any(isinstance(lid, str) and not int(lid, 16) for lid in lids)
    if layer != ETHERNET:
        return True
    link = links.under(port.netdev, port.bdf) if links else None
    operstate = field_of(link, "operstate") if link else "unknown"
    if (isinstance(operstate, str) and operstate not in RUNNING) or (link is not None and link.has_carrier is False):
        return False
    iwarp = device is not None and str(field_of(device, "node_type")).startswith(IWARP)
    bond = links.bond_of(port.netdev, port.bdf) if links is not None else None
    return iwarp or (has_address(port, links) if bond is None else bond.name in addressed)


def has_address(port: Port, links: Links | None) -> bool:
    """Whether one of its GIDs is made of an address that routers carry; True where no table of them can be read."""
    gids = field_of(port, "gids")
    if not isinstance(gids, tuple):
        return True
    return any(not gid.readable or (gid.routable and is_fresh(gid, port, links)) for gid in gids)


def bonds_with_address(ports: Iterable[Port], links: Links | None) -> frozenset[str]:
    """The bonds of which a live port has an address: it shows up on one leg or on all, after a fail-over on another."""
    if links is None:
        return frozenset()
    live = ((links.bond_of(port.netdev, port.bdf), port) for port in ports if is_live(port))
    return frozenset(bond.name for bond, port in live if bond is not None and has_address(port, links))


def is_fresh(gid: Gid, port: Port, links: Links | None) -> bool:
    """Whether its address is on its netdev still; taken for granted where addresses or the netdev are not shown."""
    link = links.named(gid.netdev or port.netdev) if links else None
    if links is None or link is None or links.addresses is None:
        return True
    names = {link.name, link.master} - {None}
    there = [one.address for name in names for one in links.on(name or "") or ()]
    return gid.address in there or gid.value in map(eight_groups, there)


def eight_groups(address: str) -> str:
    """An IPv6 address as the GID table writes it."""
    head, _, tail = address.partition("::")
    left, right = [group for group in head.split(":") if group], [group for group in tail.split(":") if group]
    return ":".join(group.zfill(4) for group in (*left, *["0"] * (8 - len(left) - len(right)), *right))
