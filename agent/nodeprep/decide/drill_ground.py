"""What a drill changes and puts back: interfaces, addresses, routes, RDMA devices, modules.

A route or an address is put back by a command that is made from what was there. What such a command cannot say is a
reason not to begin. Pure: `repair/drill_look` has the ground of the moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nodeprep.decide.drill_record import HostCommand
from nodeprep.values import Value, field

Row = Mapping[str, Any]

NETWORK, RDMA, MODULES = "network", "rdma", "modules"  # the parts of a ground
PEERS = ("veth", "netkit", "vxcan")  # kinds whose other end is no interface below
# Keys of a route that `ip route` takes again. Others that tell something make a route that we cannot put back.
WORDS = ("via", "dev", "table", "proto", "scope", "src", "metric", "tos", "pref")
KEYS: Mapping[str, str] = {
    "gateway": "via",
    "dev": "dev",
    "table": "table",
    "protocol": "proto",
    "scope": "scope",
    "prefsrc": "src",
    "metric": "metric",
    "tos": "tos",
    "pref": "pref",
}
METRICS = ("mtu", "advmss", "initcwnd", "initrwnd", "hoplimit", "quickack")  # of `metrics`, as plain numbers
OF_NOW = frozenset({"linkdown", "dead", "offload", "trap", "pervasive", "rt_offload", "rt_trap"})  # flags of the moment
ONLINK = "onlink"
TYPES = ("unicast",)  # others have no interface, or come with an address
# What the kernel or a router makes by itself: a router's advertisement, and of IPv6 the prefixes of addresses.
BY_ITSELF = {4: ("redirect",), 6: ("ra", "kernel", "redirect")}


class CannotPutBack(Exception):
    """There is something of which no command says all. Its text is one line that names it."""


class RdmaPart(Value):
    """An RDMA device: the interface below a software one, "" for hardware; its type "rxe" or "siw", "" for hardware."""

    netdev: str = ""
    type: str = ""


class ModulePart(Value):
    """A loaded module: how often it is used, which modules use it, and its parameters that can be read."""

    uses: int = 0
    holders: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)


class DrillGround(Value):
    """What is there. `links`, `addresses` and `routes` are rows of `ip -json`, routes with their family (4 or 6)."""

    links: tuple[Row, ...] = ()
    addresses: tuple[Row, ...] = ()
    routes: tuple[tuple[int, Row], ...] = ()
    rdma: Mapping[str, RdmaPart] = field(default_factory=dict)
    modules: Mapping[str, ModulePart] = field(default_factory=dict)

    def link(self, name: str) -> Row | None:
        return next((row for row in self.links if row.get("ifname") == name), None)

    def is_up(self, name: str) -> bool:
        row = self.link(name)
        return row is not None and "UP" in row.get("flags", ())

    def riders(self, name: str) -> tuple[str, ...]:
        """The interfaces that go down with this one: VLANs, macvlans, bonds, bridges on it."""
        return tuple(
            str(row.get("ifname"))
            for row in self.links
            if row.get("master") == name or (row.get("link") == name and not _is_elsewhere(row))
        )

    def routes_of(self, name: str) -> tuple[tuple[int, Row], ...]:
        """The routes over an interface that go when it is set down, and do not come back by themselves.

        Raises CannotPutBack for a route over several interfaces of which it is one.
        """
        found = []
        for family, row in self.routes:
            if any(hop.get("dev") == name for hop in row.get("nexthops", ())):
                raise CannotPutBack(f"{name} carries a part of the route to {row.get('dst')} (several next hops)")
            if row.get("dev") == name and _is_kept(family, row):
                found.append((family, row))
        return tuple(sorted(found, key=lambda one: "gateway" in one[1]))


def _is_elsewhere(row: Row) -> bool:
    """Whether what it says is below it is another end of a pair, or in another namespace."""
    return "link_netnsid" in row or (row.get("linkinfo") or {}).get("info_kind") in PEERS


def _is_kept(family: int, row: Row) -> bool:
    return (
        row.get("type", "unicast") in TYPES
        and row.get("table", "main") != "local"
        and row.get("protocol") not in BY_ITSELF[family]
    )


def route_words(row: Row) -> tuple[str, ...]:
    """A route as `ip route` takes it, from its destination on. Raises CannotPutBack."""
    known = {word: str(row[key]) for key, word in KEYS.items() if key in row}
    flags = [flag for flag in row.get("flags", ()) if flag not in OF_NOW]
    more = dict(pair for one in row.get("metrics", ()) for pair in one.items())
    strange = [key for key in row if key not in KEYS and key not in ("type", "dst", "flags", "metrics")]
    strange += [flag for flag in flags if flag != ONLINK]
    strange += [key for key, value in more.items() if key not in METRICS or type(value) is not int]
    if strange or "dst" not in row:
        raise CannotPutBack(f"the route to {row.get('dst', '?')} has {', '.join(map(str, strange))}")
    words = [word for name in WORDS if name in known for word in (name, known[name])]
    words += [word for name in METRICS if name in more for word in (name, str(more[name]))]
    return (str(row["dst"]), *words, *flags)


def route_command(family: int, act: str, row: Row) -> HostCommand:
    """`ip route ACT` of this route. Raises CannotPutBack."""
    return HostCommand(("ip", f"-{family}", "route", act, *route_words(row)))


def addresses_of(ground: DrillGround, name: str) -> Iterator[tuple[int, Row]]:
    """The addresses of an interface that somebody gave it, with their family."""
    for link in ground.addresses:
        for row in link.get("addr_info", ()) if link.get("ifname") == name else ():
            family = 6 if row.get("family") == "inet6" else 4
            if family == 4 or (row.get("scope") == "global" and not row.get("dynamic") and not row.get("temporary")):
                yield family, row


def address_command(name: str, row: Row) -> HostCommand:
    """Gives an interface an IPv6 address again. Raises CannotPutBack."""
    if "address" in row:  # of the other end
        raise CannotPutBack(f"the address {row.get('local')} of {name} has a peer")
    flags = [flag for flag in ("noprefixroute", "nodad") if row.get(flag)]
    return HostCommand(("ip", "-6", "address", "replace", _prefix(row), "dev", name, *flags))


def _prefix(row: Row) -> str:
    return f"{row.get('local')}/{row.get('prefixlen')}"


def state(ground: DrillGround, watched: Iterable[str]) -> tuple[str, ...]:
    """The state of what a drill watches, a line for each thing: "interface eth1", "rdma", "module rdma_rxe".

    Raises CannotPutBack where a route cannot be told.
    """
    lines: list[str] = []
    for one in watched:
        kind, _, name = one.partition(" ")
        lines += {"interface": _interface, "rdma": _rdma, "module": _module}[kind](ground, name)
    return tuple(sorted(lines))


def _interface(ground: DrillGround, name: str) -> Iterator[str]:
    if ground.is_up(name):
        yield f"interface {name} is set up"
    yield from (f"address {_prefix(row)} of {name}" for _, row in addresses_of(ground, name))
    for family, row in ground.routes_of(name):
        yield f"IPv{family} route {' '.join(route_words(row))}"


def _rdma(ground: DrillGround, _: str) -> Iterator[str]:
    for name, part in ground.rdma.items():
        yield f"RDMA device {name} ({part.type} on {part.netdev})" if part.type else f"RDMA device {name}"


def _module(ground: DrillGround, name: str) -> Iterator[str]:
    module = ground.modules.get(name)
    if module is not None:
        yield f"module {name} is loaded"
        yield from (f"parameter {key}={value} of {name}" for key, value in module.parameters.items())
