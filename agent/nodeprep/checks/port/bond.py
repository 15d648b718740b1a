"""Has every bond under RDMA ports all its legs?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected import soundness
from nodeprep.facts.expected.bonds import ExpectedBond, ExpectedLeg
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict
from nodeprep.values import Value

SEE_BOND = "cat /proc/net/bonding/{name}: LACP, min_links; ip link set {name} up."


class Bond(Value):
    """A bond of this node. `wanted_by` wants a carrier on it. `named` is what the profile says of it.

    `dead` are the legs whose own RDMA port is not live: a sign that stands where no netdev of theirs is shown.
    """

    link: Link
    wanted_by: str | None
    dead: frozenset[str]
    named: ExpectedBond | None = None

    @property
    def subject(self) -> Subject:
        return self.link.subject


def judge(seen: Seen) -> Iterator[Verdict]:
    expected = seen[Expected]
    for known in expected.bonds:
        seen[Links].require_all()
        yield from (left(leg, known, expected.by) for leg in known.legs if not leg.joined)
        if known.now is None:
            yield dissolved(known, seen[Links], expected.by)
    yield from seen.each(bonds(seen), lambda bond: verdict(bond, seen))


def bonds(seen: Seen) -> list[Bond]:
    """The bonds that the profile names and the node has, and the others that carry the traffic of an RDMA port."""
    links, expected = seen[Links], seen[Expected]
    named = {bond.now or bond.name: bond for bond in expected.bonds}
    ports = dict[str, list[Port]]()
    for port in seen[Rdma].ports:
        # RoCE LAG hangs one RDMA device on the first leg and calls it mlx5_bond_0: the netdev leads to the bond.
        bond = links.bond_of(port.netdev, port.bdf)
        if bond is not None:
            ports.setdefault(bond.name, []).append(port)
    found = []
    for name in dict.fromkeys((*ports, *(bond.now for bond in expected.bonds if bond.now))):
        link, known = links.named(name), named.get(name)
        if link is None or (known is not None and known.now is None):
            continue
        askers = [by for port in ports.get(name, []) if (by := expected.of_bond(port)) is not None]
        if known is not None and known.want.carrier:
            askers.append(expected.by)
        found.append(Bond(link, askers[0] if askers else None, dead(ports.get(name, []), links), known))
    return found


def dead(ports: list[Port], links: Links) -> frozenset[str]:
    """The netdevs of those ports of a bond that are not live. One port for the whole bond (RoCE LAG) is no leg's."""
    own = ports if len(ports) > 1 else []
    found = (links.leg_of(port.netdev, port.bdf) for port in own if not soundness.may_be_live(port))
    return frozenset(link.name for link in found if link is not None)


def verdict(bond: Bond, seen: Seen) -> Verdict | None:
    links, name = seen[Links], bond.link.name
    legs = links.legs(name)
    if not legs and links.addresses is None and bond.link.connected:
        return None  # a dead tree that does not record the masters of links
    shows = f"bond {name}: " + (", ".join(f"{leg.name} {leg.operstate}" for leg in legs) or "no legs")
    up = [leg for leg in legs if leg.connected and leg.name not in bond.dead]
    count = max(len(legs), len(bond.named.legs) if bond.named else 0)
    told = f"{len(up)} of {count}"
    if not up and bond.wanted_by is None:
        message = f"{shows}; no leg has a carrier, and nothing asks for the RDMA port on it"
        return Verdict(bond.subject, Status.WARN, "NoLegUnneeded", message, observed=told, expected="all")
    wants = f"the RDMA port on it is wanted by {bond.wanted_by}: cat /proc/net/bonding/{name}"
    if not up:
        message = f"{shows}; no leg has a carrier; {wants}"
        return Verdict(bond.subject, Status.FAIL, "NoLeg", message, observed=told, expected="all")
    if not bond.link.connected:
        status = Status.WARN if bond.wanted_by is None else Status.FAIL
        wants = wants if bond.wanted_by else "nothing asks for the RDMA port on it"
        message = f"{shows}; {told} legs have a carrier, and the bond has none; {wants}"
        return Verdict(bond.subject, status, "NoCarrier", message, observed=bond.link.operstate, expected="up")
    if devices := split(bond, seen[Rdma]):
        message = f"{shows}; one RDMA device for all legs is wanted by {seen[Expected].by}; {devices} are there"
        return Verdict(bond.subject, Status.FAIL, "LagSplit", message, observed=devices, expected="one RDMA device")
    if len(up) == count:
        return Verdict(bond.subject, Status.OK, "AllLegs", shows, observed=told)
    message = f"{shows}; {told} legs have a carrier: the bond has lost bandwidth and its spare; see cable, switch port"
    return Verdict(bond.subject, Status.WARN, "LegDown", message, observed=told, expected="all")


