"""Network interfaces and their addresses: by rtnetlink on a live node, by sysfs in a dead tree."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from nodeprep.facts.machine import pci
from nodeprep.model import (
    CannotLook,
    Fact,
    Shown,
    Subject,
    Topic,
    Unreadable,
    Why,
    derived,
    excluded,
    grouped,
    guarded,
    not_recorded,
    raw,
    shown,
    stands_for_all,
)
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.netlink.interfaces import LinkInfo as NetlinkLink
    from nodeprep.doors.node_host import Host

NET = "/sys/class/net"
IFF_UP = 0x1  # include/uapi/linux/if.h
BONDS = ("bond", "team")
NO_CARRIER = ("notpresent", "down", "lowerlayerdown")
UNKNOWN = "unknown"  # IF_OPER_UNKNOWN (include/uapi/linux/if.h): the driver does not track it
OPERSTATES = (*NO_CARRIER, UNKNOWN, "testing", "dormant", "up")  # operstates (net/core/net-sysfs.c)
FLAGS = Pattern(r"0x[0-9a-f]{1,8}")  # fmt_hex of the same file
MAC = Pattern(r"(?:[0-9a-f]{2}(?::[0-9a-f]{2}){0,31})?")  # MAX_ADDR_LEN is 32; some interfaces have none
COUNTS = range(1 << 32)
# What dev_validate_mtu allows: a NIC takes 68 or more (ETH_MIN_MTU), some interfaces of software take 0.
NIC_MTUS, MTUS = range(68, 1 << 31), range(1 << 31)


@shown
class Link(Shown):
    """A network interface. `bdf` is the PCI function behind it, "" for one without; `up` is the administrator's wish.

    `carrier` is None where the kernel does not say (an interface that is down); `downs` counts lost carriers since
    the interface exists; `master` is the bond or bridge above. `permanent_mac` is None in a dead tree.
    `physical` is whether it is a NIC (a virtio one too) and not one that software made, as Terway tells them apart: by
    IFLA_INFO_KIND, which a NIC does not have.
    """

    name: str
    index: int | None
    mac: str | None
    permanent_mac: str | None
    bdf: str
    up: bool
    operstate: str
    carrier: bool | None
    mtu: int
    master: str | None
    kind: str | None
    physical: bool
    downs: int | None

    # Who set an interface down decides whether a lost carrier counts.
    possible = stands_for_all(up=(True, False), operstate=("up",), carrier=(True,), downs=(None,))

    @property
    def subject(self) -> Subject:
        return Subject(self.bdf or self.name, None, self.name)

    @property
    def own_mac(self) -> str:
        """The MAC that it was made with, in lower case, "" for none: the present one may be a bond's."""
        return (self.permanent_mac or self.mac or "").lower()

    @property
    def is_bond(self) -> bool:
        return self.kind in BONDS

    @property
    def set_down(self) -> bool | None:
        """Whether somebody set it down: IFF_UP is clear. None where nothing that can be read tells."""
        up: bool | Unreadable = raw(self)["up"]
        return None if isinstance(up, Unreadable) else not up

    @property
    def has_carrier(self) -> bool | None:
        """Whether it has a carrier: each sign against it is enough. None where nothing that can be read tells."""
        carrier, operstate = raw(self)["carrier"], raw(self)["operstate"]
        if carrier is False or operstate in NO_CARRIER or self.set_down:
            return False
        tells = carrier is True or not (isinstance(operstate, Unreadable) or operstate == UNKNOWN)
        return True if tells else None

    @property
    def connected(self) -> bool:
        """As `has_carrier`, but it raises for a sign that cannot be read. Where nothing tells, it has one."""
        _ = (self.carrier, self.operstate)
        return self.has_carrier is not False


@shown
class Address(Shown):
    """An address on an interface. A `dynamic` one has a lifetime: DHCP or a router's advertisement gave it."""

    netdev: str
    address: str
    prefix: int
    scope: str
    dynamic: bool


