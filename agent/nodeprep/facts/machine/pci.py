"""PCI functions that training depends on: NICs, GPUs and NVSwitches, and the bridges above them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodeprep.facts.machine import function_netdevs
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
    guarded,
    not_recorded,
    raw,
    shown,
    stands_for_all,
)
from nodeprep.pattern import Pattern
from nodeprep.shown import field_of

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

DEVICES = "/sys/bus/pci/devices"
ADDRESS = Pattern(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
NETWORK = "02"  # PCI base class (include/linux/pci_ids.h)
INFINIBAND_CLASS = "0207"  # PCI_CLASS_NETWORK_INFINIBAND
DISPLAY = ("0300", "0302")
NVIDIA, AMD = "10de", "1002"
AMD_CLASSES = ("0380", "1200")  # display controller (MI200), processing accelerator (MI300), as lspci names them
NVSWITCH = "0680"  # a bridge of no other kind: NVSwitches up to HGX H200; later ones are on no PCI bus of the node
# Classes that many a function has: those of one vendor matter.
OF_VENDOR = {**dict.fromkeys(AMD_CLASSES, AMD), NVSWITCH: NVIDIA}
AUXILIARY = Pattern(r"\.(rdma|roce|iwarp|ib)\.\d+$")  # names of RDMA auxiliary devices, any driver (modules.alias)
UNNAMED = "unnamed"  # a driver is bound, and a copy lost its name
ID = Pattern(r"0x[0-9a-f]{4}")
# pci_uevent (drivers/pci/pci-driver.c): ids, the board's ids and class once more.
MODALIAS = Pattern(
    r"pci:v0000([0-9A-F]{4})d0000([0-9A-F]{4})sv(?:0000)?([0-9A-F]+)sd(?:0000)?([0-9A-F]+)"
    r"bc([0-9A-F]{2})sc([0-9A-F]{2})i.*"
)
SPEEDS = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)  # GT/s (pci_speed_string, drivers/pci/probe.c); each new one is the double
WIDTHS = (1, 2, 4, 8, 12, 16, 32)  # enum pcie_link_width (include/linux/pci.h)
POWER_STATES = ("error", "D0", "D1", "D2", "D3hot", "D3cold", "unknown")  # pci_power_names (drivers/pci/pci.c)
NODES = range(-1, 1 << 10)  # -1 is NUMA_NO_NODE; MAX_NUMNODES has ten bits at most
HEADER = 64  # bytes of configuration space that every user may read
EXTENDED = 0x100  # where the extended capabilities begin (PCIe base specification 7.6)
ACS = 0x000D
ACS_CONTROL = 6


@shown
class Auxiliary(Shown):
    """A child on the auxiliary bus through which an Ethernet driver offers RDMA, such as mlx5_core.rdma.0."""

    name: str
    driver: str | None


@shown
class Aer(Shown):
    """Totals of the errors that this function reported (Advanced Error Reporting)."""

    correctable: int
    nonfatal: int
    fatal: int


@shown
class Bridge(Shown):
    """A PCIe bridge. `acs` is its ACS control word, None if it has no such capability."""

    address: str
    acs: int | None


@shown
class PciDevice(Shown):
    """A PCI function. Speeds are GT/s per lane; `answers` is None where its configuration space is not shown.

    `id` is vendor:device and `subsystem` its board's, "" where not shown; `numa` is None if the firmware does not say;
    `virtual_function` means that a physical one owns it.
    """

    address: str
    id: str
    pci_class: str
    driver: str | None
    driver_override: str | None
    modalias: str
    answers: bool | None
    power: str | None
    speed: float | None
    width: int | None
    max_speed: float | None
    max_width: int | None
    numa: int | None
    virtual_function: bool
    iommu: str | None
    aer: Aer | None
    bridges: tuple[str, ...]
    auxiliaries: tuple[Auxiliary, ...]
    rdma: tuple[str, ...]
    netdevs: tuple[str, ...]
    subsystem: str = ""

    possible = stands_for_all(
        id=("",),  # only another's word for what belongs here is found by it
        driver_override=(None,),  # a function without a driver is a sign by itself
        answers=(True,),
        power=("D0",),
        speed=lambda nic: (_most(nic, "max_speed", SPEEDS[-1]),),
        width=lambda nic: (_most(nic, "max_width", WIDTHS[-1]),),
        max_speed=(None,),
        max_width=(None,),
    )

    @property
    def subject(self) -> Subject:
        return Subject(self.address, None, self.label)

    @property
    def label(self) -> str:
        """Address and id, and what the kernel calls it if it does."""
        known = field_of(self, "id")  # a name must not depend on what can be read
        words = (known if isinstance(known, str) else "", "/".join((*self.rdma, *self.netdevs)))
        inside = ", ".join(filter(None, words))
        return f"{self.address} ({inside})" if inside else self.address

    @property
    def is_nic(self) -> bool:
        return self.pci_class.startswith(NETWORK) or bool(self.rdma)

    @property
    def offers_rdma(self) -> bool:
        """Whether it shows that it is made for RDMA: by class, by what its driver offers, or by an RDMA device."""
        return self.pci_class.startswith(INFINIBAND_CLASS) or bool(self.auxiliaries or self.rdma)

    @property
    def is_gpu(self) -> bool:
        if self.pci_class.startswith(AMD_CLASSES):
            return self.id.startswith(AMD)
        return self.pci_class.startswith(DISPLAY) and self.id.startswith(NVIDIA)

    @property
    def is_amd(self) -> bool:
        return self.id.startswith(AMD)

    @property
    def is_nvswitch(self) -> bool:
        return self.pci_class.startswith(NVSWITCH) and self.id.startswith(NVIDIA)


@shown
class Pci(Shown):
    """`drivers_shown` is False for a recorded tree that kept no driver links at all.

    `hidden` are addresses of functions that `exclude` hides, whatever they are.
    """

    at: float
    devices: tuple[PciDevice, ...]
    bridges: tuple[Bridge, ...]
    drivers_shown: bool
    hidden: tuple[str, ...] = ()

    def at_address(self, address: str) -> PciDevice | None:
        return self._by_address.get(address)

    @derived
    def _by_address(self) -> dict[str, PciDevice]:
        return {device.address: device for device in reversed(self.devices)}

    @derived
    def nics(self) -> tuple[PciDevice, ...]:
        return tuple(device for device in self.devices if device.is_nic)

    @derived
    def gpus(self) -> tuple[PciDevice, ...]:
        """NVIDIA's GPUs and AMD's accelerators. A virtual function is a share of a GPU that is here too."""
        return tuple(device for device in self.devices if device.is_gpu and not device.virtual_function)

    @derived
    def nvswitches(self) -> tuple[PciDevice, ...]:
        return tuple(device for device in self.devices if device.is_nvswitch)


def observe(host: Host) -> Pci | Unreadable:
    files = host.files
    addresses = files.names(DEVICES)
    if isinstance(addresses, Unreadable):
        return addresses
    if files.is_excluded(DEVICES):
        return excluded(DEVICES)
    if addresses is None:
        return Pci(host.now(), (), (), True) if host.live else not_recorded(DEVICES)
    found = (_device(files, address) for address in addresses if ADDRESS.fullmatch(address))
    devices = tuple(device for device in found if device is not None)
    above = sorted({bridge for device in devices for bridge in device.bridges})
    bridges = tuple(Bridge(address, guarded(_acs(files, address, host.live))) for address in above)
    # The driver of any function proves it. Where the only NIC lost its driver, that is the fault.
    drivers_shown = host.live or any(driver_of(files, f"{DEVICES}/{address}") for address in addresses)
    hidden = tuple(address for address in addresses if files.is_excluded(f"{DEVICES}/{address}/class"))
    return Pci(host.now(), devices, bridges, drivers_shown, hidden)


def _device(files: Files, address: str) -> PciDevice | None:
    here = f"{DEVICES}/{address}"
    short = class_of(files, here)
    if not _matters(files, here, short) and not files.exists(f"{here}/infiniband"):
        return None
    inside = _children(files, here)  # listed first: then what it lacks need not be asked for
    stays = files.kept((_staying, here), None, lambda: _staying(files, here, address), _is_read)
    return PciDevice(
        address=address,
        pci_class=short,
        driver=driver_of(files, here),
        driver_override=guarded(_override(files.text(f"{here}/driver_override"))),
        answers=guarded(_answers(files.data(f"{here}/config", HEADER, head=True), virtual=stays["virtual_function"])),
        power=guarded(_power(files, f"{here}/power_state")),
        speed=guarded(_speed(files, f"{here}/current_link_speed")),
        width=guarded(_width(files, f"{here}/current_link_width")),
        iommu=guarded(files.text(f"{here}/iommu_group/type")),
        aer=guarded(_aer(files, here)),
        auxiliaries=_auxiliaries(files, here, inside),
        rdma=_children(files, f"{here}/infiniband"),
        netdevs=_netdevs(files, here, inside),
        **stays,
    )


def _staying(files: Files, here: str, address: str) -> dict[str, Any]:
    """The fields that stay as long as the function is on its bus."""
    return {
        "id": id_of(files, here),
        "modalias": files.text(f"{here}/modalias") or "",
        "max_speed": _speed(files, f"{here}/max_link_speed"),
        "max_width": _width(files, f"{here}/max_link_width"),
        "numa": _numa(files.number(f"{here}/numa_node", NODES)),
        "virtual_function": files.link(f"{here}/physfn") is not None or files.exists(f"{here}/physfn"),
        "bridges": _bridges(files, here, address),
        "subsystem": _subsystem(files, here),
    }


def _is_read(fields: Mapping[str, Any]) -> bool:
    return not any(isinstance(value, Unreadable) for value in fields.values())


def _matters(files: Files, here: str, pci_class: str) -> bool:
    """Whether its class does; of some classes only one vendor's, or a device whose vendor cannot be read."""
    vendor = OF_VENDOR.get(pci_class[:4])
    if vendor is None:
        return pci_class.startswith((NETWORK, *DISPLAY))
    known = id_of(files, here)
    return not isinstance(known, str) or known.startswith(vendor)


