"""What should be on this node, and who says so: a profile, captured or written, or the best of like ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from nodeprep.facts.expected import bonds, kinds, matching, soundness
from nodeprep.facts.expected.bonds import ExpectedBond
from nodeprep.facts.expected.kinds import Kind, Kinds, Member, Role
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.job_profile import AtLeast, DeviceWant, GpuCount, GpuWant, PortWant, Profile
from nodeprep.model import CannotLook, Subject, Unreadable
from nodeprep.shown import field_of
from nodeprep.values import Value, field

T = TypeVar("T")
N = TypeVar("N", int, float)
ACTIVE = "4"
SLOWER = 2.0  # times: a kind that is slower than the rails by more than this is not counted with them (docs/adr/0030)
NEVER_CABLED = "say so with nodeprep profile capture --accept port.state, or with exclude"


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


class Counted(Value):
    """What an `at-least` comes to.

    `by_port` says who wants each port up, `every` are all that count. `slower` are those of them that are slower than
    the rails, if there would be too few without them and the profile states no rate.
    """

    by_port: Mapping[str, str] = field(default_factory=dict)
    every: frozenset[str] = frozenset()
    slower: tuple[Member, ...] = ()
    shortage: Shortage | None = None


class Expected(Value):
    """Who wants what. Ports and devices are found by place and number, names are for messages only.

    `counted` says by port who wants it up by number, and `counting` are all that this number counts. `rails` says by
    port who wants a rail, also one that a bond stands for. `slower_counted` are counted ports that are slower than the
    rails, where there would be too few without them. `kinds` are the node's ports by what they are; where the profile
    names its ports, they decide nothing, and `by_kind` is False. `moved` are the places of
    devices that the profile knows by another address: of another node of the same kind. `slow_legs` are the legs of
    bonds of which no leg that is up runs at the rate that the profile says. `gpus` are the GPUs that the profile names,
    by the address at which they were seen, and `gpu_count` how many it wants at least. `resources` are the extended
    resources that the node must offer to pods, with how many.
    """

    profile: str
    firm: Mapping[str, PortWant]
    devices: Mapping[str, DeviceWant]
    counted: Mapping[str, str]
    counted_rate: float | None
    counted_layer: str | None
    counted_firm: bool
    counting: frozenset[str]
    rails: Mapping[str, str]
    best_rates: Mapping[str, Expectancy[float]]
    missing_devices: tuple[MissingDevice, ...]
    missing_ports: tuple[MissingDevice, ...]
    shortage: Shortage | None
    modules: tuple[str, ...]
    verbs: bool | None
    wants_rdma: bool
    moved: frozenset[str] = frozenset()
    bonds: tuple[ExpectedBond, ...] = ()
    gpus: Mapping[str, GpuWant] = field(default_factory=dict)
    missing_gpus: tuple[MissingDevice, ...] = ()
    gpu_count: GpuCount | None = None
    slow_legs: frozenset[str] = frozenset()
    slower_counted: tuple[Member, ...] = ()
    kinds: Kinds = field(default_factory=Kinds)
    by_kind: bool = True
    resources: Mapping[str, int] = field(default_factory=dict)

    @property
    def by(self) -> str:
        return f"profile {self.profile}"

    def of(self, port: Port) -> str | None:
        """Who wants this port to be up; None if nobody does."""
        key = port.subject.key
        if key in self.firm:
            return self.by if self.firm[key].required else None
        return self.of_key(key)

    def of_key(self, key: str) -> str | None:
        """As `of`, of a port that no profile names; it may be one whose RDMA device is not there."""
        member = self.kinds.by_key.get(key)
        if member is not None and member.leg:
            return None
        return self.counted.get(key) or self.rails.get(key)

    def of_function(self, place: str) -> str | None:
        """Who wants the ports of this PCI function up, where no profile names them; not those of a software device."""
        return next((by for one in self._hardware_at(place) if (by := self.of_key(one.key))), None)

    def of_bond(self, port: Port) -> str | None:
        """Who wants the bond that this port shares to have a carrier."""
        want = self.firm.get(port.subject.key)
        if want is not None:
            return self.by if want.bonded else self.of(port)
        return self.of_rail(port)

    def of_rail(self, port: Port) -> str | None:
        """Who wants this port where no profile names it, whether it is a leg of a bond or not."""
        key = port.subject.key
        return None if key in self.firm else self.counted.get(key) or self.rails.get(key)

    def of_use(self, port: Port) -> str | None:
        """Who has a use for this port, up or not: as `of_bond`, and for a spare of a rail its card."""
        member = self.kinds.of(port) if port.subject.key not in self.firm else None
        spare = f"the card of a rail ({member.card})" if self.is_spare(member) and member else None
        fastest = "its speed, as no port of a faster kind is up" if self.is_stand_in(member) else None
        return self.of_bond(port) or spare or fastest

    def is_spare(self, member: Member | None) -> bool:
        return member is not None and self.by_kind and member.role is Role.SPARE

    def is_stand_in(self, member: Member | None) -> bool:
        """Whether it is one of the fastest ports that are up, where the rails are a faster kind of which none is."""
        return member is not None and self.by_kind and member.kind in self.kinds.stand_ins

    @property
    def lost_legs(self) -> frozenset[str]:
        """PCI addresses, or netdevs, of the legs that left a bond which must have a carrier: each must be up itself."""
        return frozenset(leg.place for bond in self.bonds if bond.want.carrier for leg in bond.legs if not leg.joined)

    def is_firm(self, port: Port) -> bool:
        """Whether an operator's profile wants it, and not only its like ports or what the hardware suggests."""
        key, member = port.subject.key, self.kinds.of(port)
        stands_in = self.is_stand_in(member) and not (member is not None and member.leg)  # of a leg its bond is wanted
        counts = key in self.counted or key in self.counting or stands_in
        return key in self.firm or (self.counted_firm and counts)

    def unwanted(self, port: Port) -> Member | None:
        """A port by its kind, if it is a spare or one of the front end: nobody wants it up."""
        member = self.kinds.of(port)
        if member is None or not self.by_kind or port.subject.key in self.firm or self.of_bond(port) is not None:
            return None
        return None if member.leg else member

    def camps(self, member: Member) -> str:
        """Who of its kind is up and who is not, "" where all are the one or the other."""
        up, down = self.kinds.up.get(member.kind, ()), self.kinds.down.get(member.kind, ())
        if not up or not down:
            return ""
        roles = {one.role for one in self.kinds.likes(member)}
        spares = "ports of rails' cards" if Role.RAIL in roles else "spares"
        what = spares if member.role is Role.SPARE else "front-end ports"
        return f"of {len(up) + len(down)} {what} alike, up: {kinds.names(up)}; down: {kinds.names(down)}"

    def camps_at(self, place: str) -> str:
        """As `camps`, of the ports of a PCI function that nobody wants."""
        members = self._hardware_at(place) if self.by_kind else ()
        return next((told for one in members if self.of_key(one.key) is None and (told := self.camps(one))), "")

    def is_needed(self, place: str) -> bool:
        """Whether no job can do without this PCI function. A spare's and the front end's only warn.

        A port that carries the card of a rail is needed as the rail is.
        """
        members = self.kinds.at(place) if self.by_kind else ()
        return not members or any(
            one.role is Role.RAIL or self.of_key(one.key) or one.key in self.kinds.carrying for one in members
        )

    def is_content(self, place: str, carries: float) -> bool:
        """Whether another port of this function's card needs no more than `carries` Gb/s, and stands in for its own."""
        others = [one for here in self._hardware_at(place) for one in self.kinds.carriers.beside(here)]
        return self.by_kind and any(
            one.place != place and one.rate is not None and one.rate <= carries for one in others
        )

    def bests(self, value: Callable[[Member], N | None]) -> dict[str, Expectancy[N]]:
        """The largest value of its kind for each port, and who shows it; none where a profile names the ports."""
        return bests(self.kinds, value) if self.by_kind else {}

    def rate(self, port: Port) -> Expectancy[float] | None:
        """Gb/s that this port must run at: what a profile says, and no less than the best of its kind."""
        want = self._port(port)
        if want is not None:
            # Of a bond a leg that is down only warns, so one that is slow does no more: not so where none is fast.
            firm = want.required or port.subject.key in self.slow_legs
            return None if want.rate is None else Expectancy(want.rate, self.by, firm)
        key, best = port.subject.key, self.best_rates.get(port.subject.key)
        if key not in self.counted or self.counted_rate is None:
            return best if key not in self.firm else None
        member = self.kinds.of(port)
        counted = Expectancy(self.counted_rate, self.by, member is None or not member.leg or key in self.slow_legs)
        return best if best is not None and best.value > counted.value and _reaches(port, counted.value) else counted

    def ought(self, port: Port) -> float:
        """Gb/s that its slot should carry: what it must run at, and the best of its kind, be the port up or down."""
        wants = (self.rate(port), self.best_rates.get(port.subject.key))
        return max((want.value for want in wants if want is not None), default=0.0)

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

    def _hardware_at(self, place: str) -> Iterator[Member]:
        return (one for one in self.kinds.at(place) if not one.kind.software)

    def _port(self, port: Port) -> PortWant | None:
        want = self.firm.get(port.subject.key)
        return want if want is not None and (want.required or want.bonded) else None


