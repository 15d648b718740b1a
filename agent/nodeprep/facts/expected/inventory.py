"""What should be on this node, and who says so: a profile, captured or written, or the majority of like ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from nodeprep.facts.expected import bonds, matching
from nodeprep.facts.expected.bonds import ExpectedBond
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.job_profile import DeviceWant, PortWant, Profile
from nodeprep.model import CannotLook, Subject, grouped
from nodeprep.values import Value, field

T = TypeVar("T")
ACTIVE = "4"
PEERS = 3  # fewer like ports than this make no majority (design 2.3)


class Expectancy(Value, Generic[T]):
    """A value and who wants it. `firm`: a profile or an operator wants it, and not only the like ports."""

    value: T
    by: str
    firm: bool


class MissingDevice(Value):
    """Something that a profile expects and the node does not show."""

    subject: Subject
    id: str | None
    by: str


class Shortage(Value):
    """Fewer suitable ports than a profile wants."""

    have: int
    want: int
    of: str
    by: str


class Expected(Value):
    """Who wants what. Ports and devices are found by place and number, names are for messages only.

    `moved` are the places of devices that the profile knows by another address: of another node of the same kind.
    `resources` are the extended resources that the node must offer to pods, with how many.
    """

    profile: str
    firm: Mapping[str, PortWant]
    devices: Mapping[str, DeviceWant]
    counted: Mapping[str, str]
    counted_rate: float | None
    counted_layer: str | None
    counted_firm: bool
    alike: Mapping[str, str]
    alike_rates: Mapping[str, Expectancy[float]]
    missing_devices: tuple[MissingDevice, ...]
    missing_ports: tuple[MissingDevice, ...]
    shortage: Shortage | None
    modules: tuple[str, ...]
    verbs: bool | None
    wants_rdma: bool
    moved: frozenset[str] = frozenset()
    bonds: tuple[ExpectedBond, ...] = ()
    resources: Mapping[str, int] = field(default_factory=dict)

    @property
    def by(self) -> str:
        return f"profile {self.profile}"

    def of(self, port: Port) -> str | None:
        """Who wants this port to be up; None if nobody does."""
        key = port.subject.key
        if key in self.firm:
            return self.by if self.firm[key].required else None
        return self.counted.get(key) or self.alike.get(key)

    def of_bond(self, port: Port) -> str | None:
        """Who wants the bond that this port shares to have a carrier."""
        want = self.firm.get(port.subject.key)
        return self.by if want is not None and want.bonded else self.of(port)

    @property
    def lost_legs(self) -> frozenset[str]:
        """PCI addresses, or netdevs, of the legs that left a bond which must have a carrier: each must be up itself."""
        return frozenset(leg.place for bond in self.bonds if bond.want.carrier for leg in bond.legs if not leg.joined)

    def is_firm(self, port: Port) -> bool:
        """Whether an operator's profile wants it, and not only its like ports or what the hardware suggests."""
        return port.subject.key in self.firm or (self.counted_firm and port.subject.key in self.counted)

    def is_front_end(self, port: Port) -> bool:
        """Whether only its like ports want it, and the profile wants ports of another network."""
        asked = port.subject.key in self.firm or port.subject.key in self.counted
        return not asked and self.counted_layer not in (None, port.layer)

    def rate(self, port: Port) -> Expectancy[float] | None:
        """Gb/s that this port must run at."""
        want = self._port(port)
        if want is not None:
            return None if want.rate is None else Expectancy(want.rate, self.by, True)
        if port.subject.key in self.counted and self.counted_rate is not None:
            return Expectancy(self.counted_rate, self.by, True)
        return self.alike_rates.get(port.subject.key)

    def port(self, port: Port, value: Callable[[PortWant], T | None]) -> Expectancy[T] | None:
        """One value that the profile states for this port."""
        want = self._port(port)
        found = value(want) if want is not None else None
        return None if found is None else Expectancy(found, self.by, True)

    def device(self, at: RdmaDevice | PciDevice, value: Callable[[DeviceWant], T | None]) -> Expectancy[T] | None:
        """One value that the profile states for this device."""
        want = self.devices.get(at.subject.place)
        found = value(want) if want is not None else None
        return None if found is None else Expectancy(found, self.by, True)

    def _port(self, port: Port) -> PortWant | None:
        want = self.firm.get(port.subject.key)
        return want if want is not None and (want.required or want.bonded) else None


