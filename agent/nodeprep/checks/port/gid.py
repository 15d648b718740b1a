"""Has every RoCE rail an address that routers carry?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.expected import endpoints, soundness
from nodeprep.facts.expected.endpoints import RdmaEndpoint
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.gid import ROCE_V2
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.link_layers import ETHERNET
from nodeprep.model import (
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
)
from nodeprep.shown import field_of
from nodeprep.values import Value

ADDRESS_AGAIN = (
    "Give the rail's netdev its IP address again, and take the old one away (ip address); if the GID stays, set the "
    "netdev down and up while no job uses it."
)
IWARP = "4"  # RDMA_NODE_RNIC (include/rdma/ib_verbs.h): its one GID is made of its MAC


class GidContext(Value):
    """The facts that an endpoint is held against; `links` is None where a tree does not show them."""

    expected: Expected
    rdma: Rdma
    links: Links | None


def judge(seen: Seen) -> Iterator[Verdict]:
    node = GidContext(seen[Expected], seen[Rdma], seen.get(Links))
    found = endpoints.find(node.expected, node.rdma, node.links)
    yield from seen.each(found, lambda one: verdict(one, node))


def verdict(one: RdmaEndpoint, node: GidContext) -> Verdict | None:
    wanted = endpoints.who_wants(one, node.expected)
    ports = [port for port in one.ports if is_roce(port, node.rdma)] if wanted is not None else []
    tables = {port: field_of(port, "gids") for port in ports}
    every = [(port, gid) for port, table in tables.items() if isinstance(table, tuple) for gid in table]
    # An unreadable entry matters only where no readable entry fits: then reading it raises.
    routable = [(port, gid) for port, gid in every if gid.readable and gid.routable]
    routable = routable or [(port, gid) for port, gid in every if gid.routable]
    if wanted is None or not tables:
        return None
    if not routable and any(port.gids is None for port in ports):  # reading a damaged table raises
        return None
    wants = f"one is wanted by {wanted.by}"
    # Of two ports of a card one may have no address: the card still carries the job's traffic.
    status = Status.FAIL if wanted.firm else Status.WARN
    if not routable:
        message = f"{one.shows} has no GID made of a routable address; {wants}: ip address show {one.netdev or ''}"
        return Verdict(one.subject, status, "NoRoutableGid", f"{message.rstrip()}{of_eri(one, node)}")
    second = [(port, gid) for port, gid in routable if gid.kind in (ROCE_V2, None)]
    if not second:
        message = f"{one.shows} has routable GIDs of RoCE v1 only, which no router carries; {wants} of RoCE v2"
        about = {"device": ports[0].device}
        return Verdict(one.subject, Status.WARN, "OnlyRoceV1", message, None, "IB/RoCE v1", ROCE_V2, args=about)
    fresh = [(port, gid) for port, gid in second if soundness.is_fresh(gid, port, node.links)]
    if not fresh:
        stale = ", ".join(f"GID {gid.index} {gid.address}" for _, gid in second)
        message = f"{one.shows} shows {stale}, no address of its netdev any more; {wants}: ip address show"
        return Verdict(one.subject, status, "StaleGid", f"{message}{of_eri(one, node)}")
    port, first = next(((port, gid) for port, gid in fresh if gid.ipv4), fresh[0])
    on = "" if len(one.ports) == 1 else f" of {port.name}"
    message = f"{one.shows}: GID {first.index}{on} is {first.address}; NCCL_IB_GID_INDEX={first.index}"
    return Verdict(one.subject, Status.OK, "RoutableGid", message, observed=str(first.index))


def is_roce(port: Port, rdma: Rdma) -> bool:
    device = rdma.device(port.device)
    node_type = field_of(device, "node_type") if device else None
    if device is not None and isinstance(node_type, Unreadable):
        # iWARP has no entry of RoCE v2. Where there is none either, reading the node type raises.
        node_type = "" if has_roce_v2(port) else device.node_type
    return port.layer == ETHERNET and not (node_type or "").startswith(IWARP)


def has_roce_v2(port: Port) -> bool:
    table = field_of(port, "gids")
    return isinstance(table, tuple) and any(gid.kind == ROCE_V2 for gid in table)


def of_eri(one: RdmaEndpoint, node: GidContext) -> str:
    """Who gives an Elastic RDMA interface its address: no playbook, for only the cloud knows it."""
    device = node.rdma.device(one.ports[0].device)
    if device is None or device.id != VENDOR_DEVICE:
        return ""
    return "; erdma-controller's agent (Terway, where it serves eRDMA) sets it when its pod starts: eni.eri-address"


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
    after=("port.state", "port.netdev", "port.bond"),
    judge=judge,
)
