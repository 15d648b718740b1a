"""What a job's traffic is addressed to: a port, or a bond with the ports that share it."""

from __future__ import annotations

from nodeprep.facts.expected import inventory, kinds, soundness
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.expected.kinds import PEERS
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Subject
from nodeprep.values import Value


class AddressWant(Value):
    """Who wants an address. `firm`: a job fails without it, and the card has no other port that carries its traffic."""

    by: str
    firm: bool


class RdmaEndpoint(Value):
    """One port, or a bond with its live ports, of which one that has an address is enough.

    The addresses of a bond show up on one of its legs or on all, and after a fail-over on another. `shows` is how a
    message begins. `bond` is None for a port of its own.
    """

    subject: Subject
    shows: str
    netdev: str | None
    ports: tuple[Port, ...]
    bond: str | None = None


def find(expected: Expected, rdma: Rdma, links: Links | None) -> list[RdmaEndpoint]:
    """The ports that may be ACTIVE, those of a bond together."""
    found = list[RdmaEndpoint]()
    bonded = dict[str, tuple[Link, list[Port]]]()
    for port in filter(inventory.may_be_active, rdma.ports):
        bond = links.bond_of(port.netdev, port.bdf) if links is not None else None
        if bond is not None and not soundness.may_be_live(port):
            continue  # what it shows is of no use: the other legs carry the traffic
        if bond is None or _wants_own(port, expected):
            shows = f"{port.where} ({port.netdev or 'no netdev'})"
            found.append(RdmaEndpoint(port.subject, shows, port.netdev, (port,)))
            continue
        bonded.setdefault(bond.name, (bond, []))[1].append(port)
    return [*found, *(_of_bond(bond, tuple(ports)) for bond, ports in bonded.values())]


def who_wants(endpoint: RdmaEndpoint, expected: Expected) -> AddressWant | None:
    """Who needs a routable GID here. A profile that was captured without one needs none."""
    bond = next((one for one in expected.bonds if one.now == endpoint.bond), None) if endpoint.bond else None
    if bond is not None and bond.want.gid is not None:
        return AddressWant(expected.by, firm=True) if bond.want.gid else None
    port = endpoint.ports[0]
    if any(one.subject.key in expected.firm for one in endpoint.ports):
        return AddressWant(expected.by, expected.of(port) is not None) if _wants_own(port, expected) else None
    ask = expected.of if endpoint.bond is None else expected.of_bond
    asked = endpoint.ports if expected.counted_firm or not _is_the_odd_one(port, expected) else ()
    firm = next((by for one in asked if (by := ask(one)) is not None), None)
    by = firm or next((by for one in endpoint.ports if (by := expected.of_use(one)) is not None), None)
    return AddressWant(by, firm is not None) if by is not None else None


def _of_bond(bond: Link, ports: tuple[Port, ...]) -> RdmaEndpoint:
    shows = f"bond {bond.name} ({kinds.listed([port.name for port in ports])})"
    return RdmaEndpoint(bond.subject, shows, bond.name, ports, bond.name)


def _is_the_odd_one(port: Port, expected: Expected) -> bool:
    """Whether it alone speaks this network, of four or more ports of its model and place: port.layer warns of it."""
    member = expected.kinds.of(port)
    if member is None:
        return False
    kind = member.kind
    alike = [one for other, likes in expected.kinds.by_kind.items() if other.place == kind.place for one in likes]
    return len(alike) >= PEERS and [one.key for one in alike if one.kind.layer == kind.layer] == [member.key]


def _wants_own(port: Port, expected: Expected) -> bool:
    """Whether a profile wants it on this very port."""
    want = expected.port(port, lambda want: want.gid)
    return want is not None and want.value
