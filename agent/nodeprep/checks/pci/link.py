"""Does every NIC have the PCIe lanes and speed that it should have?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expectancy, Expected
from nodeprep.facts.machine import pcie
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.facts.machine.system import System
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Unreadable, Verdict, grouped
from nodeprep.shown import field_of
from nodeprep.values import Value

N = TypeVar("N", int, float)


class LinkWish(Value):
    """What a NIC's link should be. A part is None where nothing says so."""

    width: Expectancy[int] | None
    speed: Expectancy[float] | None

    def missed_by(self, nic: PciDevice) -> list[str]:
        """Who wants how much more than there is."""
        missed = []
        if self.width and nic.width is not None and nic.width < self.width.value:
            missed.append(f"x{self.width.value} is wanted by {self.width.by}")
        if self.speed and nic.speed is not None and nic.speed < self.speed.value:
            missed.append(f"{self.speed.value:g} GT/s are wanted by {self.speed.by}")
        return missed


NO_WISH = LinkWish(None, None)


def judge(seen: Seen) -> Iterator[Verdict]:
    # A virtual function does not show a link of its own.
    nics = [nic for nic in seen[Pci].nics if not nic.virtual_function]
    kinds = grouped(nics, lambda nic: kind(nic, seen[Expected]))
    bests = {alike: LinkWish(best(likes, "width"), best(likes, "speed")) for alike, likes in kinds.items()}
    yield from seen.each(nics, lambda nic: verdict(nic, bests[kind(nic, seen[Expected])], seen))


def verdict(nic: PciDevice, of_likes: LinkWish, seen: Seen) -> Verdict | None:
    if nic.width is None and nic.speed is None:
        return None
    system = seen.get(System)
    virtual = system.virtual if system else None
    wish = wish_of(nic, of_likes if nic.id and not virtual else NO_WISH, seen[Expected])
    width, speed = field_of(nic, "width"), field_of(nic, "speed")
    carries = None if isinstance(width, Unreadable) or isinstance(speed, Unreadable) else pcie.bandwidth(width, speed)
    rate = max(rates := port_rates(nic, seen))
    needs = f"its port {'runs' if rate == rates[0] else 'ought to run'} at {rate:g} Gb/s"
    # A part that is not shown is taken for the best that it can be.
    most = pcie.bandwidth(nic.width or nic.max_width, nic.speed or nic.max_speed)
    too_slow = most is not None and most < rate
    shows = f"{nic.label} has {link(width, speed)}" + (f", {carries:.4g} Gb/s" if carries else "")
    if missed := wish.missed_by(nic):
        shows = f"{shows}; {' and '.join(missed)}"
        stands_in = seen[Expected].is_content(nic.address, most or 0.0)  # a slower port of the card
        if too_slow and seen[Expected].is_needed(nic.address) and not stands_in:
            return says(nic, Status.FAIL, "BelowPortRate", f"{shows}; {needs}", wish)
        return says(nic, Status.WARN, "Degraded", shows, wish)
    capable = below_capability(nic)
    unjudged = wish.width is None and wish.speed is None
    if too_slow and capable and unjudged and virtual is False:
        shows = f"{shows}; {capable}, and {needs}: a narrow slot, or a bad link?"
        return says(nic, Status.WARN, "BelowPortRate", shows, wish)
    return says(nic, Status.OK, "AsExpected", f"{shows}; {capable}" if capable else shows, wish)


def link(width: int | Unreadable | None, speed: float | Unreadable | None) -> str:
    lanes = "a width that cannot be read" if isinstance(width, Unreadable) else f"x{width}" if width else ""
    rate = "a speed that cannot be read" if isinstance(speed, Unreadable) else f"{speed:g} GT/s" if speed else ""
    return " at ".join(filter(None, (lanes, rate)))