def derive(
    profile: Profile,
    pci: Pci | None,
    rdma: Rdma | None,
    links: Links | None = None,
    netlink: RdmaNetlink | None = None,
) -> Expected:
    """Compare a profile with what was seen. None stands for what could not be seen at all."""
    ports = rdma.ports if rdma else ()
    places, gpus = matching.match(profile.expect, pci, rdma), matching.gpus(profile.expect, pci)
    by = profile.inventory_by
    firm = {seen: profile.expect.ports[key] for key, seen in places.ports.items()}
    count = profile.expect.at_least
    legs = redundant(ports, links)
    found = kinds.derive(
        pci,
        rdma,
        links,
        netlink,
        legs,
        layer=count.layer if count else None,
        firm=bool(count and not count.suggested),
        rate=count.rate if count else None,
        wanted=count is not None,
        excused=profile.excused,
    )
    by_kind = not profile.expect.ports
    counted = _count(profile, found) if count else Counted()
    wants = profile.expect.ports.values()
    return Expected(
        profile=profile.name,
        firm=firm,
        devices={seen: profile.expect.devices[key] for key, seen in places.devices.items()},
        counted=counted.by_port,
        counted_rate=count.rate if count else None,
        counted_layer=count.layer if count else None,
        counted_firm=not (count and count.suggested),
        counting=counted.every,
        rails=_rails(profile, found) if by_kind else {},
        best_rates=bests(found, _rate) if by_kind else {},
        missing_devices=tuple(MissingDevice(_device(key, want), want.id, by) for key, want in places.missing_devices),
        missing_ports=tuple(
            MissingDevice(_place(key, profile, places.devices), _model(key, profile), by)
            for key in places.missing_ports
            if _where(key, places.devices) not in found.away
        ),
        shortage=counted.shortage,
        modules=profile.expect.modules,
        verbs=profile.expect.verbs,
        wants_rdma=bool(count or any(want.required or want.bonded for want in wants)),
        moved=frozenset(seen for key, seen in places.devices.items() if key != seen),
        bonds=bonds.find(profile.expect, places.devices, links),
        gpus={seen: profile.expect.gpus[key] for key, seen in gpus.items()},
        missing_gpus=tuple(
            MissingDevice(_gpu(key, want), want.id, by)
            for key, want in profile.expect.gpus.items()
            if key not in gpus and pci is not None
        ),
        gpu_count=profile.expect.gpu_count,
        slow_legs=_slow_legs(ports, _rates_of_legs(ports, firm, counted, count), links),
        slower_counted=counted.slower,
        kinds=found,
        by_kind=by_kind,
        resources=profile.expect.resources,
    )


