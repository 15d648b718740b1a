"""Asks rtnetlink for this network namespace's links, addresses and neighbours. Reads only."""

from __future__ import annotations

import socket
import struct
from enum import IntEnum

from nodeprep.doors.netlink import nlsocket
from nodeprep.doors.netlink.dcbnl import Dcb
from nodeprep.doors.netlink.nlsocket import Message, Nest, NetlinkSocket, TableDecoder
from nodeprep.values import Value

__all__ = [
    "AddressInfo",
    "Dcb",
    "LinkInfo",
    "NeighbourInfo",
    "RouteNetlink",
    "addresses",
    "links",
    "neighbours",
    "read",
]

NETLINK_ROUTE = 0


class LinkCommand(IntEnum):
    """Message types of include/uapi/linux/rtnetlink.h."""

    RTM_GETLINK = 18
    RTM_GETADDR = 22
    RTM_GETNEIGH = 30


IFF_UP = 0x1
IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS = 29, struct.pack("=I", 1 << 3)
# RFC 2863 states in the words of /sys/class/net/*/operstate (net/core/net-sysfs.c)
OPERSTATES = {0: "unknown", 1: "notpresent", 2: "down", 3: "lowerlayerdown", 4: "testing", 5: "dormant", 6: "up"}
FAMILIES = {int(socket.AF_INET): "inet", int(socket.AF_INET6): "inet6"}
IFA_F_PERMANENT = 0x80
SCOPES = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}
# include/uapi/linux/neighbour.h
NEIGHBOUR_STATES = {
    0x00: "NONE",
    0x01: "INCOMPLETE",
    0x02: "REACHABLE",
    0x04: "STALE",
    0x08: "DELAY",
    0x10: "PROBE",
    0x20: "FAILED",
    0x40: "NOARP",
    0x80: "PERMANENT",
}


class LinkInfo(Value):
    """A network interface. None means that the kernel did not say."""

    index: int
    name: str
    kind: str | None  # "veth", "bond", "ipvlan"...; a physical device has none
    admin_up: bool
    operstate: str  # "up", "down", "lowerlayerdown"...: the word that sysfs shows
    carrier: bool | None
    mtu: int
    max_mtu: int | None  # None also where the driver sets no limit
    address: str | None  # 6 bytes; 20 of IP over InfiniBand
    permanent_address: str | None
    parent_dev: str | None  # "0000:5c:00.0"
    parent_bus: str | None  # "pci"
    master: int | None  # index of the bond or bridge above
    carrier_changes: int | None  # this and the next two: since the netdev was made
    carrier_up: int | None
    carrier_down: int | None
    altnames: tuple[str, ...]


class AddressInfo(Value):
    """An IP address of a link. A dynamic one has a lifetime: DHCP or a router's advertisement gave it."""

    index: int
    family: str  # "inet" or "inet6"
    address: str
    prefixlen: int
    scope: str  # "global", "link", "host"...
    dynamic: bool


class NeighbourInfo(Value):
    """A neighbour of a link: its link-layer address, and how sure the kernel is of it (NUD state)."""

    index: int
    address: str
    lladdr: str | None
    state: str  # "REACHABLE", "STALE", "INCOMPLETE", "FAILED"...


class RouteNetlink(Value):
    """Links and addresses of this network namespace, in the kernel's order."""

    links: tuple[LinkInfo, ...]
    addresses: tuple[AddressInfo, ...]


class LinkMessage(Message):
    """struct ifinfomsg. pyroute2's own ifinfmsg cuts the 20-byte address of an InfiniBand netdev to 6."""

    fields = (("family", "B"), ("pad", "B"), ("type", "H"), ("index", "i"), ("flags", "I"), ("change", "I"))
    nla_map = (
        (1, "address", "cdata"),
        (3, "name", "asciiz"),
        (4, "mtu", "uint32"),
        (10, "master", "uint32"),
        (16, "operstate", "uint8"),
        (18, "info", "Info"),
        (33, "carrier", "uint8"),
        (35, "carrier_changes", "uint32"),
        (47, "carrier_up", "uint32"),
        (48, "carrier_down", "uint32"),
        (51, "max_mtu", "uint32"),
        (52, "properties", "Properties"),
        (54, "permanent_address", "cdata"),
        (56, "parent_dev", "asciiz"),
        (57, "parent_bus", "asciiz"),
    )

    class Info(Nest):
        """IFLA_LINKINFO."""

        nla_map = ((1, "kind", "asciiz"),)

    class Properties(Nest):
        """IFLA_PROP_LIST."""

        nla_map = ((53, "altname", "asciiz"),)


