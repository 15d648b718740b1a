"""RDMA devices, their ports and GIDs, as sysfs shows them: InfiniBand, RoCE and iWARP alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.facts.alibaba import erdma
from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.machine import function_netdevs, pci
from nodeprep.facts.machine.pci import ADDRESS, DEVICES
from nodeprep.facts.rdma import gid
from nodeprep.facts.rdma.gid import ROCE_V2, Gid
from nodeprep.link_layers import ETHERNET, INFINIBAND, LAYERS
from nodeprep.model import (
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
    raw,
    shown,
    stands_for_all,
)
from nodeprep.pattern import Pattern
from nodeprep.shown import field_of, unreadable_fields

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

__all__ = ["CLASS", "FACT", "Gid", "Port", "Rdma", "RdmaDevice", "observe", "places"]

CLASS = "/sys/class/infiniband"
NET = "/sys/class/net"
SUBFUNCTION = Pattern(r"\.sf\.\d+$")  # an auxiliary device that devlink made, such as mlx5_core.sf.4
# enum ib_port_state and the words of drivers/infiniband/core/sysfs.c: a known number beside another word is damage.
STATES = {"0": "NOP", "1": "DOWN", "2": "INIT", "3": "ARMED", "4": "ACTIVE", "5": "ACTIVE_DEFER"}
PHYSICAL = {
    "0": "<unknown>",
    "1": "Sleep",
    "2": "Polling",
    "3": "Disabled",
    "4": "PortConfigurationTraining",
    "5": "LinkUp",
    "6": "LinkErrorRecovery",
    "7": "Phy Test",
}
# enum rdma_node_type and the words of node_type_show.
NODE_TYPES = {
    "1": "CA",
    "2": "switch",
    "3": "router",
    "4": "RNIC",
    "5": "usNIC",
    "6": "usNIC UDP",
    "7": "unspecified",
}
UNNAMED = ("UNKNOWN", "<unknown>")  # the kernel's words for a number that has no name
RATE = Pattern(r"([1-9]\d{0,4}(?:\.5)?) Gb/sec \(([1-9]\d?)X(?: ([A-Z]{3}\d{0,2}))?\)")
# Gb/s of one lane (sysfs.c rate_show); FDR10 is 10 there.
LANE = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
GUID = Pattern(r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}")
MELLANOX = "15b3:"
PSID = Pattern(r"[A-Z0-9_]{8,16}")  # 16 bytes (vsd_contd_psid of mlx5_ifc.h): MT_0000000838, DEL0000000004
LID = Pattern(r"0x[0-9a-f]{1,8}")


def _layers(port: Port) -> tuple[str, ...]:
    """What its link layer can be, by its addresses. Drivers for Ethernet show LID 0 or 1 (irdma) and no SM LID."""
    gids = field_of(port, "gids")
    if isinstance(gids, tuple) and any(one.kind == ROCE_V2 for one in gids):
        return (ETHERNET,)
    lid, sm_lid = (int(text, 16) if isinstance(text := field_of(port, name), str) else 0 for name in ("lid", "sm_lid"))
    return (INFINIBAND,) if lid > 1 or sm_lid else LAYERS


@shown
class Port(Shown):
    """One RDMA port. `bdf` is the PCI address it hangs on, "" where none is shown; `rate` is Gb/s.

    `gids` is None where no GID table is shown, for InfiniBand and for virtual functions: nobody judges those. `like`
    names the kind of hardware that it may be compared with, and ends with the link layer if that could be read.
    """

    device: str
    number: int
    bdf: str
    netdev: str | None
    state: str
    physical: str
    rate: float
    layer: str
    lid: str | None
    sm_lid: str | None
    gids: tuple[Gid, ...] | None
    like: str

    possible = stands_for_all(
        state=("4: ACTIVE",),
        physical=("5: LinkUp",),
        rate=(0.0, float("inf")),  # a port that is slow, and one that needs more lanes than its slot has
        layer=_layers,
        lid=("0x1",),
        sm_lid=("0x1",),
    )

    @property
    def name(self) -> str:
        return f"{self.device}/{self.number}"

    @property
    def hardware(self) -> str:
        """`like` without the link layer, which some cards can change; "" where nothing names the card."""
        rest, _, last = self.like.rpartition(" ")
        return rest if last in LAYERS else self.like

    @property
    def place(self) -> str:
        """Its PCI address; its name where a tree does not show one."""
        return self.bdf or self.device

    @property
    def where(self) -> str:
        return f"{self.name} at {self.bdf}" if self.bdf else self.name

    @property
    def subject(self) -> Subject:
        return Subject(self.place, self.number, self.name)


@shown
class RdmaDevice(Shown):
    """One RDMA device. `parent` is the netdev of a software device (rxe), None for hardware.

    `virtual_function` is also true of a subfunction: another device here owns it, and nobody expects it.
    """

    name: str
    bdf: str
    parent: str | None
    node_type: str | None
    node_guid: str | None
    system_guid: str | None
    firmware: str | None
    hca_type: str | None
    board: str | None
    id: str
    virtual_function: bool
    traffic_class: str | None

    possible = stands_for_all(parent=(None, "?"), node_type=("1: CA", "4: RNIC"), board=(None,), firmware=(None,))

    @property
    def place(self) -> str:
        return self.bdf or self.name

    @property
    def where(self) -> str:
        return f"{self.name} at {self.bdf}" if self.bdf else self.name

    @property
    def subject(self) -> Subject:
        return Subject(self.place, None, self.name)


@shown
class Rdma(Shown):
    """Every RDMA device and port that the class directory lists. `hidden` are names of devices that `exclude` hides."""

    at: float
    devices: tuple[RdmaDevice, ...]
    ports: tuple[Port, ...]
    hidden: tuple[str, ...] = ()

    def device(self, name: str) -> RdmaDevice | None:
        return self._by_name.get(name)

    def at_address(self, bdf: str) -> tuple[RdmaDevice, ...]:
        """The devices on a PCI function; at "", those whose function is not shown."""
        return self._by_bdf.get(bdf, ())

    def ports_at(self, bdf: str) -> tuple[Port, ...]:
        """The ports on a PCI function."""
        return self._ports_by_bdf.get(bdf, ())

    @derived
    def _by_name(self) -> dict[str, RdmaDevice]:
        return {device.name: device for device in reversed(self.devices)}

    @derived
    def _by_bdf(self) -> dict[str, tuple[RdmaDevice, ...]]:
        return grouped(self.devices, lambda device: device.bdf)

    @derived
    def _ports_by_bdf(self) -> dict[str, tuple[Port, ...]]:
        return grouped(self.ports, lambda port: port.bdf)


def observe(host: Host) -> Rdma | Unreadable:
    files = host.files
    names = files.names(CLASS)
    if isinstance(names, Unreadable):
        return names
    if files.is_excluded(CLASS):
        return excluded(CLASS)
    holders = Holders(files)
    devices = tuple(_device(files, name, holders) for name in names or () if files.names(f"{CLASS}/{name}") is not None)
    ports = tuple(port for device in devices for port in _ports(files, device))
    hidden = (name for name in names or () if any(map(files.is_excluded, (f"{CLASS}/{name}", f"{CLASS}/{name}/ports"))))
    return Rdma(host.now(), devices, ports, tuple(hidden))


def places(files: Files) -> tuple[tuple[str, int, str], ...] | Unreadable:
    """Every port as (device, number, PCI address), without reading anything that asks the hardware.

    Both stay with the device. An address or a port that is not shown is asked for again.
    """
    names = files.names(CLASS)
    if isinstance(names, Unreadable):
        return names
    shown = names or ()
    return files.kept(
        places,
        names,
        lambda: _places(files, shown),
        lambda found: {name for name, _, bdf in found if bdf} == set(shown),
    )


def _places(files: Files, names: tuple[str, ...]) -> tuple[tuple[str, int, str], ...]:
    holders = Holders(files)
    bdfs = {
        name: _bdf(files, f"{CLASS}/{name}", _text(files.text(f"{CLASS}/{name}/parent")), holders) for name in names
    }
    listed = {name: files.names(f"{CLASS}/{name}/ports") for name in bdfs}
    return tuple((name, number, bdf) for name, bdf in bdfs.items() for number in _numbers(listed[name]))


class Holders:
    """Which PCI function holds an RDMA device, by the PCI listing. It is read when it is first asked for."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, str] | None = None

    def of(self, name: str) -> str:
        if self._known is None:
            listed = self._files.names(DEVICES)
            addresses = listed if isinstance(listed, tuple) else ()
            inside = {address: self._files.names(f"{DEVICES}/{address}/infiniband") for address in reversed(addresses)}
            self._known = {
                one: address for address, names in inside.items() for one in (names if isinstance(names, tuple) else ())
            }
        return self._known.get(name, "")