def is_active(port: Port) -> bool:
    """Whether it is ACTIVE; one that cannot be read is not."""
    try:
        return port.state.partition(":")[0] == ACTIVE
    except CannotLook:
        return False


def may_be_active(port: Port) -> bool:
    """Whether nothing denies that it is ACTIVE.

    A wanted port whose state cannot be read has a fault in either case: it is not ACTIVE, or it lacks what an ACTIVE
    port must have.
    """
    return isinstance(field_of(port, "state"), Unreadable) or is_active(port)


def redundant(ports: tuple[Port, ...], links: Links | None) -> frozenset[str]:
    """Ports that share a bond: one of them may be down, so its like ports say nothing about it.

    A bond that is one RDMA device (RoCE LAG) has one port, and this port counts like any other.
    """
    found = {port.subject.key: links.under(port.netdev, port.bdf) for port in ports} if links else {}
    # The netdev of a port is that of its first GID, which may be the bond itself.
    above = {key: link.name if link.is_bond else link.master for key, link in found.items() if link is not None}
    masters = {key: master for key, master in above.items() if master}
    shared = Counter(masters.values())
    return frozenset(key for key, master in masters.items() if shared[master] > 1)


def _rates_of_legs(
    ports: tuple[Port, ...], firm: Mapping[str, PortWant], counted: Counted, count: AtLeast | None
) -> dict[str, float]:
    """Gb/s by port that a profile asks of it if it is a leg: what it says of the port, or of all that it counts."""
    said = {key: want.rate or 0.0 for key, want in firm.items() if want.bonded}
    rate = count.rate if count is not None else None
    return said | {port.subject.key: rate for port in ports if rate is not None and port.subject.key in counted.by_port}