class AddressMessage(Message):
    """struct ifaddrmsg."""

    fields = (("family", "B"), ("prefixlen", "B"), ("flags", "B"), ("scope", "B"), ("index", "I"))
    nla_map = ((1, "address", "cdata"), (2, "local", "cdata"))


class NeighbourMessage(Message):
    """struct ndmsg."""

    fields = (("family", "B"), ("pad", "3s"), ("index", "i"), ("state", "H"), ("flags", "B"), ("type", "B"))
    nla_map = ((1, "address", "cdata"), (2, "lladdr", "cdata"))


def read() -> RouteNetlink:
    """Both tables, asked over one socket.

    Raises:
        OSError: the kernel refused, or gave no valid answer.
    """
    with NetlinkSocket(NETLINK_ROUTE) as kernel:
        return RouteNetlink(links(kernel), addresses(kernel))


def read_neighbours() -> tuple[NeighbourInfo, ...]:
    """The neighbour table, asked over a socket of its own. Raises OSError as `read` does."""
    with NetlinkSocket(NETLINK_ROUTE) as kernel:
        return neighbours(kernel)


def links(kernel: NetlinkSocket) -> tuple[LinkInfo, ...]:
    body = bytes(16) + nlsocket.attribute(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
    return tuple(LINKS.values(kernel.undecoded(LinkCommand.RTM_GETLINK, body, dump=True)))


def addresses(kernel: NetlinkSocket) -> tuple[AddressInfo, ...]:
    said = kernel.undecoded(LinkCommand.RTM_GETADDR, bytes(8), dump=True)
    return tuple(one for one in ADDRESSES.values(said) if one is not None)


def neighbours(kernel: NetlinkSocket) -> tuple[NeighbourInfo, ...]:
    said = kernel.dump(LinkCommand.RTM_GETNEIGH, NeighbourMessage, bytes(12))
    return tuple(_neighbour(one) for one in said if one.field("family") in FAMILIES)


def _link(message: bytes) -> LinkInfo:
    said = nlsocket.decoded_one(LinkMessage, message)
    operstate, carrier = said.number("operstate") or 0, said.number("carrier")
    return LinkInfo(
        index=said.field("index"),
        name=said.text("name") or "",
        kind=said.nest("info").text("kind"),
        admin_up=bool(said.field("flags") & IFF_UP),
        operstate=OPERSTATES.get(operstate, str(operstate)),
        carrier=None if carrier is None else bool(carrier),
        mtu=said.number("mtu") or 0,
        max_mtu=said.number("max_mtu") or None,
        address=_hardware(said.octets("address")),
        permanent_address=_hardware(said.octets("permanent_address")),
        parent_dev=said.text("parent_dev"),
        parent_bus=said.text("parent_bus"),
        master=said.number("master"),
        carrier_changes=said.number("carrier_changes"),
        carrier_up=said.number("carrier_up"),
        carrier_down=said.number("carrier_down"),
        altnames=said.nest("properties").texts("altname"),
    )


def _address(message: bytes) -> AddressInfo | None:
    """None for an address of another family than IP's."""
    said = nlsocket.decoded_one(AddressMessage, message)
    if said.field("family") not in FAMILIES:
        return None
    scope = said.field("scope")
    return AddressInfo(
        index=said.field("index"),
        family=FAMILIES[said.field("family")],
        # On a point-to-point link IFA_ADDRESS is the far end.
        address=_ip(said, said.octets("local") or said.octets("address")),
        prefixlen=said.field("prefixlen"),
        scope=SCOPES.get(scope, str(scope)),
        dynamic=not said.field("flags") & IFA_F_PERMANENT,
    )


def _neighbour(said: NeighbourMessage) -> NeighbourInfo:
    state = said.field("state")
    return NeighbourInfo(
        index=said.field("index"),
        address=_ip(said, said.octets("address")),
        lladdr=_hardware(said.octets("lladdr")),
        state=NEIGHBOUR_STATES.get(state, str(state)),
    )


def _ip(said: Message, data: bytes | None) -> str:
    try:
        return socket.inet_ntop(said.field("family"), data or b"")
    except ValueError as error:
        raise nlsocket.malformed(f"{data!r} is no {FAMILIES[said.field('family')]} address") from error


def _hardware(data: bytes | None) -> str | None:
    """A link-layer address as sysfs writes it: "52:54:00:12:34:56", or twenty pairs."""
    return data.hex(":") if data else None


LINKS, ADDRESSES = TableDecoder(_link), TableDecoder(_address)
