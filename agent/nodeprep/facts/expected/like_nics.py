"""What the NICs of one PCI id have in common, gone over once for a node: their drivers, and whether they offer RDMA."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nodeprep.facts.expected.kinds import HANDING_ON
from nodeprep.facts.machine.pci import UNNAMED, Pci, PciDevice
from nodeprep.model import grouped, raw
from nodeprep.values import Value


class LikeNics(Value):
    """Physical NICs of one id. `usual` is the driver that most have, `bound` are those that have one for our use.

    `offer`: one of them shows that it is made for RDMA, or no NIC of the node does.
    """

    usual: str | None = None
    bound: tuple[PciDevice, ...] = ()
    offer: bool = False


LikesOf = Callable[[PciDevice], LikeNics]


def of(pci: Pci) -> LikesOf:
    """A function that gives the NICs with a NIC's id, itself included. It raises for an id that cannot be read."""
    none_offers = not any(one.offers_rdma for one in pci.nics)
    by_id = grouped((one for one in pci.nics if not one.virtual_function), lambda one: raw(one)["id"])
    known = {id_: _of_one_id(nics, none_offers) for id_, nics in by_id.items() if id_}
    nameless = LikeNics(offer=none_offers)
    return lambda nic: known.get(nic.id, nameless)


def _of_one_id(nics: tuple[PciDevice, ...], none_offers: bool) -> LikeNics:
    bound = tuple(one for one in nics if one.driver and one.driver not in HANDING_ON)
    usual = Counter(one.driver for one in bound if one.driver != UNNAMED).most_common(1)
    return LikeNics(usual[0][0] if usual else None, bound, none_offers or any(one.offers_rdma for one in nics))