def _slow_legs(ports: tuple[Port, ...], rates: Mapping[str, float], links: Links | None) -> frozenset[str]:
    """The bonded ports of which none of their bond that is up runs at the rate that a profile says."""
    bonded: dict[str, list[Port]] = {}
    for port in filter(soundness.may_be_live, ports if links is not None else ()):
        bond = links.bond_of(port.netdev, port.bdf) if links is not None else None
        if bond is not None and port.subject.key in rates:
            bonded.setdefault(bond.name, []).append(port)
    slow = (legs for legs in bonded.values() if not any(_reaches(port, rates[port.subject.key]) for port in legs))
    return frozenset(port.subject.key for legs in slow for port in legs)


def _reaches(port: Port, rate: float) -> bool:
    try:
        return port.rate >= rate
    except CannotLook:
        return True


def _rails(profile: Profile, found: Kinds) -> dict[str, str]:
    """Who wants each rail up: all of them are used together."""
    rails = found.rails
    up = sum(one.live for one in rails)
    told = f"one of {len(rails)} rails, {up} of them up" if len(rails) > 1 else "the only rail"
    lives = {one.kind for one in found.members if kinds.is_up(one)}

    def by(one: Member) -> str:
        why = told if not lives or one.kind in lives else f"{told}; {_never_up(one, found)}"
        return f"profile {profile.name} ({why})" if profile.expect.at_least else why

    return {one.key: by(one) for one in rails}


def _never_up(one: Member, found: Kinds) -> str:
    """Why a port counts as a rail of whose kind none is up, beside others that are; and what to do where it is none."""
    speed = found.speeds[one.kind]
    fast = f"can carry {speed:g} Gb/s" if speed else "may be as fast as any"
    return f"none of its kind is up, and it {fast}: if none was ever cabled, {NEVER_CABLED}"


def bests(found: Kinds, value: Callable[[Member], N | None]) -> dict[str, Expectancy[N]]:
    """By port, the largest value of its kind: one good member shows what the others can have."""
    best: dict[str, Expectancy[N]] = {}
    for likes in found.by_kind.values():
        most = _best(likes, value)
        best |= {one.key: most for one in likes} if most is not None else {}
    return best


def _rate(member: Member) -> float | None:
    return member.rate


def _best(likes: tuple[Member, ...], value: Callable[[Member], N | None]) -> Expectancy[N] | None:
    values = [(known, one) for one in likes if (known := value(one)) is not None]
    if len(likes) < 2 or not values:
        return None
    best = max(known for known, _ in values)
    having = [one.name for known, one in values if known == best]
    more = f" and {len(having) - 1} more" if len(having) > 1 else ""
    return Expectancy(best, f"the best of {len(likes)} of its kind, {having[0]}{more}", False)