def _device(files: Files, name: str, holders: Holders) -> RdmaDevice:
    """A device, of which only the traffic class may change. An address or id that is not shown is asked for again."""
    here = f"{CLASS}/{name}"
    traffic_class = files.text(f"{here}/tc/1/traffic_class")
    return files.kept(
        (_device, here),
        traffic_class,
        lambda: _made(files, name, traffic_class, holders),
        lambda device: bool(device.bdf and device.id) and not unreadable_fields(device),
    )


def _made(files: Files, name: str, traffic_class: str | None | Unreadable, holders: Holders) -> RdmaDevice:
    here = f"{CLASS}/{name}"
    parent, bdf, function, virtual_function = _origin(files, here, holders)
    return RdmaDevice(
        name=name,
        bdf=bdf,
        parent=guarded(parent),
        node_type=guarded(_node_type(files, f"{here}/node_type")),
        node_guid=guarded(_guid(files, f"{here}/node_guid")),
        system_guid=guarded(_guid(files, f"{here}/sys_image_guid")),
        firmware=guarded(files.text(f"{here}/fw_ver")),
        hca_type=guarded(files.text(f"{here}/hca_type")),
        board=guarded(_board(files, f"{here}/board_id", function)),
        id=function,
        virtual_function=virtual_function,
        traffic_class=guarded(traffic_class),
    )