def class_of(files: Files, device: str) -> str:
    """Six digits: from the file of that name or, where that cannot be read, from the uevent or the modalias."""
    text = files.text(f"{device}/class")
    if isinstance(text, Unreadable) and text.kind is Why.DENIED:
        raise CannotLook(text)  # a function that may not be read may be a NIC: nothing can be said about this bus
    if isinstance(text, str) and re.fullmatch(r"0x[0-9a-f]{6}", text):
        return text.removeprefix("0x")
    told = _uevent(files, device, "PCI_CLASS")
    alias = "" if told else files.text(f"{device}/modalias")
    match = MODALIAS.fullmatch(alias) if isinstance(alias, str) else None
    return f"{match[5]}{match[6]}00".lower() if match else told.lower().zfill(6)


def driver_of(files: Files, device: str) -> str | None:
    """The driver bound to a device directory, by its link or, where a copy lost the link, by its uevent."""
    target = files.link(f"{device}/driver")
    if target is not None:
        return target.rpartition("/")[2]
    if not files.exists(f"{device}/driver"):
        return None
    return _uevent(files, device, "DRIVER") or UNNAMED


def _uevent(files: Files, device: str, key: str) -> str:
    uevent = files.text(f"{device}/uevent")
    pairs = (line.partition("=") for line in (uevent.splitlines() if isinstance(uevent, str) else ()))
    return next((value for name, _, value in pairs if name == key), "")