def _count(profile: Profile, found: Kinds) -> Counted:
    """Which ports an `at-least` wants up, which ones count, and how many are missing.

    Whole kinds count, the fastest first and dead members included, until there are enough. Where too few of these are
    up, the next kinds count for them, and are blamed only where there are too few still, as spares are. What a pod has
    in its namespace counts as there; what is handed on, only where nobody but the hardware counts.
    """
    want = profile.expect.at_least or AtLeast(0)
    counted = f"at least {want.count} port{'' if want.count == 1 else 's'}"
    by = f"profile {profile.name} ({', '.join(filter(None, (counted, profile.expect_by)))})"
    lent = [place for place, whom in found.away.items() if want.suggested or whom in kinds.NAMESPACES]
    taken: list[Member] = []
    beside: list[Member] = []
    for kind in _in_order(found, want):
        likes = found.by_kind[kind]
        if len(taken) + len(lent) < want.count or _has_rail(found, kind):
            taken += likes
        elif _up([*taken, *beside]) + len(lent) < want.count:
            beside += likes
    enough = _up([*taken, *beside]) + len(lent) >= want.count
    what = " ".join(filter(None, (want.layer, f"{want.rate:g} Gb/s" if want.rate else "", "ports")))
    have = len(taken) + len(lent)
    short = Shortage(have, want.count, what, by) if have < want.count else None
    blamed = [one for one in taken if not enough or not (one.role is Role.SPARE or found.carriers.stand_in_for(one))]
    blamed += [] if enough else beside
    rails = _rails(profile, found) if want.count <= 1 else {}
    return Counted(
        by_port={one.key: rails.get(one.key, by) for one in blamed},
        every=frozenset(one.key for one in (*taken, *beside)),
        slower=_slower(taken, want.count - len(lent), found) if want.rate is None and not want.suggested else (),
        shortage=short,
    )


def _slower(taken: list[Member], count: int, found: Kinds) -> tuple[Member, ...]:
    """Of counted ports those that are slower than the rails and on other cards; none if there are enough others."""
    cards = {one.card for one in found.rails}
    slower = tuple(one for one in taken if not _has_rail(found, one.kind) and one.card not in cards)
    return slower if len(taken) - len(slower) < count <= len(taken) else ()


def _up(members: list[Member]) -> int:
    return sum(kinds.is_up(one) for one in members)


def _in_order(found: Kinds, want: AtLeast) -> list[Kind]:
    """The kinds that a count may mean: the rails, what shares their cards, and what is not much slower.

    None of them is slower than is asked for. Where a rate is asked for, it alone says what is too slow.
    """
    speeds = {kind: found.speeds[kind] for kind in found.by_kind if kinds.fits(kind, want.layer)}
    top = max((speed for kind, speed in speeds.items() if speed and _has_rail(found, kind)), default=0.0)
    cards = {one.card for one in found.rails}
    meant = [
        kind
        for kind, speed in speeds.items()
        if _has_rail(found, kind)
        or speed is None
        or speed >= (want.rate if want.rate is not None else top / SLOWER)
        or (speed >= (want.rate or 0.0) and any(one.card in cards for one in found.by_kind[kind]))
    ]
    return sorted(meant, key=lambda kind: (not _has_rail(found, kind), -(speeds[kind] or top), *_rank(kind)))


def _rank(kind: Kind) -> tuple[int, int, str, str]:
    """An order of kinds that no fault changes."""
    return kind.function, kind.number, kind.hardware, kind.subsystem


def _has_rail(found: Kinds, kind: Kind) -> bool:
    return any(one.role is Role.RAIL for one in found.by_kind[kind])


def _where(key: str, seen: Mapping[str, str]) -> str:
    known = key.rpartition("/")[0]
    return seen.get(known, known)


def _device(key: str, want: DeviceWant) -> Subject:
    name = f"{key} ({', '.join(filter(None, (want.id, want.rdma)))})" if want.id or want.rdma else key
    return Subject(key, None, name)


def _gpu(key: str, want: GpuWant) -> Subject:
    return Subject(key, None, f"{key} ({want.id})" if want.id else key)


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