def wish_of(nic: PciDevice, of_likes: LinkWish, expected: Expected) -> LinkWish:
    width = expected.device(nic, lambda device: device.width)
    speed = expected.device(nic, lambda device: device.speed)
    return LinkWish(
        width or within(of_likes.width, nic, "max_width"), speed or within(of_likes.speed, nic, "max_speed")
    )


def within(wish: Expectancy[N] | None, nic: PciDevice, most: str) -> Expectancy[N] | None:
    """The wish, None if this board is known to be less able than its like."""
    able = field_of(nic, most)
    return None if wish is not None and isinstance(able, int | float) and able < wish.value else wish


def kind(nic: PciDevice, expected: Expected) -> tuple[object, ...]:
    """What makes two NICs comparable, whatever the network that they are set to."""
    for one in expected.kinds.at(nic.address):
        return (one.kind.hardware, one.kind.subsystem, one.kind.function)
    return (field_of(nic, "id"), field_of(nic, "subsystem"))


def best(likes: tuple[PciDevice, ...], field: str) -> Expectancy[Any] | None:
    """One good member of a kind shows what the others could have."""
    values = [(value, one) for one in likes if isinstance(value := field_of(one, field), int | float)]
    if len(values) < 2:
        return None
    most = max(value for value, _ in values)
    having = [one for value, one in values if value == most]
    more = f" and {len(having) - 1} more" if len(having) > 1 else ""
    return Expectancy(most, f"the best of {len(values)} of its kind, {having[0].label}{more}", firm=False)


def port_rates(nic: PciDevice, seen: Seen) -> tuple[float, float]:
    """Gb/s that the fastest port runs at, and is wanted to. Not the sum: two ports need not be full at once."""
    expected = seen[Expected]
    links = seen.explaining(Links)
    ports = [port for port in seen[Rdma].ports_at(nic.address) if is_own(port, nic, links)]
    runs = max((port.rate for port in ports if inventory.may_be_active(port)), default=0.0)
    return runs, max(map(expected.ought, ports), default=0.0)


def is_own(port: Port, nic: PciDevice, links: Links | None) -> bool:
    """Whether the port is this NIC's alone; the port of a bond shows the rate of all its legs.

    A name that no interface has is no bond's.
    """
    named = port.netdev is None or not nic.netdevs or port.netdev in nic.netdevs
    return named or (links is not None and links.named(port.netdev) is None)


def below_capability(nic: PciDevice) -> str:
    if (nic.width or 0) >= (nic.max_width or 0) and (nic.speed or 0.0) >= (nic.max_speed or 0.0):
        return ""
    return f"the board could do {link(nic.max_width, nic.max_speed)}"


def says(nic: PciDevice, status: Status, reason: str, message: str, wish: LinkWish) -> Verdict:
    wanted = link(wish.width.value if wish.width else None, wish.speed.value if wish.speed else None)
    seen = link(field_of(nic, "width"), field_of(nic, "speed"))
    return Verdict(nic.subject, status, reason, message, None, seen, wanted)


CHECK = Check(
    id="pci.link",
    question="Does every NIC have the PCIe lanes and speed that it should have?",
    why="A link that trained down to half its lanes halves the rail, and a collective runs at its slowest rail's pace.",
    fix="Drain the node; reseat board and riser, then compare lspci -vv -s {place} (LnkSta, LnkCap) with a good "
    "sibling.",
    reasons=(
        Reason("BelowPortRate", Status.FAIL),
        Reason(
            "BelowPortRate",
            Status.WARN,
            "Compare lspci -vv -s {place} (LnkSta, LnkCap) with a good sibling: if that has more, drain the node and "
            "reseat board and riser; if not, move the board to a wider slot.",
        ),
        Reason("Degraded", Status.WARN, against_likes=True),
        Reason("AsExpected", Status.OK),
    ),
    source="Linux drivers/pci/pci.c (pcie_print_link_status); facebookresearch/gcm check_pci",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Pci, Rdma, Expected),
    uses=(System, Links),
    after=("pci.answers",),
    judge=judge,
)
