"""Finds a profile's bonds again on a node: by the PCI functions of their legs, and only without legs by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from nodeprep.facts.network.links import Link, Links
from nodeprep.job_profile import BondWant, Expectation
from nodeprep.model import Subject
from nodeprep.values import Value


class ExpectedLeg(Value):
    """One leg that a profile names. `place` is where it is on this node: a PCI address, or its netdev.

    `interface` is its netdev now, "" if it has none. `joined`: it is a leg of its bond now.
    """

    place: str
    interface: str
    joined: bool


class ExpectedBond(Value):
    """One bond that a profile names. `name` is its name there, `now` its name on this node, None if it is gone."""

    name: str
    want: BondWant
    now: str | None
    legs: tuple[ExpectedLeg, ...]

    @property
    def subject(self) -> Subject:
        return Subject(self.now or self.name, None, self.now or self.name)


def find(expect: Expectation, devices: Mapping[str, str], links: Links | None) -> tuple[ExpectedBond, ...]:
    """The profile's bonds on this node. `devices` are the places of its devices here, by their place in the profile.

    A bond is the one that has most of the legs. One bond of the node stands for one bond of the profile. Where no links
    are shown, no bond is expected.
    """
    if links is None or not expect.bonds:
        return ()
    here: dict[str, list[Link]] = {}
    for link in links.links:
        here.setdefault(link.bdf or link.name, []).append(link)
    for gone in expect.devices.keys() - devices.keys():
        here.pop(gone, None)  # on a sibling with other addresses another device may be there
    places = {name: tuple(_place(leg, expect, devices) for leg in want.legs) for name, want in expect.bonds.items()}
    now = _by_legs(places, here, links)
    for name, want in expect.bonds.items():
        named = links.named(name)
        if not want.legs and named is not None and named.is_bond and name not in now.values():
            now[name] = name
    return tuple(
        ExpectedBond(name, want, now.get(name), _legs(places[name], now.get(name), here))
        for name, want in expect.bonds.items()
    )


def _place(leg: str, expect: Expectation, devices: Mapping[str, str]) -> str:
    """Where a leg is here. A function without an RDMA device, as in a RoCE LAG, moves with the other of its card."""
    if leg in expect.devices:
        return devices.get(leg, leg)
    card, _, function = leg.rpartition(".")
    place = next((place for key, place in sorted(devices.items()) if key.rpartition(".")[0] == card), "")
    return f"{place.rpartition('.')[0]}.{function}" if ":" in place else leg


def _by_legs(places: Mapping[str, tuple[str, ...]], here: Mapping[str, list[Link]], links: Links) -> dict[str, str]:
    """The bonds that have the most legs first; of two with as many, the one that has the first leg."""
    bonds = {link.name for link in links.links if link.is_bond}
    pairs = []
    for name, legs in places.items():
        masters = [link.master for place in legs for link in here.get(place, ()) if link.master in bonds]
        pairs += [(-count, masters.index(master), legs, name, master) for master, count in Counter(masters).items()]
    now: dict[str, str] = {}
    for *_, name, master in sorted(pairs, key=lambda pair: pair[:3]):
        if name not in now and master not in now.values():
            now[name] = master
    return now


def _legs(places: tuple[str, ...], bond: str | None, here: Mapping[str, list[Link]]) -> tuple[ExpectedLeg, ...]:
    """A function may have several netdevs, as that of a card with two ports: each stands for one leg."""
    free = {place: sorted(here.get(place, ()), key=lambda link: link.master != bond) for place in places}
    legs = []
    for place in places:
        link = free[place].pop(0) if free[place] else None
        joined = link is not None and link.master is not None and link.master == bond
        legs.append(ExpectedLeg(place, link.name if link is not None else "", joined))
    return tuple(legs)