def _origin(files: Files, here: str, holders: Holders) -> tuple[str | None | Unreadable, str, str, bool]:
    """What a device is on: a netdev, a PCI address, that function's id, whether it is virtual."""
    parent, function = files.text(f"{here}/parent"), pci.id_of(files, f"{here}/device")
    shown_id = function if isinstance(function, str) else ""
    return parent, _bdf(files, here, _text(parent), holders), shown_id, _is_virtual(files, f"{here}/device")


def _is_virtual(files: Files, device: str) -> bool:
    owned = files.link(f"{device}/physfn") is not None or files.exists(f"{device}/physfn")
    return owned or SUBFUNCTION.search(files.link(device) or "") is not None


def _bdf(files: Files, here: str, parent: str | None, holders: Holders) -> str:
    """The PCI address behind a device: by its link, dangling or not, or by the netdev under a software device."""
    target = files.link(f"{here}/device")
    if target is not None and ADDRESS.fullmatch(target.rpartition("/")[2]):
        return target.rpartition("/")[2]
    if target is not None and SUBFUNCTION.search(target):
        return ""  # the address above it is the parent's, whose port it must not be taken for
    place = files.place(f"/sys/class/net/{parent}/device" if parent else here)
    return (
        pci.address_in(place)
        or pci.address_in(files.link(here) or "")
        or ("" if parent else _without_links(files, here, holders))
    )


def _without_links(files: Files, here: str, holders: Holders) -> str:
    """The PCI address in a copy that turned links into directories: as the device says, or as the PCI listing does."""
    said = pci.slot_in(files.text(f"{here}/device/uevent"))
    return said or holders.of(here.rpartition("/")[2])


def _ports(files: Files, device: RdmaDevice) -> tuple[Port, ...]:
    ports = f"{CLASS}/{device.name}/ports"
    listed = files.names(ports)
    if isinstance(listed, Unreadable):
        return (_unlisted(device, listed),)
    numbers = _numbers(listed)
    return tuple(_port(files, device, number, f"{ports}/{number}", only=len(numbers) == 1) for number in numbers)


def _unlisted(device: RdmaDevice, why: Unreadable) -> Port:
    """Ports that cannot be listed are not gone: the first stands for them, and none of its values can be read."""
    return Port(
        device=device.name,
        number=1,
        bdf=device.bdf,
        netdev=None,
        state=guarded(why),
        physical=guarded(why),
        rate=guarded(why),
        layer=guarded(why),
        lid=None,
        sm_lid=None,
        gids=None,
        like=_like(device, why),
    )


def _numbers(names: tuple[str, ...] | None | Unreadable) -> list[int]:
    """The ports in a listing of `ports`."""
    return sorted(int(name) for name in names if name.isdecimal()) if isinstance(names, tuple) else []


def _port(files: Files, device: RdmaDevice, number: int, here: str, *, only: bool) -> Port:
    files.names(here)  # then each of its attributes is read without another look at it
    layer = _layer(files, f"{here}/link_layer")
    # A table has 16 entries and more to read, and a virtual function's addresses are in the namespace of its user.
    gids = gid.table(files, here) if layer != INFINIBAND and not device.virtual_function else None
    return Port(
        device=device.name,
        number=number,
        bdf=device.bdf,
        netdev=_netdev(files, device, number, gids if isinstance(gids, tuple) else None, only=only),
        state=guarded(_word(files, f"{here}/state", STATES)),
        physical=guarded(_word(files, f"{here}/phys_state", PHYSICAL)),
        rate=guarded(_rate(files, f"{here}/rate")),
        layer=guarded(layer),
        lid=guarded(_lid(files, f"{here}/lid")),
        sm_lid=guarded(_lid(files, f"{here}/sm_lid")),
        gids=guarded(gids),
        like=_like(device, layer),
    )


