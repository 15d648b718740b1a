"""What NICs of one PCI id have in common: the driver that most have, and whether they are made for RDMA."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from nodeprep.facts.expected.kinds import HANDING_ON
from nodeprep.facts.machine.pci import UNNAMED, Pci, PciDevice
from nodeprep.model import grouped, raw
from nodeprep.values import Value


class LikeNics(Value):
    """NICs of one id. `usual` is the driver that most have, `bound` are those that have one for our use.

    `offer`: one of them shows that it is made for RDMA, or no NIC of the node does.
    """

    usual: str | None = None
    bound: tuple[PciDevice, ...] = ()
    offer: bool = False


def by_id(nics: Iterable[PciDevice], pci: Pci) -> dict[object, LikeNics]:
    """These NICs by their id. "" stands for those that show none: nothing is like them."""
    none_offers = not any(one.offers_rdma for one in pci.nics)
    found = grouped(nics, lambda nic: raw(nic)["id"])
    return {known: _of(likes if known else (), none_offers) for known, likes in ({"": ()} | found).items()}


def _of(likes: tuple[PciDevice, ...], none_offers: bool) -> LikeNics:
    bound = tuple(one for one in likes if one.driver and one.driver not in HANDING_ON)
    usual = Counter(one.driver for one in bound if one.driver != UNNAMED).most_common(1)
    return LikeNics(usual[0][0] if usual else None, bound, none_offers or any(one.offers_rdma for one in likes))
