"""Has every RoCE rail an address that routers carry?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.expected import inventory, soundness
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.gid import ROCE_V2
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.link_layers import ETHERNET
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Unreadable, Verdict
from nodeprep.shown import field_of
from nodeprep.values import Value

ADDRESS_AGAIN = (
    "Give the rail's netdev its IP address again, and take the old one away (ip address); if the GID stays, set the "
    "netdev down and up while no job uses it."
)
IWARP = "4"  # RDMA_NODE_RNIC (include/rdma/ib_verbs.h): its one GID is made of its MAC


class GidContext(Value):
    """The facts that one port is held against; `links` is None where a tree does not show them."""

    expected: Expected
    rdma: Rdma
    links: Links | None


def judge(seen: Seen) -> Iterator[Verdict]:
    node = GidContext(seen[Expected], seen[Rdma], seen.get(Links))
    yield from seen.each(filter(inventory.may_be_active, node.rdma.ports), lambda port: verdict(port, node))


def verdict(port: Port, node: GidContext) -> Verdict | None:
    wanted_by = who_wants(port, node)
    if wanted_by is None or port.gids is None or not is_roce(port, node.rdma):
        return None
    shows, wants = f"{port.where} ({port.netdev or 'no netdev'})", f"one is wanted by {wanted_by}"
    # Of two ports of a card one may have no address: the card still carries the job's traffic.
    status = Status.FAIL if node.expected.of(port) is not None else Status.WARN
    # An unreadable entry matters only where no readable entry fits: then reading it raises.
    routable = [gid for gid in port.gids if gid.readable and gid.routable] or [gid for gid in port.gids if gid.routable]
    if not routable:
        message = (
            f"{shows} has no GID made of a routable address; {wants}: ip address show {port.netdev or ''}".rstrip()
        )
        return Verdict(port.subject, status, "NoRoutableGid", message, remedy(port, node))
    second = [gid for gid in routable if gid.kind in (ROCE_V2, None)]
    if not second:
        message = f"{shows} has routable GIDs of RoCE v1 only, which no router carries; {wants} of RoCE v2"
        about = {"device": port.device}
        return Verdict(port.subject, Status.WARN, "OnlyRoceV1", message, None, "IB/RoCE v1", ROCE_V2, args=about)
    fresh = [gid for gid in second if soundness.is_fresh(gid, port, node.links)]
    if not fresh:
        stale = ", ".join(f"GID {gid.index} {gid.address}" for gid in second)
        message = f"{shows} shows {stale}, no address of its netdev any more; {wants}: ip address show"
        return Verdict(port.subject, status, "StaleGid", message, remedy(port, node))
    first = next((gid for gid in fresh if gid.ipv4), fresh[0])
    message = f"{shows}: GID {first.index} is {first.address}; NCCL_IB_GID_INDEX={first.index}"
    return Verdict(port.subject, Status.OK, "RoutableGid", message, observed=str(first.index))


def is_roce(port: Port, rdma: Rdma) -> bool:
    device = rdma.device(port.device)
    node_type = field_of(device, "node_type") if device else None
    if device is not None and isinstance(node_type, Unreadable):
        # iWARP has no entry of RoCE v2. Where there is none either, reading the node type raises.
        node_type = "" if any(gid.kind == ROCE_V2 for gid in port.gids or ()) else device.node_type
    return port.layer == ETHERNET and not (node_type or "").startswith(IWARP)


def who_wants(port: Port, node: GidContext) -> str | None:
    """Who needs a routable GID here. A profile that was captured without one needs none."""
    if port.subject.key in node.expected.firm:
        want = node.expected.port(port, lambda want: want.gid)
        return want.by if want and want.value else None
    # The addresses of a bond show up on one of its legs, and not always on the same.
    bonded = node.links is not None and node.links.bond_of(port.netdev, port.bdf) is not None
    return None if bonded else node.expected.of_use(port)


def remedy(port: Port, node: GidContext) -> Remedy | None:
    """A remedy for Elastic RDMA interfaces only: the cloud knows their address."""
    device = node.rdma.device(port.device)
    if device is None or device.id != VENDOR_DEVICE or not port.netdev:
        return None
    return Remedy("eri_netdev_up", {"interface": port.netdev})


CHECK = Check(
    id="port.gid",
    question="Has every RoCE rail an address that routers carry?",
    why="Without a routable GID, queue pairs reach no other subnet: NCCL fails to connect on a port that looks fine.",
    fix="Give the rail's netdev its IP address (DHCP, CNI or cloud configuration); the kernel makes the GID of it. If "
    "{name} is not a rail: nodeprep profile capture --accept port.gid@{name}.",
    reasons=(
        Reason("NoRoutableGid", Status.FAIL),
        Reason("NoRoutableGid", Status.WARN),
        Reason(
            "OnlyRoceV1",
            Status.WARN,
            "Let the driver offer RoCE v2 (cma_roce_mode -d {device} -m 2; firmware with RoCE v2), or start the job "
            "with a GID index that its peers have too.",
        ),
        Reason("StaleGid", Status.FAIL, ADDRESS_AGAIN),
        Reason("StaleGid", Status.WARN, ADDRESS_AGAIN),
        Reason("RoutableGid", Status.OK),
    ),
    source="Linux drivers/infiniband/core/{cache,roce_gid_mgmt}.c; NCCL_IB_GID_INDEX",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Rdma, Expected),
    uses=(Links,),
    after=("port.state", "port.netdev"),
    remedies=("eri_netdev_up",),
    judge=judge,
)