def derive(profile: Profile, pci: Pci | None, rdma: Rdma | None, links: Links | None = None) -> Expected:
    """Compare a profile with what was seen. None stands for what could not be seen at all."""
    ports = rdma.ports if rdma else ()
    places = matching.match(profile.expect, pci, rdma)
    by = f"profile {profile.name}"
    firm = {seen: profile.expect.ports[key] for key, seen in places.ports.items()}
    virtual = {device.name for device in (rdma.devices if rdma else ()) if device.virtual_function}
    physical = tuple(port for port in ports if port.device not in virtual)
    counted, shortage = _count(profile, physical)
    spare = redundant(ports, links)
    rest = tuple(port for port in physical if port.subject.key not in firm and port.subject.key not in spare)
    active = {port.subject.key: is_active(port) for port in rest}
    wants = profile.expect.ports.values()
    wants_rdma = bool(profile.expect.at_least or any(want.required or want.bonded for want in wants))
    return Expected(
        profile=profile.name,
        firm=firm,
        devices={seen: profile.expect.devices[key] for key, seen in places.devices.items()},
        counted=counted,
        counted_rate=profile.expect.at_least.rate if profile.expect.at_least else None,
        counted_layer=profile.expect.at_least.layer if profile.expect.at_least else None,
        counted_firm=not (profile.expect.at_least and profile.expect.at_least.suggested),
        alike=_majorities(rest, lambda port: active[port.subject.key]),
        alike_rates=_rates(tuple(port for port in rest if active[port.subject.key])),
        missing_devices=tuple(MissingDevice(_device(key, want), want.id, by) for key, want in places.missing_devices),
        missing_ports=tuple(
            MissingDevice(_place(key, profile, places.devices), _model(key, profile), by)
            for key in places.missing_ports
        ),
        shortage=shortage,
        modules=profile.expect.modules,
        verbs=profile.expect.verbs,
        wants_rdma=wants_rdma,
        moved=frozenset(seen for key, seen in places.devices.items() if key != seen),
        bonds=bonds.find(profile.expect, places.devices, links),
        resources=profile.expect.resources,
    )


def is_active(port: Port) -> bool:
    """Whether it is ACTIVE; one that cannot be read is not."""
    try:
        return port.state.partition(":")[0] == ACTIVE
    except CannotLook:
        return False


def _majorities(ports: tuple[Port, ...], holds: Callable[[Port], bool]) -> dict[str, str]:
    """For each port, "7 of 8 alike" if a strict majority of three or more like ports has something in common."""
    like = _likes(ports)
    likes = Counter(like.values())
    having = Counter(like[port.subject.key] for port in ports if holds(port))
    return {
        key: f"{having[kind]} of {likes[kind]} alike"
        for key, kind in like.items()
        if likes[kind] >= PEERS and 2 * having[kind] > likes[kind]
    }


def redundant(ports: tuple[Port, ...], links: Links | None) -> frozenset[str]:
    """Ports that share a bond: one of them may be down, so its like ports say nothing about it.

    A bond that is one RDMA device (RoCE LAG) has one port, and this port counts like any other.
    """
    found = {port.subject.key: links.under(port.netdev, port.bdf) for port in ports} if links else {}
    masters = {key: link.master for key, link in found.items() if link is not None and link.master}
    shared = Counter(masters.values())
    return frozenset(key for key, master in masters.items() if shared[master] > 1)


def _likes(ports: tuple[Port, ...]) -> dict[str, str]:
    """The kind of each port. One without a readable link layer takes the kind of its hardware, if there is only one."""
    kinds: dict[str, set[str]] = {}
    for port in ports:
        if _layer(port) is not None:
            kinds.setdefault(port.hardware, set()).add(port.like)
    return {
        port.subject.key: min(kinds[port.hardware])
        if _layer(port) is None and len(kinds.get(port.hardware, ())) == 1
        else port.like
        for port in ports
    }


