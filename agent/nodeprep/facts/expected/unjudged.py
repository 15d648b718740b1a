"""What nothing on a node can judge, for the header of a report: all alike, or nobody's port (docs/adr/0030)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.expected.kinds import Member, Role
from nodeprep.facts.expected.soundness import RUNNING
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.facts.network.links import Link, Links
from nodeprep.link_layers import INFINIBAND
from nodeprep.shown import field_of

NOTHING_SAYS = "nothing here says what"
# A spare is one whose card another port carries. Of a dead card a rail is blamed, and its other ports are no spares.
NOT_NEEDED = (SPARE, OTHER, FRONT_END) = (
    "spare port{s} down",
    "other port{s} of dead cards down",
    "front-end port{s} down",
)
SINGULAR = {"run": "runs", "have": "has"}


def told(expected: Expected, pci: Pci | None, links: Links | None) -> Iterator[str]:
    """One sentence for each thing. Where a rail is down, it may have been the good one: then the others are named."""
    if not expected.by_kind:
        return
    nics = {nic.address: nic for nic in (pci.nics if pci else ())}
    alike: dict[tuple[str, str], list[Member]] = {}
    for likes in expected.kinds.by_kind.values():
        judged, what = [one for one in likes if one.role is Role.RAIL], "rails"
        if not judged:
            judged, what = [one for one in likes if expected.of_key(one.key)], "counted ports"
        if not judged and any(one.leg and not one.live for one in likes):
            # A leg that is down is its bond's: no mixture names the others.
            judged, what = list(likes), "front-end ports"
        for shows in _shown([one for one in judged if one.live], expected, nics, links):
            alike.setdefault((what, shows), []).extend(judged)
    for (what, shows), members in alike.items():
        yield _alike(members, what, shows)
    yield from _idle(expected)
    yield from _ipoib(expected, links)


def _idle(expected: Expected) -> Iterator[str]:
    """Ports that are down, as all of their kind are, and that nobody asks for."""
    idle: dict[str, list[Member]] = {}
    for one in expected.kinds.members:
        if one.role is not Role.RAIL and _is_nobodys(one, expected):
            idle.setdefault(_what(one, expected), []).append(one)
    beside = [one for one in expected.kinds.members if one.live and one.role is not Role.RAIL]
    for what, down in sorted(idle.items(), key=lambda told: NOT_NEEDED.index(told[0])):
        models = {one.kind.model for one in down}
        up = [one for one in beside if one.kind.model in models]
        more = f"; up: {_names(up)}" if up else ""
        yield f"{len(down)} {what.format(s='' if len(down) == 1 else 's')}: {_names(down)}{more}"


def _what(one: Member, expected: Expected) -> str:
    if one.role is Role.FRONT_END:
        return FRONT_END
    return SPARE if expected.kinds.carriers.beside(one) else OTHER


def _alike(members: list[Member], what: str, shows: str) -> str:
    """`shows` is what all live ones of them show, and begins with a verb."""
    live = [one for one in members if one.live]
    if len(live) == 1:
        verb, _, rest = shows.partition(" ")
        who = f"the one of {len(members)} {what} that is up ({live[0].name})"
        who = f"{what.removesuffix('s')} {live[0].name}" if len(members) == 1 else who
        return f"{who} {SINGULAR[verb]} {rest}; {NOTHING_SAYS} it should"
    who = f"{_all(len(live))} {what}" + ("" if len(live) == len(members) else f" that are up ({_names(live)})")
    return f"{who} {shows}; {NOTHING_SAYS} they should"


def _all(number: int) -> str:
    return "both" if number == 2 else f"all {number}"


def _names(members: list[Member]) -> str:
    return ", ".join(one.name for one in members)


def _is_nobodys(one: Member, expected: Expected) -> bool:
    """Whether it is down, as all of its kind are, and nobody asks for it."""
    up = expected.kinds.up.get(one.kind, ())
    return not one.leg and expected.of_key(one.key) is None and all(like.leg for like in up)


def _shown(live: list[Member], expected: Expected, nics: dict[str, PciDevice], links: Links | None) -> Iterator[str]:
    """What live ports of one kind show, all of them the same."""
    rate = _same(live, lambda one: one.rate)
    if rate is not None and expected.counted_rate is None:
        yield f"run at {rate:g} Gb/s"
    ethernet = bool(live) and live[0].kind.layer != INFINIBAND
    mtu = _same(live, lambda one: _mtu(one, links)) if ethernet else None
    width = _same(live, lambda one: _number(nics.get(one.place), "width"))
    speed = _same(live, lambda one: _number(nics.get(one.place), "speed"))
    parts = [f"MTU {mtu:g}" if mtu else "", f"PCIe x{width:g} at {speed:g} GT/s" if width and speed else ""]
    if any(parts):
        yield f"have {' and '.join(filter(None, parts))}"


def _same(members: list[Member], value: Callable[[Member], float | None]) -> float | None:
    """What all of them show, None where they differ or one does not show it."""
    values = {value(one) for one in members}
    return values.pop() if len(values) == 1 else None


def _mtu(one: Member, links: Links | None) -> float | None:
    link = _under(one, links)
    mtu = field_of(link, "mtu") if link is not None else None
    return mtu if isinstance(mtu, int) else None


def _under(one: Member, links: Links | None) -> Link | None:
    return links.under(one.port.netdev, one.port.bdf) if links is not None and one.port is not None else None


def _number(nic: PciDevice | None, name: str) -> float | None:
    value = field_of(nic, name) if nic is not None else None
    return value if isinstance(value, int | float) else None


def _ipoib(expected: Expected, links: Links | None) -> Iterator[str]:
    """InfiniBand rails whose IPoIB interfaces are all down: the rails carry verbs without them."""
    rails = [one for one in expected.kinds.rails if one.kind.layer == INFINIBAND]
    theirs = [link for one in rails if (link := _under(one, links)) is not None]
    down = [link.name for link in theirs if field_of(link, "operstate") not in RUNNING]
    if down and len(down) == len(theirs):
        several = f"interfaces of {_all(len(down))} rails that have one are"
        whose = several if len(down) > 1 else "interface of the rail that has one is"
        yield f"the IPoIB {whose} down: {', '.join(down)}"