def _like(device: RdmaDevice, layer: str | Unreadable) -> str:
    """PCI id or chip, board, and link layer: ports that agree in all three do the same work in a node."""
    read = raw(device)
    parts = (device.id or read["hca_type"], read["board"], None if read["parent"] is None else "software", layer)
    return " ".join(part for part in parts if isinstance(part, str))


def _text(value: str | None | Unreadable) -> str | None:
    return value if isinstance(value, str) else None


def _netdev(files: Files, device: RdmaDevice, number: int, gids: tuple[Gid, ...] | None, *, only: bool) -> str | None:
    """The base netdev: of the first GID, else the software device's parent, else the one on the same function.

    That of an Elastic RDMA interface is another function's, and has its MAC.
    """
    if gids and gids[0].netdev:
        return gids[0].netdev
    base = _text(files.text(f"{CLASS}/{device.name}/ports/{number}/gid_attrs/ndevs/0"))
    parent = _text(raw(device)["parent"])
    if base or parent:
        return base or parent
    if device.id == VENDOR_DEVICE:
        return _with_mac(files, erdma.mac_of(_text(raw(device)["node_guid"])))
    here = f"{CLASS}/{device.name}/device/net"
    listed = files.names(here)
    names = listed if isinstance(listed, tuple) else ()
    if len(names) == 1 and only:
        return names[0]
    # Older dual-port cards have the netdevs of both ports on one function (Documentation/ABI/testing/sysfs-class-net).
    same = tuple(name for name in names if files.number(f"{here}/{name}/dev_port") == number - 1)
    return function_netdevs.of_port(files, here, same)


def _with_mac(files: Files, mac: str | None) -> str | None:
    """The netdev of this MAC that hardware provides: the driver pairs them so (erdma_enum_and_get_netdev)."""
    listed = files.names(NET) if mac else None
    own = (name for name in listed if files.text(f"{NET}/{name}/address") == mac) if isinstance(listed, tuple) else ()
    return next((name for name in own if files.exists(f"{NET}/{name}/device")), None)


def _word(files: Files, path: str, words: dict[str, str]) -> str | Unreadable:
    """Text such as "4: ACTIVE". A number has the word that the kernel writes for it: a new one has none yet."""
    text = files.need(path)
    if isinstance(text, Unreadable):
        return text
    number, colon, word = text.partition(": ")
    known = words.get(number)
    if word == known or (known is None and colon and number.isdecimal() and len(number) < 4 and word in UNNAMED):
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is not what the kernel writes")


def _node_type(files: Files, path: str) -> str | None | Unreadable:
    """Text such as "1: CA", None where a tree does not show it."""
    text = _word(files, path, NODE_TYPES)
    return None if isinstance(text, Unreadable) and text.kind is Why.MISSING else text


def _rate(files: Files, path: str) -> float | Unreadable:
    """Gb/s; the three parts of "400 Gb/sec (4X NDR)" must agree, else the text is damaged.

    A word that is new to us passes with a speed that is new to us; old kernels leave SDR out.
    """
    text = files.need(path)
    if isinstance(text, Unreadable):
        return text
    match = RATE.fullmatch(text)
    lane = float(match[1]) / int(match[2]) if match else 0.0
    if match and (LANE.get(match[3] or "SDR") == lane or (match[3] not in LANE and lane not in LANE.values())):
        return float(match[1])
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is not what the kernel writes")


def _layer(files: Files, path: str) -> str | Unreadable:
    text = files.need(path)
    if isinstance(text, Unreadable) or text in LAYERS:
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is not one of {', '.join(LAYERS)}")


def _board(files: Files, path: str, function: str | Unreadable) -> str | None | Unreadable:
    """A driver's own word, None for none. mlx5 and mlx4 show the PSID of the firmware there."""
    text = files.text(path)
    if not isinstance(text, str) or not str(function).startswith(MELLANOX) or not text or PSID.fullmatch(text):
        return text or None
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no PSID")


def _lid(files: Files, path: str) -> str | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str) or LID.fullmatch(text):
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no LID")


def _guid(files: Files, path: str) -> str | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str) or GUID.fullmatch(text):
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no GUID")


FACT = Fact(Rdma, observe, woken_by=frozenset({Topic.LINK, Topic.RDMA, Topic.DEVICE}), every_heard=60.0)