@shown
class Links(Shown):
    """`addresses` is None in a dead tree: files do not show them. `hidden` are the names that `exclude` hides there."""

    at: float
    links: tuple[Link, ...]
    addresses: tuple[Address, ...] | None
    hidden: tuple[str, ...] = ()

    def named(self, name: str | None) -> Link | None:
        return self._by_name.get(name)

    def on(self, netdev: str) -> tuple[Address, ...] | None:
        if self.addresses is None:
            return None
        return self._addresses_by_netdev.get(netdev, ())

    def under(self, netdev: str | None, bdf: str) -> Link | None:
        """The interface of an RDMA port: by name; where the tree shows none, the only one on the same function."""
        here = self._by_bdf.get(bdf, ()) if netdev is None and bdf else ()
        return here[0] if len(here) == 1 else self.named(netdev)

    def shown_under(self, netdev: str | None, bdf: str) -> Link | None:
        """As `under`. Raises CannotLook for one that `exclude` hides: it may well be there."""
        if netdev in self.hidden:
            raise CannotLook(excluded(f"{NET}/{netdev}"))
        return self.under(netdev, bdf)

    def require_all(self) -> None:
        """Raises CannotLook if `exclude` hides an interface: it may be the one that is missed."""
        if self.hidden:
            raise CannotLook(excluded(f"{NET}/{self.hidden[0]}"))

    def leg_of(self, netdev: str | None, bdf: str) -> Link | None:
        """The interface of a bonded RDMA port's own function, where the port shows the bond as its netdev."""
        one = self.under(netdev, bdf)
        own = self._by_bdf.get(bdf, ()) if one is not None and one.is_bond and bdf else ()
        return own[0] if len(own) == 1 else one

    def bond_of(self, netdev: str | None, bdf: str) -> Link | None:
        """The bond that carries this RDMA port's traffic: its netdev, or what its netdev is a leg of."""
        one = self.under(netdev, bdf)
        above = self.named(one.master) if one and not one.is_bond else one
        return above if above and above.is_bond else None

    @derived
    def bonds_by_place(self) -> dict[str, str]:
        """The names of bonds by the PCI functions whose netdevs are their legs."""
        bonds = {link.name for link in self.links if link.is_bond}
        return {link.bdf: link.master for link in self.links if link.bdf and link.master in bonds}

    def legs(self, bond: str) -> tuple[Link, ...]:
        return self._by_master.get(bond, ())

    def same(self, link: Link) -> Link | None:
        """An interface of another look, whatever it is called here: a driver that is bound anew makes another one."""
        found = self._by_index.get(link.index, ())
        return next((one for one in found if one.subject.place == link.subject.place), None)

    @derived
    def _by_index(self) -> dict[object, tuple[Link, ...]]:
        return grouped(self.links, lambda link: raw(link)["index"])

    @derived
    def _by_name(self) -> dict[str | None, Link]:
        return {link.name: link for link in reversed(self.links)}

    @derived
    def _by_bdf(self) -> dict[str, tuple[Link, ...]]:
        return grouped(self.links, lambda link: link.bdf)

    @derived
    def _by_master(self) -> dict[str | None, tuple[Link, ...]]:
        return grouped(self.links, lambda link: link.master)

    @derived
    def _addresses_by_netdev(self) -> dict[str, tuple[Address, ...]]:
        return grouped(self.addresses or (), lambda address: address.netdev)

    def set_down_at(self, link: Link) -> Link | None:
        """What somebody set down so that this interface carries nothing: itself, all its legs, or its bond.

        A bond above does not matter to a leg that has no carrier. All legs matter, because one is enough for a bond.
        """
        legs = self.legs(link.name) if link.is_bond else ()
        above = self.named(link.master)
        if link.set_down:
            return link
        if legs and all(leg.set_down for leg in legs):
            return legs[0]
        return above if above and above.is_bond and above.set_down and link.has_carrier else None


def observe(host: Host) -> Links | Unreadable:
    return _live(host) if host.live else _recorded(host)


def _live(host: Host) -> Links | Unreadable:
    told = host.route_netlink()
    if isinstance(told, Unreadable):
        return told
    names = {link.index: link.name for link in told.links}
    return Links(
        at=host.now(),
        links=_links(host, told.links, names),
        addresses=tuple(
            Address(names.get(found.index, ""), found.address, found.prefixlen, found.scope, found.dynamic)
            for found in told.addresses
        ),
    )


def _links(host: Host, told: tuple[NetlinkLink, ...], names: dict[int, str]) -> tuple[Link, ...]:
    """Where the kernel says what it said at the last look, it is the same as then."""
    return host.files.kept(_links, told, lambda: tuple(_link(host, link, names) for link in told))


def _link(host: Host, link: NetlinkLink, names: dict[int, str]) -> Link:
    return Link(
        name=link.name,
        index=link.index,
        mac=link.address,
        permanent_mac=link.permanent_address,
        bdf=_bdf(host.files, link.name, link.parent_dev, link.parent_bus),
        up=link.admin_up,
        operstate=link.operstate,
        carrier=link.carrier,
        mtu=link.mtu,
        master=names.get(link.master) if link.master else None,
        kind=link.kind,
        physical=link.kind in host.physical_kinds and not _is_loopback(link.address),
        downs=link.carrier_down,
    )