def split(bond: Bond, rdma: Rdma) -> str:
    """The RDMA devices on the legs of a bond that was one RDMA device (RoCE LAG), "" if it still is."""
    if bond.named is None or not bond.named.want.lag:
        return ""
    places = {leg.place for leg in bond.named.legs}
    devices = [device for device in rdma.devices if device.bdf in places and not device.virtual_function]
    return ", ".join(device.where for device in devices) if len(devices) > 1 else ""


def left(leg: ExpectedLeg, bond: ExpectedBond, by: str) -> Verdict:
    """The verdict on a netdev that the profile names as a leg and that is no leg of that bond now."""
    name, wants = bond.now or bond.name, f"{by} wants it as a leg of bond {bond.now or bond.name}"
    about = {"bond": name, "interface": leg.interface} if leg.interface else {"bond": name}
    subject = Subject(leg.place, None, leg.interface or leg.place)
    if not leg.interface:
        message = f"{leg.place} has no netdev here; {wants}: see whether it is on the bus and has its driver"
        return Verdict(subject, Status.FAIL, "LegGone", message, observed="no netdev", expected=name, args=about)
    at = "" if leg.place == leg.interface else f" at {leg.place}"
    message = f"{leg.interface}{at} is no leg of bond {name}; {wants}: ip -d link show {leg.interface}"
    return Verdict(subject, Status.FAIL, "LeftBond", message, observed="no leg", expected=name, args=about)


def dissolved(bond: ExpectedBond, links: Links, by: str) -> Verdict:
    """The verdict on a bond of which no captured leg is left. One of its name may be there without them."""
    legs = ", ".join(leg.place for leg in bond.legs) or "any legs"
    there = links.named(bond.name)
    shows = f"bond {bond.name} " + ("is there without its legs" if there and there.is_bond else "is not there")
    message = f"{shows}; a bond of {legs} is wanted by {by}"
    return Verdict(bond.subject, Status.FAIL, "BondGone", message, observed="none", expected=legs)


CHECK = Check(
    id="port.bond",
    question="Has every bond under RDMA ports all its legs?",
    why="A bond with one leg still looks up, at half its bandwidth, and the next fault takes the rail away.",
    fix="cat /proc/net/bonding/{name} names the leg: its cable, transceiver and switch port; LACP on the switch; ip "
    "link set LEG up.",
    reasons=(
        Reason("AllLegs", Status.OK),
        Reason("LegDown", Status.WARN, against_likes=True),
        Reason("NoLegUnneeded", Status.WARN),
        Reason("NoLeg", Status.FAIL),
        Reason("NoCarrier", Status.FAIL, SEE_BOND),
        Reason("NoCarrier", Status.WARN, SEE_BOND, against_likes=True),
        Reason(
            "LeftBond",
            Status.FAIL,
            "ip link set {interface} down && ip link set {interface} master {bond}, and the same in the network "
            "configuration.",
        ),
        Reason("LegGone", Status.FAIL, "lspci -nnk -s {place}, and dmesg | grep {place}."),
        Reason(
            "BondGone",
            Status.FAIL,
            "Apply the network configuration that makes {name} of {expected}.",
        ),
        Reason("LagSplit", Status.FAIL, "dmesg | grep -i lag says why; set {name} down and up while no job uses it."),
    ),
    source="Linux Documentation/networking/bonding.rst; Alibaba Cloud Lingjun (both slaves up)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, Links, Expected),
    after=("pci.expected-nic", "pci.answers", "pci.driver-bound"),
    judge=judge,
)
