"""What hosts of one kind have in common, and which host is unlike the others: looks in, words out.

A trait is a name and what the host shows for it: how many NICs of a model, their firmware, rates and MTU, versions of
modules. Devices are grouped by model and not by address, for siblings may number their buses in another way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.facts.machine.system import System
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.look import Look
from nodeprep.model import Shown, Unreadable, raw
from nodeprep.values import Value

T = TypeVar("T")

NOTHING = "-"  # in place of what a host does not show
UNREAD = "?"  # in place of what could not be read
SHOWN_MODULES = ("mlx", "ib_", "rdma", "bnxt", "irdma", "erdma", "nvidia", "gdrdrv", "amdgpu", "efa", "hns")
Traits = Mapping[str, str]


class Oddity(Value):
    """A trait in which a host is unlike most of the others: what it has, what they have, and how many of them."""

    host: str
    trait: str
    has: str
    others_have: str
    others: int


def traits(look: Look) -> dict[str, str]:
    """The traits of a host, by name, in the order in which a person would read them."""
    return {name: value for part in (_machine, _nics, _ports, _gpus, _modules) for name, value in part(look)}


def differences(one: Traits, other: Traits) -> list[tuple[str, str, str]]:
    """The traits in which two hosts differ: name, and what each has."""
    names = dict.fromkeys((*one, *other))
    rows = [(name, one.get(name, NOTHING), other.get(name, NOTHING)) for name in names]
    return [row for row in rows if row[1] != row[2]]


def oddities(hosts: Mapping[str, Traits]) -> list[Oddity]:
    """Which hosts are unlike the others, where more than half of all have the same. Of two hosts neither is odd."""
    found = []
    for name in dict.fromkeys(name for known in hosts.values() for name in known):
        values = {host: known.get(name, NOTHING) for host, known in hosts.items()}
        usual, count = Counter(values.values()).most_common(1)[0]
        if count * 2 > len(hosts):
            found += [Oddity(host, name, has, usual, count) for host, has in values.items() if has != usual]
    return found


def split(hosts: Mapping[str, Traits]) -> list[tuple[str, str]]:
    """Traits in which the hosts differ and no value has more than half of them: name, and each value with its count."""
    found = []
    for name in dict.fromkeys(name for known in hosts.values() for name in known):
        counts = Counter(known.get(name, NOTHING) for known in hosts.values())
        if len(counts) > 1 and counts.most_common(1)[0][1] * 2 <= len(hosts):
            told = (f"{count} host{'' if count == 1 else 's'}: {value}" for value, count in counts.most_common())
            found.append((name, "; ".join(told)))
    return found


def _machine(look: Look) -> Iterator[tuple[str, str]]:
    system = look.get(System)
    if system is not None:
        yield "machine", " ".join(filter(None, (_text(system, "vendor"), _text(system, "product")))) or NOTHING
        yield "kernel", _text(system, "kernel")


def _nics(look: Look) -> Iterator[tuple[str, str]]:
    pci, rdma = look.get(Pci), look.get(Rdma)
    nics = [] if pci is None else [one for one in pci.nics if not one.virtual_function]
    models = {one.address: _text(one, "id") for one in nics}
    for model, members in _by(nics, lambda one: models[one.address]):
        yield f"NICs {model}", str(len(members))
        yield f"NICs {model}: driver", _tally(_text(one, "driver") for one in members)
        yield f"NICs {model}: PCIe", _tally(map(_width, members))
    devices = [] if rdma is None else [one for one in rdma.devices if not one.virtual_function]
    for model, boards in _by(devices, lambda one: models.get(one.bdf, NOTHING)):
        yield f"RDMA devices {model}", str(len(boards))
        yield f"RDMA devices {model}: firmware", _tally(_text(one, "firmware") for one in boards)
        yield f"RDMA devices {model}: board", _tally(_text(one, "board") for one in boards)


def _ports(look: Look) -> Iterator[tuple[str, str]]:
    rdma, links = look.get(Rdma), look.get(Links)
    if rdma is None:
        return
    models = {one.name: _model_of(one, look) for one in rdma.devices if not one.virtual_function}
    mtu = {} if links is None else {one.name: _text(one, "mtu") for one in links.links}
    ports = [one for one in rdma.ports if one.device in models]
    for model, members in _by(ports, lambda one: models[one.device]):
        yield f"ports {model}: state", _tally(_text(one, "state") for one in members)
        yield f"ports {model}: layer", _tally(_text(one, "layer") for one in members)
        yield f"ports {model}: rate", _tally(_rate(one) for one in members)
        yield f"ports {model}: MTU", _tally(mtu.get(_text(one, "netdev"), NOTHING) for one in members)


def _gpus(look: Look) -> Iterator[tuple[str, str]]:
    pci, driver = look.get(Pci), look.get(GpuDriver)
    for model, members in _by([] if pci is None else list(pci.gpus), lambda one: _text(one, "id")):
        yield f"GPUs {model}", str(len(members))
        yield f"GPUs {model}: PCIe", _tally(map(_width, members))
    if driver is not None and _text(driver, "version") not in (NOTHING, UNREAD):
        yield "NVIDIA driver", _text(driver, "version")


def _modules(look: Look) -> Iterator[tuple[str, str]]:
    modules = look.get(Modules)
    versions = raw(modules)["versions"] if modules is not None else ()
    for name, version in versions if isinstance(versions, tuple) else ():
        if name.startswith(SHOWN_MODULES):
            yield f"module {name}", version


def _model_of(device: RdmaDevice, look: Look) -> str:
    pci = look.get(Pci)
    own = None if pci is None else pci.at_address(device.bdf)
    return NOTHING if own is None else _text(own, "id")


def _by(members: Iterable[T], key: Callable[[T], str]) -> list[tuple[str, list[T]]]:
    """The members by a text, in its order."""
    found: dict[str, list[T]] = {}
    for one in members:
        found.setdefault(key(one), []).append(one)
    return sorted(found.items())


def _tally(values: Iterable[str]) -> str:
    """One text if all are the same, else each with its number: "7x 400 Gb/s, 1x 200 Gb/s"."""
    counts = Counter(values)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count}x {value}" for value, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def _text(shown: Shown, name: str) -> str:
    value = raw(shown)[name]
    if isinstance(value, Unreadable):
        return UNREAD
    return NOTHING if value in (None, "") else str(value)


def _rate(port: Port) -> str:
    value = raw(port)["rate"]
    return UNREAD if isinstance(value, Unreadable) else f"{value:g} Gb/s"


def _width(device: PciDevice) -> str:
    """As lspci shows it: speed and lanes."""
    speed, width = raw(device)["speed"], raw(device)["width"]
    if isinstance(speed, Unreadable) or isinstance(width, Unreadable):
        return UNREAD
    return NOTHING if speed is None or width is None else f"{speed:g} GT/s x{width}"