def _bdf(files: Files, name: str, parent: str | None, bus: str | None) -> str:
    if parent and bus == "pci":
        return parent
    # Only an interface with a device of its own has one behind it: asking for each veth of 60 pods costs too much.
    return (pci.address_in(files.place(f"{NET}/{name}/device")) or "") if parent else ""


def _is_loopback(mac: str | None) -> bool:
    """The loopback interface has no kind either, and a MAC of zeros."""
    return mac is None or not mac.strip("0:")


def _recorded(host: Host) -> Links | Unreadable:
    files = host.files
    names = files.names(NET)
    if isinstance(names, Unreadable):
        return names
    if names is None:
        return not_recorded(NET)
    # The bonding driver puts a file of its own, bonding_masters, among the interfaces.
    hidden = tuple(name for name in names if files.is_excluded(f"{NET}/{name}/operstate"))
    shown = [name for name in names if name not in hidden]
    if files.is_excluded(NET) or (hidden and not shown):
        return excluded(NET)
    links = tuple(_from_files(files, name) for name in shown if isinstance(files.names(f"{NET}/{name}"), tuple))
    return Links(host.now(), links, None, hidden)


def _from_files(files: Files, name: str) -> Link:
    here = f"{NET}/{name}"
    master = files.link(f"{here}/master")
    bdf = _recorded_bdf(files, f"{here}/device")
    physical = bool(bdf) or files.exists(f"{here}/device")
    operstate, carrier = _operstate(files, f"{here}/operstate"), _carrier(files, f"{here}/carrier")
    up = _up(files, f"{here}/flags", operstate, carrier)
    if operstate is None:
        operstate = "down" if up is False else UNKNOWN  # operstate_show: "down" is all that one set down can show
    return Link(
        name=name,
        index=guarded(files.number(f"{here}/ifindex", COUNTS)),
        mac=guarded(_mac(files, f"{here}/address")),
        permanent_mac=None,  # sysfs has only the present one, which for the leg of a bond is the bond's
        bdf=bdf,
        up=guarded(up),
        operstate=guarded(operstate),
        carrier=guarded(carrier),
        mtu=guarded(_needed(files.number(f"{here}/mtu", NIC_MTUS if physical else MTUS), f"{here}/mtu")),
        master=master.rpartition("/")[2] if master else None,
        kind="bond" if files.exists(f"{here}/bonding") else None,
        physical=physical,
        downs=guarded(files.number(f"{here}/carrier_down_count", COUNTS)),
    )


def _recorded_bdf(files: Files, device: str) -> str:
    linked = pci.address_in(files.place(device)) or pci.address_in(files.link(device) or "")
    return linked or pci.slot_in(files.text(f"{device}/uevent"))


def _up(
    files: Files, path: str, operstate: str | None | Unreadable, carrier: bool | None | Unreadable
) -> bool | Unreadable:
    """IFF_UP, what the administrator wants.

    Where flags are not recorded, two other files can prove that it was set. The kernel shows a carrier only of an
    interface that is up, and no operational state but "down" of one that is not (carrier_show, operstate_show in
    net/core/net-sysfs.c). "down" alone proves nothing.
    """
    text = files.text(path)
    if text is None:
        proven = isinstance(carrier, bool) or (isinstance(operstate, str) and operstate != "down")
        return True if proven else not_recorded(path)
    if isinstance(text, Unreadable):
        return text
    if FLAGS.fullmatch(text) is None:
        return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no number")
    return bool(int(text, 16) & IFF_UP)


def _operstate(files: Files, path: str) -> str | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str) or text in OPERSTATES:
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is not one of {', '.join(OPERSTATES)}")


def _carrier(files: Files, path: str) -> bool | None | Unreadable:
    """Reading it is EINVAL while the interface is down, and a copy of it is empty: the kernel then knows no carrier."""
    text = files.text(path)
    if not text or (isinstance(text, Unreadable) and text.errno == errno.EINVAL):
        return None
    if isinstance(text, Unreadable):
        return text
    known = {"0": False, "1": True}.get(text)
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is neither 0 nor 1") if known is None else known


def _mac(files: Files, path: str) -> str | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str) or MAC.fullmatch(text):
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no address")


def _needed(number: int | None | Unreadable, path: str) -> int | Unreadable:
    return not_recorded(path) if number is None else number


FACT = Fact(
    Links, observe, woken_by=frozenset({Topic.LINK}), every_heard=60.0, doors=("nodeprep.doors.netlink.interfaces",)
)
