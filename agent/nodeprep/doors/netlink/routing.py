"""Asks rtnetlink for the rules and routes of all tables, and what the kernel would do with a packet. Sends no packet.

Messages about rules and routes are decoded here, because pyroute2 takes 60 microseconds for each of hundreds.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from nodeprep.door_values import RoutingRule
from nodeprep.doors.netlink import interfaces, nlsocket
from nodeprep.doors.netlink.interfaces import FAMILIES, NETLINK_ROUTE, SCOPES, AddressInfo, LinkInfo, NeighbourInfo
from nodeprep.doors.netlink.nlsocket import ATTRIBUTE, HEADER, NLA_TYPE_MASK, NetlinkSocket, Refused, TableDecoder
from nodeprep.values import Value


class RouteCommand(IntEnum):
    """Message types of include/uapi/linux/rtnetlink.h."""

    RTM_GETROUTE = 26
    RTM_GETRULE = 34


# struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags (include/uapi/linux/rtnetlink.h);
# struct fib_rule_hdr has its action instead of the type (include/uapi/linux/fib_rules.h).
RTMSG = struct.Struct("=8BI")
U32 = struct.Struct("=I")
# include/uapi/linux/rtnetlink.h
RTNEXTHOP = struct.Struct("=HBBi")  # length, flags, hops, index
RTA_DST, RTA_SRC, RTA_IIF, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY = 1, 2, 3, 4, 5, 6
RTA_MULTIPATH, RTA_TABLE, RTA_MARK, RTA_VIA = 9, 15, 16, 18
RTM_F_CLONED, RTM_F_LOOKUP_TABLE = 0x200, 0x1000
RTNH_F_ONLINK = 4
RT_TABLE_COMPAT = 252  # in the header, for tables with numbers above 255
MANY = 10_000  # routes; a node with 250 pods has hundreds
KINDS = {
    1: "unicast",
    2: "local",
    3: "broadcast",
    4: "anycast",
    5: "multicast",
    6: "blackhole",
    7: "unreachable",
    8: "prohibit",
    9: "throw",
}
# include/uapi/linux/fib_rules.h
FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_PRIORITY, FRA_FWMARK, FRA_TABLE, FRA_OIFNAME = 1, 2, 3, 6, 10, 15, 17
ACTIONS = {1: "lookup", 2: "goto", 3: "nop", 6: "blackhole", 7: "unreachable", 8: "prohibit"}
FIB_RULE_INVERT = 2
BRIDGE = "bridge"


class KernelRoute(Value):
    """One next hop of a route. A route with several next hops is several of these. `oif` is an index, 0 for none."""

    family: str
    table: int
    destination: str
    via: str
    oif: int
    metric: int
    scope: str
    kind: str
    onlink: bool


class Packet(NamedTuple):
    """An IPv4 packet of a question. It comes in by the interface with the index `iif`. `mark` 0 means no mark."""

    source: str
    destination: str
    iif: int
    mark: int = 0


class RouteLookup(Value):
    """Where a packet would go: an interface by index and a gateway ("" for none), or the errno that refuses it."""

    oif: int
    via: str
    table: int | None
    kind: str
    errno: int | None


class RoutingTables(Value):
    """What decides about packets in this network namespace. `devices` are by index.

    Without a bridge, `neighbours` are not asked for: each of 60 pods has one or two, and its route tells more.
    """

    devices: dict[int, LinkInfo]
    addresses: tuple[AddressInfo, ...]
    neighbours: tuple[NeighbourInfo, ...]
    rules: tuple[RoutingRule, ...]
    routes: tuple[KernelRoute, ...]


class RouteMessage(NamedTuple):
    """A message about a rule or a route: the eight bytes of its header, its flags, its attributes by number."""

    header: bytes
    flags: int
    attributes: dict[int, bytes]

    @property
    def family(self) -> int:
        return self.header[0]

    def number(self, kind: int) -> int | None:
        data = self.attributes.get(kind)
        if data is None:
            return None
        if len(data) != U32.size:
            raise nlsocket.malformed(f"attribute {kind} is {data!r}, not a number")
        number: int = U32.unpack(data)[0]
        return number

    def text(self, kind: int) -> str:
        return nlsocket.string(self.attributes.get(kind, b""))

    def prefix(self, kind: int, length: int, every: str) -> str:
        data = self.attributes.get(kind)
        return every if data is None and not length else f"{_address(self.family, data or b'')}/{length}"


def read() -> RoutingTables:
    """All tables, asked over one socket.

    Raises:
        OSError: the kernel refused, or gave no valid answer.
    """
    with NetlinkSocket(NETLINK_ROUTE) as kernel:
        found = {link.index: link for link in interfaces.links(kernel)}
        bridged = any(device.kind == BRIDGE for device in found.values())
        beside = interfaces.neighbours(kernel) if bridged else ()
        return RoutingTables(found, interfaces.addresses(kernel), beside, rules(kernel), routes(kernel))


def ask(packets: Sequence[Packet]) -> tuple[RouteLookup, ...]:
    """What the kernel would do with each of these packets, asked over one socket. Raises as `read`."""
    with NetlinkSocket(NETLINK_ROUTE) as kernel:
        return tuple(way(kernel, packet) for packet in packets)


def ask_own(destinations: Sequence[str]) -> tuple[RouteLookup, ...]:
    """By which way this node itself sends to each of these addresses, IPv4 or IPv6. Raises as `read`."""
    with NetlinkSocket(NETLINK_ROUTE) as kernel:
        return tuple(own_way(kernel, destination) for destination in destinations)


def rules(kernel: NetlinkSocket) -> tuple[RoutingRule, ...]:
    """Rules of IPv4 and IPv6, each family in the order in which the kernel tries them."""
    told = kernel.undecoded(RouteCommand.RTM_GETRULE, bytes(RTMSG.size), dump=True)
    return tuple(chain.from_iterable(RULES.values(told)))


def routes(kernel: NetlinkSocket) -> tuple[KernelRoute, ...]:
    """All routes. Of more than MANY only those that `counts`: to decode all routes of a router takes seconds."""
    told = kernel.undecoded(RouteCommand.RTM_GETROUTE, bytes(RTMSG.size), dump=True)
    return tuple(chain.from_iterable(ROUTES.values(filter(counts, told) if len(told) > MANY else told)))


def counts(data: bytes) -> bool:
    """Whether a route may decide about pods. A route by a gateway to another network, in a usual table, does not."""
    if len(data) < HEADER.size + RTMSG.size:
        return True
    _, bits, _, _, table, _, scope, kind, _ = RTMSG.unpack_from(data, HEADER.size)
    return bits in (0, 32) or table == RT_TABLE_COMPAT or bool(scope) or KINDS.get(kind) != "unicast"


def way(kernel: NetlinkSocket, packet: Packet) -> RouteLookup:
    """The kernel's own decision, with rules, routes and filters. An errno is an answer too."""
    body = RTMSG.pack(socket.AF_INET, 32, 32, 0, 0, 0, 0, 0, RTM_F_LOOKUP_TABLE)
    body += nlsocket.attribute(RTA_DST, socket.inet_aton(packet.destination))
    body += nlsocket.attribute(RTA_SRC, socket.inet_aton(packet.source))
    body += nlsocket.attribute(RTA_IIF, struct.pack("=i", packet.iif))
    if packet.mark:
        body += nlsocket.attribute(RTA_MARK, struct.pack("=I", packet.mark))
    return _looked_up(kernel, body)