def _most(nic: PciDevice, field: str, otherwise: float) -> float:
    """The best that its link can be: what the function can do, else what PCIe can."""
    known = raw(nic)[field]
    return known if isinstance(known, int | float) else otherwise


def address_in(path: str) -> str | None:
    """The last PCI address in a sysfs path: the function that the thing at its end belongs to."""
    found = [part for part in path.split("/") if ADDRESS.fullmatch(part)]
    return found[-1] if found else None


def slot_in(uevent: str | None | Unreadable) -> str:
    """The PCI address that a device's uevent file names, "" if none. A copy without links keeps nothing else of it."""
    lines = uevent.splitlines() if isinstance(uevent, str) else []
    said = next((line.removeprefix("PCI_SLOT_NAME=") for line in lines if line.startswith("PCI_SLOT_NAME=")), "")
    return said if ADDRESS.fullmatch(said) else ""


def id_of(files: Files, here: str) -> str | Unreadable:
    """Vendor and device of a function, such as "15b3:1021": from their files, else from the modalias; "" for none."""
    return _pair(files, here, "", 1)


def _subsystem(files: Files, here: str) -> str | Unreadable:
    """Vendor and device of its board, as `id_of`; zeros are none."""
    shown = _pair(files, here, "subsystem_", 3)
    return "" if shown == "0000:0000" else shown


def _pair(files: Files, here: str, prefix: str, group: int) -> str | Unreadable:
    vendor, device = (_id_part(files, f"{here}/{prefix}{part}") for part in ("vendor", "device"))
    if isinstance(vendor, str) and isinstance(device, str):
        return f"{vendor.removeprefix('0x')}:{device.removeprefix('0x')}"
    alias = files.text(f"{here}/modalias")
    match = MODALIAS.fullmatch(alias) if isinstance(alias, str) else None
    if match:
        return ":".join(part.zfill(4) for part in match.group(group, group + 1)).lower()
    return next((one for one in (vendor, device) if isinstance(one, Unreadable)), "")


