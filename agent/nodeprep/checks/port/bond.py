"""Has every bond under RDMA ports all its legs?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    links, bonds = seen[Links], dict[str, tuple[Link, list[str]]]()
    for port in seen[Rdma].ports:
        # RoCE LAG hangs one RDMA device on the first leg and calls it mlx5_bond_0: the netdev leads to the bond.
        bond = links.bond_of(port.netdev, port.bdf)
        if bond is not None:
            _, askers = bonds.setdefault(bond.name, (bond, []))
            askers += filter(None, [seen[Expected].of_bond(port)])
    wanted = {name: askers[0] if askers else None for name, (_, askers) in bonds.items()}
    yield from seen.each([bond for bond, _ in bonds.values()], lambda bond: verdict(bond, wanted[bond.name], links))


def verdict(bond: Link, wanted_by: str | None, links: Links) -> Verdict | None:
    legs = links.legs(bond.name)
    if not legs and links.addresses is None and bond.connected:
        return None  # a dead tree that does not record the masters of links
    shows = f"bond {bond.name}: " + (", ".join(f"{leg.name} {leg.operstate}" for leg in legs) or "no legs")
    up = [leg for leg in legs if leg.connected]
    told = f"{len(up)} of {len(legs)}"
    if legs and len(up) == len(legs):
        return Verdict(bond.subject, Status.OK, "AllLegs", shows, observed=told)
    if up:
        message = (
            f"{shows}; {told} legs have a carrier: the bond has lost bandwidth and its spare; see cable, switch port"
        )
        return Verdict(bond.subject, Status.WARN, "LegDown", message, observed=told, expected="all")
    if wanted_by is None:
        message = f"{shows}; no leg has a carrier, and nothing asks for the RDMA port on it"
        return Verdict(bond.subject, Status.WARN, "NoLegUnneeded", message, observed=told, expected="all")
    see = f"cat /proc/net/bonding/{bond.name}"
    message = f"{shows}; no leg has a carrier; the RDMA port on it is wanted by {wanted_by}: {see}"
    return Verdict(bond.subject, Status.FAIL, "NoLeg", message, observed=told, expected="all")


CHECK = Check(
    id="port.bond",
    question="Has every bond under RDMA ports all its legs?",
    why="A bond with one leg still looks up, at half its bandwidth, and the next fault takes the rail away.",
    fix="cat /proc/net/bonding/{name} names the leg: its cable, transceiver and switch port; LACP on the switch; ip "
    "link set LEG up.",
    reasons=(
        Reason("AllLegs", Status.OK),
        Reason("LegDown", Status.WARN),
        Reason("NoLegUnneeded", Status.WARN),
        Reason("NoLeg", Status.FAIL),
    ),
    source="Linux Documentation/networking/bonding.rst; Alibaba Cloud Lingjun (both slaves up)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, Links, Expected),
    judge=judge,
)