def own_way(kernel: NetlinkSocket, destination: str) -> RouteLookup:
    """The kernel's decision about a packet of this node's own. An errno is an answer too."""
    family = socket.AF_INET6 if ":" in destination else socket.AF_INET
    address = socket.inet_pton(family, destination)
    body = RTMSG.pack(family, len(address) * 8, 0, 0, 0, 0, 0, 0, RTM_F_LOOKUP_TABLE)
    return _looked_up(kernel, body + nlsocket.attribute(RTA_DST, address))


def _looked_up(kernel: NetlinkSocket, body: bytes) -> RouteLookup:
    try:
        said = kernel.undecoded(RouteCommand.RTM_GETROUTE, body, dump=False)
    except Refused as refused:
        return RouteLookup(0, "", None, "", refused.errno)
    if not said:
        raise nlsocket.malformed("RTM_GETROUTE: acknowledged, but not answered")
    (first, *_) = _routes(_opened(said[0]))
    return RouteLookup(first.oif, first.via, first.table, first.kind, None)


def _rules_in(message: bytes) -> tuple[RoutingRule, ...]:
    """The rule of a message; none if it is of another family than IP's."""
    said = _opened(message)
    return (_rule(said),) if said.family in FAMILIES else ()


def _routes_in(message: bytes) -> tuple[KernelRoute, ...]:
    """The next hops of a message; none if it is of another family than IP's, or a copy in a cache."""
    said = _opened(message)
    return tuple(_routes(said)) if said.family in FAMILIES and not said.flags & RTM_F_CLONED else ()