def _id_part(files: Files, path: str) -> str | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str) or ID.fullmatch(text):
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no PCI id")


def _power(files: Files, path: str) -> str | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str) or text in POWER_STATES:
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no power state")


def _override(text: str | None | Unreadable) -> str | None | Unreadable:
    return None if text in ("", "(null)") else text  # the kernel prints "(null)" where nothing is set


def _answers(config: bytes | None | Unreadable, *, virtual: bool) -> bool | None | Unreadable:
    if not isinstance(config, bytes) or len(config) < 4:
        return config if isinstance(config, Unreadable) else None
    # A function that has left the bus reads as all ones; of a virtual one, vendor and device always do (SR-IOV 3.4.1).
    gone = config if virtual else config[:4]
    return gone != b"\xff" * len(gone)


def _speed(files: Files, path: str) -> float | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str) or text.startswith("Unknown"):  # as virtual functions say
        return text if isinstance(text, Unreadable) else None
    match = re.fullmatch(r"(\d{1,4}(?:\.\d)?) GT/s(?: PCIe)?", text)
    speed = float(match[1]) if match else 0.0
    if speed in SPEEDS or speed in (SPEEDS[-1] * 2, SPEEDS[-1] * 4):
        return speed
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no link speed")


def _width(files: Files, path: str) -> int | None | Unreadable:
    lanes = files.number(path)
    if lanes in (0, 255):  # what the kernel prints for "unknown"
        return None
    if lanes in WIDTHS or not isinstance(lanes, int):
        return lanes
    # 63 is what a function says that has left the bus: all ones.
    return Unreadable(Why.MALFORMED, path, detail=f"no link has {lanes} lanes")


def _numa(node: int | None | Unreadable) -> int | None | Unreadable:
    return None if isinstance(node, int) and node < 0 else node


def _aer(files: Files, here: str) -> Aer | None | Unreadable:
    totals: list[int | Unreadable] = []
    for name, label in (("correctable", "COR"), ("nonfatal", "NONFATAL"), ("fatal", "FATAL")):
        path = f"{here}/aer_dev_{name}"
        text = files.text(path)
        if text is None:
            return None
        match = re.search(rf"^TOTAL_ERR_{label} (\d+)$", text, re.MULTILINE) if isinstance(text, str) else None
        unread = text if isinstance(text, Unreadable) else Unreadable(Why.MALFORMED, path, detail="no TOTAL line")
        totals.append(int(match[1]) if match else unread)
    return Aer(*(guarded(total) for total in totals))


def _bridges(files: Files, here: str, address: str) -> tuple[str, ...]:
    parts = files.place(here).split("/")
    return tuple(part for part in parts if ADDRESS.fullmatch(part) and part != address)


def _auxiliaries(files: Files, here: str, inside: tuple[str, ...]) -> tuple[Auxiliary, ...]:
    names = filter(AUXILIARY.search, inside)
    return tuple(Auxiliary(name, driver_of(files, f"{here}/{name}")) for name in names)


def _children(files: Files, directory: str) -> tuple[str, ...]:
    names = files.names(directory)
    return names if isinstance(names, tuple) else ()


def _netdevs(files: Files, here: str, inside: tuple[str, ...]) -> tuple[str, ...]:
    direct = _children(files, f"{here}/net")
    if direct:
        return function_netdevs.by_parent(files, f"{here}/net", direct)
    # virtio puts a device of its own between the PCI function and its netdev.
    virtio = (name for name in inside if name.startswith("virtio"))
    return tuple(net for name in virtio for net in _children(files, f"{here}/{name}/net"))


def _acs(files: Files, address: str, live: bool) -> int | None | Unreadable:
    path = f"{DEVICES}/{address}/config"
    config = files.data(path, 4096)
    if not isinstance(config, bytes):
        return config
    if len(config) <= HEADER:
        return Unreadable(Why.DENIED, path, detail="bytes beyond 64 need CAP_SYS_ADMIN") if live else None
    offset, seen = EXTENDED, set[int]()
    while EXTENDED <= offset <= len(config) - 8 and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header & 0xFFFF == ACS:
            return int.from_bytes(config[offset + ACS_CONTROL : offset + ACS_CONTROL + 2], "little")
        offset = header >> 20
    return None


FACT = Fact(Pci, observe, woken_by=frozenset({Topic.DEVICE}), every=60.0)
