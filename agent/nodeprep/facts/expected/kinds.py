"""Which ports of a node are alike, and what its jobs use them for: rails, spares and the front end (docs/adr/0030)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from nodeprep.facts.expected import soundness
from nodeprep.facts.machine import pcie
from nodeprep.facts.machine.pci import INFINIBAND_CLASS, Pci, PciDevice
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.link_layers import ETHERNET, INFINIBAND
from nodeprep.model import Subject, grouped
from nodeprep.newer_python import StrEnum
from nodeprep.pattern import Pattern
from nodeprep.shown import field_of
from nodeprep.values import Value, field, replace

# Drivers that hand a device on, to a virtual machine or to user space: somebody took it from us on purpose.
HANDING_ON = ("vfio-pci", "pci-stub", "uio_pci_generic", "igb_uio", "pciback", "xen-pciback")
ANOTHER_RDMA_NAMESPACE, ANOTHER_NETWORK_NAMESPACE = "another RDMA namespace", "another network namespace"
NAMESPACES = (ANOTHER_RDMA_NAMESPACE, ANOTHER_NETWORK_NAMESPACE)
# Functions that carry RDMA whatever they show: of a whole vendor, or by device. From the tables of the drivers
# mlx4_core and mlx5_core, efa, erdma, irdma (ice: E810, i40e: X722), hns3 (RoCE) and bnxt_en (P5 and P7) in Linux.
CARRIES_RDMA = Pattern(r"15b3:|1d0f:efa|1ded:107f|8086:(159[1239ab]|37d[0-3])|19e5:a22[2-8]|14e4:(175[012]|1760)")
# The rates that ports of NICs are sold with, Gb/s: a slot's bandwidth is more than its card uses.
PORT_RATES = (10.0, 25.0, 40.0, 50.0, 56.0, 100.0, 200.0, 400.0, 800.0, 1600.0)
ONE_PORT_DRIVER = "mlx5_core"  # one port a function: a device's other ports are representors (switchdev)
NAMES_IN_MESSAGE = 16
PEERS = 4  # ports of one model and place; with fewer, one that is up and speaks another network may be meant to
Place = tuple[object, int, int]  # what a card is, whatever its ports are set to; a function of it and a port of that


class Role(StrEnum):
    """What a port is for. A spare is one that another port of its card stands in for."""

    RAIL = "rail"
    SPARE = "spare"
    FRONT_END = "front-end"


class Kind(Value):
    """What like ports have in common.

    `hardware` is the PCI id (or chip), and the board where no PCI `subsystem` is shown, which is "" then; `function` is
    the PCI function's number on its card and `number` the port's. `layer` is None where it cannot be read.
    """

    hardware: str
    subsystem: str
    layer: str | None
    function: int
    number: int
    software: bool

    @property
    def model(self) -> tuple[str, str, bool]:
        """The card, whatever its ports are set to."""
        return (self.hardware.partition(" ")[0], self.subsystem, self.software)

    @property
    def place(self) -> Place:
        return (self.model, self.function, self.number)

    def refines(self, other: Kind) -> bool:
        """Whether it says all that the other says, and more."""
        return (
            self != other
            and (self.function, self.number, self.software) == (other.function, other.number, other.software)
            and (other.hardware in ("", self.hardware) or self.hardware.startswith(f"{other.hardware} "))
            and other.subsystem in ("", self.subsystem)
            and other.layer in (None, self.layer)
        )


class Member(Value):
    """One port of a physical function that carries RDMA, or of one like it that lost its RDMA device.

    `card` is the PCI slot. `port` is None where no RDMA device is shown. `live` is ACTIVE with its link up, `sound`
    live and lacking nothing. `leg` shares a bond, which is judged in its place. `capacity` is Gb/s of slot and card.
    """

    place: str
    name: str
    card: str
    kind: Kind
    port: Port | None
    live: bool
    sound: bool
    leg: bool
    capacity: float | None
    role: Role = Role.RAIL

    @property
    def key(self) -> str:
        return f"{self.place}/{self.kind.number}"

    @property
    def subject(self) -> Subject:
        return Subject(self.place, None if self.port is None else self.kind.number, self.name)

    @property
    def rate(self) -> float | None:
        """Gb/s, None where it is not live or does not show it."""
        rate = field_of(self.port, "rate") if self.port is not None and self.live else None
        return rate if isinstance(rate, float | int) else None


class Carriers(Value):
    """The sound ports by card, which stand in for the others of their card.

    `asked` is the network that an operator's profile asks for, or None. A port of it has no stand-in of another.
    `bonded` are cards of which a leg is not sound, with what it is: another leg of its bond, on another card, is.
    """

    by_card: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)
    asked: str | None = None
    bonded: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Iterable[Member], asked: str | None, bonds: Mapping[str, str]) -> Carriers:
        every = tuple(members)
        sound = [one for one in every if one.sound]
        carried = {bonds[one.place] for one in sound if one.place in bonds}
        legs = [one for one in every if not one.sound and bonds.get(one.place) in carried]
        return cls(grouped(sound, _card), asked, grouped(legs, _card))

    def beside(self, member: Member) -> tuple[Member, ...]:
        """The sound ports that may stand in for it."""
        return tuple(one for one in self.by_card.get(member.card, ()) if self._may_stand_in(one, member))

    def _may_stand_in(self, one: Member, member: Member) -> bool:
        return one.key != member.key and (fits(one.kind, self.asked) or not fits(member.kind, self.asked))

    def stand_in_for(self, member: Member) -> bool:
        """Whether it lacks something that another port of its card has. A bond stands for its leg."""
        if member.sound or member.leg:
            return False
        # The first ports are cabled first: the bond of second ports does not stand in for a rail.
        legs = [one for one in self.bonded.get(member.card, ()) if _order(one) < _order(member)]
        return bool(self.beside(member)) or any(self._may_stand_in(one, member) for one in legs)

    def carry(self, card: str) -> bool:
        """Whether a sound port of it, or a leg whose bond is up, is what the operator asks for."""
        return any(fits(one.kind, self.asked) for one in (*self.by_card.get(card, ()), *self.bonded.get(card, ())))

    @property
    def kinds(self) -> set[Kind]:
        """What is sound, and may be meant."""
        return {one.kind for ports in self.by_card.values() for one in ports if fits(one.kind, self.asked)}


NO_CARRIERS = Carriers()


class Kinds(Value):
    """Every member by role and kind. `away` are PCI functions that are given away, and to whom.

    `speeds` are Gb/s by kind, None where nothing tells. `up` and `down` are the two camps of each kind. `stand_ins` are
    what is up and as fast as the fastest kind with a sound port, where the rails are a faster kind without one.
    `carrying` are keys of ports that stand in for another of their card, at a place of rails or as fast as they are.
    """

    members: tuple[Member, ...] = ()
    by_key: Mapping[str, Member] = field(default_factory=dict)
    by_place: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)
    by_kind: Mapping[Kind, tuple[Member, ...]] = field(default_factory=dict)
    up: Mapping[Kind, tuple[Member, ...]] = field(default_factory=dict)
    down: Mapping[Kind, tuple[Member, ...]] = field(default_factory=dict)
    carriers: Carriers = NO_CARRIERS
    speeds: Mapping[Kind, float | None] = field(default_factory=dict)
    stand_ins: frozenset[Kind] = frozenset()
    carrying: frozenset[str] = frozenset()
    away: Mapping[str, str] = field(default_factory=dict)

    def of(self, port: Port) -> Member | None:
        return self.by_key.get(port.subject.key)

    def at(self, place: str) -> tuple[Member, ...]:
        """The members of one PCI function."""
        return self.by_place.get(place, ())

    def likes(self, member: Member) -> tuple[Member, ...]:
        """All members of its kind, itself included."""
        return self.by_kind[member.kind]

    @property
    def rails(self) -> tuple[Member, ...]:
        return tuple(one for one in self.members if one.role is Role.RAIL)

    @property
    def for_jobs(self) -> frozenset[str]:
        """The keys of the rails and of their spares. A card of the front end has spares too."""
        cards, found = {one.card for one in self.rails}, {one.kind for one in self.rails}
        spares = (one for one in self.members if one.role is Role.SPARE and (one.card in cards or one.kind in found))
        return frozenset(one.key for one in (*self.rails, *spares))


class NodeView(Value):
    """The facts that members are found in, by what they are looked up by."""

    pci: Mapping[str, PciDevice]
    drivers_shown: bool
    devices: Mapping[str, RdmaDevice]
    links: Links | None
    subsystems: Mapping[str, str]  # by id and board, where all that show one show the same


def derive(
    pci: Pci | None,
    rdma: Rdma | None,
    links: Links | None,
    netlink: RdmaNetlink | None,
    legs: frozenset[str] = frozenset(),
    *,
    layer: str | None = None,
    firm: bool = False,
    rate: float | None = None,
    wanted: bool = False,
    excused: Collection[str] = (),
    bonds: Mapping[str, str] | None = None,
) -> Kinds:
    """Sort the ports of a node.

    `legs` are keys of ports that share a bond; `layer` and `rate` (Gb/s) are the profile's. `firm`: an operator asks
    for this layer, and not only the hardware suggests it. `wanted`: the profile asks for RDMA. `excused` are patterns
    of devices of which something is waived: a dead one keeps its role, and nothing follows from it for the others.
    `bonds` are the bonds of PCI functions, if not those of `links`.
    """
    nics = {nic.address: nic for nic in (pci.nics if pci else ())}
    view = NodeView(
        pci=nics,
        drivers_shown=pci is not None and pci.drivers_shown,
        devices={device.name: device for device in (rdma.devices if rdma else ())},
        links=links,
        subsystems=_subsystems(rdma, nics),
    )
    away = _away(view, netlink)
    ports = [port for port in (rdma.ports if rdma else ()) if _is_own(port, view)]
    away |= {port.place: ANOTHER_NETWORK_NAMESPACE for port in ports if _is_without_netdev(port, view)}
    addressed = soundness.bonds_with_address(ports, links)
    shown = [_member(port, view, legs, rate or 0.0, addressed) for port in ports if port.place not in away]
    members = _joined([*shown, *_silent(shown, view, away, wanted=wanted or bool(shown))])
    bonds = links.bonds_by_place if bonds is None and links is not None else bonds or {}
    carriers = Carriers.of(members, layer if firm else None, bonds)
    beside = _rates_of_bonds(members, bonds)
    members, stand_ins, speeds = _sorted(members, layer, carriers, beside)
    telling = [one for one in members if one.live or not any(map(one.subject.is_called, excused))]
    if len(telling) < len(members):
        rest, stand_ins, own = _sorted(telling, layer, carriers, beside)
        roles = {one.key: one.role for one in rest if one.role is not Role.FRONT_END}
        members = [one if one.role is Role.RAIL else replace(one, role=roles.get(one.key, one.role)) for one in members]
        speeds |= own
    by_place: dict[str, list[Member]] = {}
    for one in members:
        by_place.setdefault(one.place, []).append(one)
    return Kinds(
        members=tuple(members),
        by_key={one.key: one for one in members},
        by_place={place: tuple(found) for place, found in by_place.items()},
        by_kind=_grouped(members),
        up=_grouped(one for one in members if one.live),
        down=_grouped(one for one in members if not is_up(one)),
        carriers=carriers,
        speeds=speeds,
        stand_ins=stand_ins,
        carrying=_carrying(members, carriers, speeds),
        away=away,
    )


def _carrying(members: list[Member], carriers: Carriers, speeds: Mapping[Kind, float | None]) -> frozenset[str]:
    rails = {one.kind for one in members if one.role is Role.RAIL}
    places, top = {kind.place for kind in rails}, _top(rails, speeds)
    spares = (one for one in members if one.role is Role.SPARE)
    of_rails = (one for one in spares if one.kind.place in places or (speeds[one.kind] or 0.0) >= top)
    return frozenset(two.key for one in of_rails for two in carriers.beside(one))


def names(members: Sequence[Member]) -> str:
    """Members as a message names them: some of them, and how many more."""
    return listed([one.name for one in members])


def listed(names: Sequence[str]) -> str:
    """Some of the names, and how many more."""
    more = len(names) - NAMES_IN_MESSAGE
    return ", ".join(names[:NAMES_IN_MESSAGE]) + (f" and {more} more" if more > 0 else "")


def is_up(member: Member) -> bool:
    """Whether it is what a rail must be: live; of a leg, its bond says so."""
    return member.live or member.leg


def fits(kind: Kind, layer: str | None) -> bool:
    """Whether a profile that asks for this link layer may mean it."""
    return layer is None or kind.layer in (None, layer)


def _subsystems(rdma: Rdma | None, nics: Mapping[str, PciDevice]) -> dict[str, str]:
    known: dict[str, set[str]] = {}
    for port in rdma.ports if rdma else ():
        if text := _text(nics.get(port.bdf), "subsystem"):
            known.setdefault(port.hardware, set()).add(text)
    return {hardware: found.pop() for hardware, found in known.items() if len(found) == 1}


def _is_own(port: Port, view: NodeView) -> bool:
    """Whether it is a port of a physical function or of a software device, not one of a virtual function or for one."""
    device, nic = view.devices.get(port.device), view.pci.get(port.bdf)
    if (device is not None and device.virtual_function) or (nic is not None and nic.virtual_function):
        return False
    return not (port.number > 1 and nic is not None and nic.driver == ONE_PORT_DRIVER)


def _is_without_netdev(port: Port, view: NodeView) -> bool:
    """Whether its netdev is in another network namespace: RoCE drivers take an ACTIVE state from a netdev."""
    carries = field_of(port, "layer") == ETHERNET and soundness.is_live(port)
    links = view.links
    shown = links is not None and links.addresses is not None  # the kernel told all of them, and no copy of files
    return shown and carries and bool(port.bdf) and links is not None and links.under(port.netdev, port.bdf) is None


def handed_on_to(device: PciDevice) -> str:
    """The driver that gives it to a virtual machine or a program, and has it or is kept for it; "" if none does."""
    bound, kept = field_of(device, "driver"), field_of(device, "driver_override")
    name = kept if bound is None else bound
    return name if name in HANDING_ON else ""


def _away(view: NodeView, netlink: RdmaNetlink | None) -> dict[str, str]:
    exclusive = netlink is not None and netlink.netns_mode == "exclusive"
    carriers = {device.bdf for device in view.devices.values()}
    found: dict[str, str] = {}
    for nic in view.pci.values():
        if handing_on := handed_on_to(nic):
            found[nic.address] = handing_on
        elif exclusive and nic.driver and nic.address not in carriers and any(one.driver for one in nic.auxiliaries):
            found[nic.address] = ANOTHER_RDMA_NAMESPACE
    return found


def _member(port: Port, view: NodeView, legs: frozenset[str], rate: float, addressed: Collection[str]) -> Member:
    device, nic = view.devices.get(port.device), view.pci.get(port.bdf)
    software = device is not None and isinstance(field_of(device, "parent"), str)
    layer = field_of(port, "layer")
    slot, dot, function = port.bdf.rpartition(".")
    subsystem = _text(nic, "subsystem") or view.subsystems.get(port.hardware, "")
    hardware = port.hardware.partition(" ")[0] if subsystem else port.hardware
    kind = Kind(
        hardware=f"{port.hardware} {_text(nic, 'id')}".strip() if software else hardware,
        subsystem=subsystem,
        layer=layer if isinstance(layer, str) else None,
        function=int(function, 16) if dot and not software else 0,
        number=port.number,
        software=software,
    )
    return Member(
        place=port.place,
        name=port.name,
        card=slot if dot and not software else port.device,
        kind=kind,
        port=port,
        live=soundness.is_live(port),
        sound=soundness.is_awake(nic, device) and soundness.is_sound(port, device, view.links, rate, addressed),
        leg=port.subject.key in legs,
        capacity=_capacity(nic),
    )


def _silent(shown: list[Member], view: NodeView, away: Mapping[str, str], *, wanted: bool) -> list[Member]:
    """Ports of functions that carry RDMA, by themselves or by their likes, and show no RDMA device.

    Where RDMA is `wanted` here, a function that its driver's tables name is one too: every like of it may be silent.
    """
    if not view.drivers_shown:
        return []
    carriers = {device.bdf for device in view.devices.values() if not isinstance(field_of(device, "parent"), str)}
    models: dict[tuple[str, str], dict[Kind, None]] = {}
    for one in shown:
        if not one.kind.software and (nic := view.pci.get(one.place)) is not None and _text(nic, "id"):
            models.setdefault(_model(nic), {})[one.kind] = None
    lost = "" in carriers  # a copy that lost the way from device to NIC: a bound one may be its
    lag = _LagLegs(shown, carriers, view)
    found = []
    for nic in view.pci.values():
        if nic.virtual_function or nic.rdma or nic.address in carriers or nic.address in away:
            continue
        like = next((one for key, one in models.items() if _is_like(key, _model(nic))), None)
        tells = nic.offers_rdma or (wanted and carries_rdma(nic))
        idle = any(one.driver is None for one in nic.auxiliaries)
        if (like or tells) and (nic.driver is None or not (lost or (lag.may_be(nic) and not idle))):
            found += _ports_of(nic, tuple(like or ()), carries=_carries(nic, view.links))
    return found


def _carries(nic: PciDevice, links: Links | None) -> bool:
    """Whether it carries a network without RDMA; taken for granted where no netdev is shown on this node."""
    if links is None or not links.links:
        return True
    return any(
        link is not None and field_of(link, "operstate") in soundness.RUNNING for link in map(links.named, nic.netdevs)
    )


class _LagLegs:
    """Finds functions whose RDMA device may be the first function's of their card: of a RoCE LAG (a bond's two ports).

    The first function of the bond has the device of all (mlx5_lag_add_devices, drivers/net/ethernet/mellanox/mlx5).
    Where another leg of that model and function shows a device of its own, bonds are no LAG on this node.
    """

    def __init__(self, shown: list[Member], carriers: set[str], view: NodeView) -> None:
        self._links = view.links
        self._first: dict[str, str] = {}
        for place in sorted(carriers, reverse=True):
            self._first[place.rpartition(".")[0]] = place
        self._own = {
            (_model(nic), one.kind.function)
            for one in shown
            if one.port is not None and (nic := view.pci.get(one.place)) is not None and self._has_bond(one.port)
        }

    def may_be(self, nic: PciDevice) -> bool:
        slot, _, function = nic.address.rpartition(".")
        first = self._first.get(slot)
        if first is None or first > nic.address or (_model(nic), int(function, 16)) in self._own:
            return False
        return may_be_bonded(nic, self._links)

    def _has_bond(self, port: Port) -> bool:
        return self._links is not None and self._links.bond_of(port.netdev, port.bdf) is not None


def _ports_of(nic: PciDevice, like: tuple[Kind, ...], *, carries: bool) -> list[Member]:
    slot, _, function = nic.address.rpartition(".")
    mine = int(function, 16)
    numbers = {one.number for one in like if one.function == mine} or {one.number for one in like} or {1}
    # Its class says whether it is an InfiniBand controller now, unless its likes are of one network only.
    own = INFINIBAND if nic.pci_class.startswith(INFINIBAND_CLASS) else ETHERNET
    speaks = {one.layer for one in like}
    # Of likes of both networks, one that carries nothing may be a rail that is dead in the other mode.
    layer = own if not like or (own in speaks and (carries or speaks == {own})) else None
    return [
        Member(
            place=nic.address,
            name=nic.label,
            card=slot,
            kind=Kind(_text(nic, "id"), _text(nic, "subsystem"), layer, mine, number, software=False),
            port=None,
            live=False,
            sound=False,
            leg=False,
            capacity=_capacity(nic),
        )
        for number in sorted(numbers)
    ]


def carries_rdma(nic: PciDevice) -> bool:
    """Whether it is made for RDMA by what it is, though nothing of it shows a device or an offer."""
    return CARRIES_RDMA.match(_text(nic, "id")) is not None


def may_be_bonded(nic: PciDevice, links: Links | None) -> bool:
    """Two ports of a board in a bond share one RDMA device, and the other function shows it."""
    found = [links.named(name) for name in nic.netdevs] if links is not None and links.links else []
    return not found or any(link is None or link.master is not None for link in found)


def _model(nic: PciDevice) -> tuple[str, str]:
    return (_text(nic, "id"), _text(nic, "subsystem"))


def _is_like(one: tuple[str, str], other: tuple[str, str]) -> bool:
    return bool(one[0]) and one[0] == other[0] and (one[1] == other[1] or "" in (one[1], other[1]))


def _text(nic: PciDevice | None, name: str) -> str:
    value = field_of(nic, name) if nic is not None else ""
    return value if isinstance(value, str) else ""


def _capacity(nic: PciDevice | None) -> float | None:
    """The fastest port that slot and card can carry, None where nothing tells."""
    width, speed = (field_of(nic, name) if nic is not None else None for name in ("max_width", "max_speed"))
    carries = pcie.bandwidth(
        width if isinstance(width, int) else None, speed if isinstance(speed, float | int) else None
    )
    return max((rate for rate in PORT_RATES if rate <= carries), default=carries) if carries is not None else None


def _joined(members: list[Member]) -> list[Member]:
    """A kind of which something cannot be read is the one that it fits, where it fits one only.

    Not so without a device in a model of both networks: it may be a rail in the other mode (`_ports_of`).
    """
    kinds = set(map(_kind, members))
    joined: dict[Kind, Kind] = {}
    for kind in kinds:
        finer = [other for other in kinds if other.refines(kind)]
        finest = [one for one in finer if not any(other.refines(one) for other in finer)]
        joined[kind] = finest[0] if len(finest) == 1 else kind
    alone = [one for one in members if one.port is None and one.kind.layer is None]
    joined |= {one.kind: one.kind for one in alone}
    return [one if joined[one.kind] == one.kind else replace(one, kind=joined[one.kind]) for one in members]


def _kind(member: Member) -> Kind:
    return member.kind


def _card(member: Member) -> str:
    return member.card


def _order(member: Member) -> tuple[int, int]:
    """Its place on the card."""
    return member.kind.function, member.kind.number


def _grouped(members: Iterable[Member]) -> dict[Kind, tuple[Member, ...]]:
    found: dict[Kind, list[Member]] = {}
    for one in members:
        found.setdefault(one.kind, []).append(one)
    return {kind: tuple(likes) for kind, likes in found.items()}


def _rates_of_bonds(members: Iterable[Member], bonds: Mapping[str, str]) -> dict[str, float]:
    """Gb/s of legs by key that are dead or slower: what the best leg of their bond runs at, for these are alike.

    A function that lost its netdev shows no bond. It is taken for a leg of the bond that a live port of its card is in,
    if this bond has no other leg, or a leg at the same function of another card. A bond of the second ports of several
    cards never had their first ports.
    """
    found = tuple(members)
    rates: dict[str, float] = {}
    cards: dict[str, str] = {}
    functions: dict[str, list[int]] = {}
    for one in found:
        bond = bonds.get(one.place)
        if bond is not None:
            functions.setdefault(bond, []).append(one.kind.function)
        if bond is not None and one.live:
            cards.setdefault(one.card, bond)
            rates[bond] = max(one.rate or 0.0, rates.get(bond, 0.0))

    def lost(one: Member) -> str | None:
        bond = cards.get(one.card) if one.port is None else None
        legs = functions.get(bond or "", [])
        return bond if len(legs) == 1 or one.kind.function in legs else None

    legs = ((one, bonds.get(one.place) or lost(one)) for one in found if not (one.live and one.rate is None))
    return {one.key: rates[bond] for one, bond in legs if bond and rates.get(bond, 0.0) > (one.rate or 0.0)}


def _speeds(
    by_kind: Mapping[Kind, tuple[Member, ...]], layer: str | None, beside: Mapping[str, float]
) -> dict[Kind, float | None]:
    """Gb/s by kind: the best of its live members, else of its model's other ports, else what slot and card carry.

    A live one whose rate cannot be read tells nothing. `beside` are the rates of bonds by leg that is dead or slower.
    They come first where all of a kind are such legs: nothing says that a leg was faster than what carries its bond.

    A model's other ports do not tell how fast its dead first ports are, where these can be faster than all that lives:
    the first port of a card is cabled first.
    """
    alive = {kind: _best(likes) for kind, likes in by_kind.items() if any(one.live for one in likes)}
    top = max((rate for kind, rate in alive.items() if rate is not None and fits(kind, layer)), default=0.0)
    models: dict[tuple[object, ...], float] = {}
    first: dict[object, tuple[int, int]] = {}
    for kind, rate in alive.items():
        first[kind.model] = min((kind.function, kind.number), first.get(kind.model, (kind.function, kind.number)))
        for told in (kind.layer, None):
            models[(*kind.model, told)] = max(rate or 0.0, models.get((*kind.model, told), 0.0))
    hardware = any(not kind.software for kind in by_kind)
    speeds: dict[Kind, float | None] = {}
    for kind, likes in by_kind.items():
        if all(one.key in beside for one in likes):
            speeds[kind] = max(beside[one.key] for one in likes)
        elif alive.get(kind) is not None:
            speeds[kind] = alive[kind]
        elif kind.software and hardware:
            speeds[kind] = 0.0
        else:
            carried = max((one.capacity for one in likes if one.capacity is not None), default=None)
            model = models.get((*kind.model, kind.layer)) or models.get((*kind.model, None))
            faster = (kind.function, kind.number) < first.get(kind.model, (0, 0)) and (carried or 0.0) >= top
            speeds[kind] = carried if not model or (model < top and faster) else model
    return speeds


def _best(likes: Iterable[Member]) -> float | None:
    return max((rate for one in likes if (rate := one.rate) is not None), default=None)


def _sorted(
    members: list[Member], layer: str | None, carriers: Carriers, beside: Mapping[str, float]
) -> tuple[list[Member], frozenset[Kind], dict[Kind, float | None]]:
    """The members with their roles, the kinds that stand in for rails, and the speeds of all kinds."""
    by_kind = _grouped(members)
    speeds = _speeds(by_kind, layer, beside)
    return *_with_roles(members, by_kind, speeds, layer, carriers), speeds


def _with_roles(
    members: list[Member],
    by_kind: Mapping[Kind, tuple[Member, ...]],
    speeds: Mapping[Kind, float | None],
    layer: str | None,
    carriers: Carriers,
) -> tuple[list[Member], frozenset[Kind]]:
    """The members with their roles, and the kinds that stand in for rails of which none is up.

    A card is up if one of its ports is, whatever that one's kind: the others are spares then, for every number of them.
    Where all of a kind are spares that is faster than what is up, what carries their cards is rails too.
    """
    meant = {kind: likes for kind, likes in by_kind.items() if fits(kind, layer)}
    meant |= {kind: by_kind[kind] for kind in _in_the_other_mode(by_kind, speeds, carriers.asked)}
    competing = [kind for kind, likes in meant.items() if not all(map(carriers.stand_in_for, likes))]
    alive = {kind for kind in competing if any(one.live for one in by_kind[kind])}
    rails = _fastest(competing, speeds)
    # For such a card that port takes the blame. A leg takes none: its bond does.
    cards = {one.card for one in members if one.kind in rails & alive and not one.leg}
    lives = {one.kind for one in members if one.live}
    good = carriers.kinds
    as_fast = frozenset(kind for kind in lives if (speeds[kind] or 0.0) >= _top(good, speeds))
    stand_ins = frozenset() if rails & good else as_fast - rails
    top = _top(rails, speeds)
    fastest = _top(alive, speeds)
    aside = [one for kind in meant.keys() - competing if (speeds[kind] or 0.0) > fastest for one in meant[kind]]
    rails |= {other.kind for one in aside for other in carriers.beside(one)} & meant.keys()

    def role(one: Member) -> Role:
        rate = speeds[one.kind]
        if one.kind not in rails:
            spare = carriers.stand_in_for(one) and (not one.live or rate is None or rate >= top)
            return Role.SPARE if spare else Role.FRONT_END
        if one.sound:
            return Role.RAIL
        if carriers.beside(one) or carriers.stand_in_for(one):
            return Role.SPARE
        return Role.RAIL if one.live or one.kind in alive or one.card not in cards else Role.SPARE

    return [replace(one, role=role(one)) for one in members], stand_ins


def _in_the_other_mode(
    by_kind: Mapping[Kind, tuple[Member, ...]], speeds: Mapping[Kind, float | None], asked: str | None
) -> set[Kind]:
    """Kinds that do not speak the network that an operator asks for, are dead, and are faster than all that do.

    They may be the rails, all of them in the other mode: as a faster kind of which none is up may be.
    """
    if asked is None:
        return set()
    lives = [kind for kind, likes in by_kind.items() if fits(kind, asked) and any(one.live for one in likes)]
    top = _top(lives, speeds)
    others = (kind for kind in by_kind if not fits(kind, asked) and (speeds[kind] or 0.0) > top)
    return {kind for kind in others if not any(one.live for one in by_kind[kind])}


def _fastest(competing: Collection[Kind], speeds: Mapping[Kind, float | None]) -> set[Kind]:
    """Of kinds the fastest, and those of which nothing tells how fast they are."""
    top = _top(competing, speeds)
    return {kind for kind in competing if (rate := speeds[kind]) is None or rate >= top}


def _top(competing: Collection[Kind], speeds: Mapping[Kind, float | None]) -> float:
    return max((rate for kind in competing if (rate := speeds[kind]) is not None), default=0.0)