def _rule(said: RouteMessage) -> RoutingRule:
    _, to_bits, from_bits, _, table, _, _, action = said.header
    return RoutingRule(
        family=FAMILIES[said.family],
        priority=said.number(FRA_PRIORITY) or 0,  # the kernel does not send a 0
        source=said.prefix(FRA_SRC, from_bits, ""),
        destination=said.prefix(FRA_DST, to_bits, ""),
        iif=said.text(FRA_IIFNAME),
        oif=said.text(FRA_OIFNAME),
        mark=said.number(FRA_FWMARK),
        table=said.number(FRA_TABLE) or table,
        action=ACTIONS.get(action, str(action)),
        inverted=bool(said.flags & FIB_RULE_INVERT),
    )


def _routes(said: RouteMessage) -> Iterator[KernelRoute]:
    _, to_bits, _, _, table, _, scope, kind = said.header
    for oif, via, flags in _hops(said):
        yield KernelRoute(
            family=FAMILIES[said.family],
            table=said.number(RTA_TABLE) or table,
            destination=said.prefix(RTA_DST, to_bits, "default"),
            via=via,
            oif=oif,
            metric=said.number(RTA_PRIORITY) or 0,
            scope=SCOPES.get(scope, str(scope)),
            kind=KINDS.get(kind, str(kind)),
            onlink=bool(flags & RTNH_F_ONLINK),
        )


def _hops(said: RouteMessage) -> Iterator[tuple[int, str, int]]:
    """The next hops of a route: index of the interface, gateway, flags."""
    several = said.attributes.get(RTA_MULTIPATH)
    if several is None:
        yield said.number(RTA_OIF) or 0, _gateway(said.family, said.attributes), said.flags
        return
    offset = 0
    while offset < len(several):
        if len(several) - offset < RTNEXTHOP.size:
            raise nlsocket.malformed(f"{len(several) - offset} bytes behind the last next hop")
        length, flags, _, index = RTNEXTHOP.unpack_from(several, offset)
        if not RTNEXTHOP.size <= length <= len(several) - offset:
            raise nlsocket.malformed(f"a next hop says that it has {length} bytes, there are {len(several) - offset}")
        inside = dict(_attributes(several[offset + RTNEXTHOP.size : offset + length]))
        yield index, _gateway(said.family, inside), flags
        offset += length + 3 & ~3


def _gateway(family: int, inside: dict[int, bytes]) -> str:
    """A gateway. RTA_VIA holds a gateway of another family than the route's: the family in two bytes, the address."""
    gateway, via = inside.get(RTA_GATEWAY), inside.get(RTA_VIA)
    if gateway is not None:
        return _address(family, gateway)
    if via is None:
        return ""
    if len(via) < 2:
        raise nlsocket.malformed(f"{via!r} is no RTA_VIA")
    other: int = struct.unpack_from("=H", via)[0]
    return _address(other, via[2:]) if other in FAMILIES else via[2:].hex(":")


def _opened(data: bytes) -> RouteMessage:
    if len(data) < HEADER.size + RTMSG.size:
        raise nlsocket.malformed(f"{len(data)} bytes, too short for a rule or a route")
    body = data[HEADER.size :]
    return RouteMessage(body[:8], U32.unpack_from(body, 8)[0], dict(_attributes(body[RTMSG.size :])))


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < len(data):
        if len(data) - offset < ATTRIBUTE.size:
            raise nlsocket.malformed(f"{len(data) - offset} bytes behind the last attribute")
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if not ATTRIBUTE.size <= length <= len(data) - offset:
            raise nlsocket.malformed(f"an attribute says that it has {length} bytes, there are {len(data) - offset}")
        yield kind & NLA_TYPE_MASK, data[offset + ATTRIBUTE.size : offset + length]
        offset += length + 3 & ~3


def _address(family: int, data: bytes) -> str:
    try:
        return socket.inet_ntop(family, data)
    except ValueError as error:
        raise nlsocket.malformed(f"{data!r} is no address of family {family}") from error


RULES, ROUTES = TableDecoder(_rules_in), TableDecoder(_routes_in)