def _rates(active: tuple[Port, ...]) -> dict[str, Expectancy[float]]:
    found: dict[str, Expectancy[float]] = {}
    for likes in grouped(active, lambda port: port.like).values():
        rates = [rate for other in likes if (rate := _rate(other)) is not None]
        rate, count = Counter(rates).most_common(1)[0] if rates else (0.0, 0)
        if len(rates) >= PEERS and 2 * count > len(rates):
            wish = Expectancy(rate, f"{count} of {len(rates)} alike", False)
            found |= {port.subject.key: wish for port in likes}
    return found


def _rate(port: Port) -> float | None:
    try:
        return port.rate
    except CannotLook:
        return None


def _count(profile: Profile, ports: tuple[Port, ...]) -> tuple[dict[str, str], Shortage | None]:
    """Which ports an `at-least` rests on, and how many are missing.

    Of more than enough, the fastest kinds are meant. Where too few are fit, those of the same kind as a fit one are
    suspects, then those of the same chip: a front-end port is not blamed for a rail. Where none is fit, a kind of which
    there are enough is meant, else all are.
    """
    want = profile.expect.at_least
    if want is None:
        return {}, None
    by = f"profile {profile.name} (at least {want.count} port{'' if want.count == 1 else 's'})"
    candidates = [port for port in ports if _layer(port) in (want.layer or _layer(port), None)]
    rests_on = [port for port in candidates if is_active(port) and (_rate(port) or 0.0) >= (want.rate or 0.0)]
    if rests_on:
        rests_on = _fastest(rests_on, want.count)
        for kind in (_kind, _chip):
            if len(rests_on) < want.count:
                kinds, meant = {kind(port) for port in rests_on}, {port.subject.key for port in rests_on}
                rests_on = [port for port in candidates if port.subject.key in meant or kind(port) in kinds]
    else:
        kinds_of = Counter(_kind(port) for port in candidates)
        enough = [port for port in candidates if kinds_of[_kind(port)] >= want.count]
        rests_on = enough or candidates
    what = " ".join(filter(None, (want.layer, f"{want.rate:g} Gb/s" if want.rate else "", "ports")))
    short = Shortage(len(rests_on), want.count, what, by) if len(rests_on) < want.count else None
    return {port.subject.key: by for port in rests_on}, short


def _fastest(fit: list[Port], count: int) -> list[Port]:
    """Whole kinds of ports, the fastest first, until there are enough: rails are faster than front-end ports."""
    kinds: dict[str, list[Port]] = {}
    for port in fit:
        kinds.setdefault(_kind(port), []).append(port)
    taken: list[Port] = []
    for ports in sorted(kinds.values(), key=lambda ports: max(_rate(port) or 0.0 for port in ports), reverse=True):
        if len(taken) < count:
            taken += ports
    return taken


def _kind(port: Port) -> str:
    return port.hardware


def _chip(port: Port) -> str:
    return port.hardware.partition(" ")[0]


def _layer(port: Port) -> str | None:
    """None where it cannot be read: the profile may want this very port."""
    try:
        return port.layer
    except CannotLook:
        return None


def _device(key: str, want: DeviceWant) -> Subject:
    name = f"{key} ({', '.join(filter(None, (want.id, want.rdma)))})" if want.id or want.rdma else key
    return Subject(key, None, name)


def _model(key: str, profile: Profile) -> str | None:
    """What the profile says of the device of this port: a PCI id, or a chip where no id was shown."""
    device = profile.expect.devices.get(key.rpartition("/")[0])
    return device.id if device else None


def _place(key: str, profile: Profile, seen: Mapping[str, str]) -> Subject:
    known, _, number = key.rpartition("/")
    device, place = profile.expect.devices.get(known), seen.get(known, known)
    name = (
        f"{device.rdma}/{number} at {place}" if device and device.rdma and device.rdma != known else f"{place}/{number}"
    )
    return Subject(place, int(number), name)
