"""Does every RDMA port speak the link layer that is expected of it?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Unreadable, Verdict, raw

PEERS = 4  # of the same card; with fewer, one that differs may be meant to


def judge(seen: Seen) -> Iterator[Verdict]:
    expected, ports = seen[Expected], seen[Rdma].ports
    yield from seen.each(ports, lambda port: verdict(port, expected, ports))


def verdict(port: Port, expected: Expected, ports: tuple[Port, ...]) -> Verdict | None:
    if expected.of(port) is None and isinstance(raw(port)["layer"], Unreadable):
        return None
    shows = f"{port.where} speaks {port.layer}"
    wanted = expected.port(port, lambda want: want.layer)
    if wanted is not None and port.layer != wanted.value:
        message = (
            f"{shows}; {wanted.value} is wanted by {wanted.by}: the card is in the other mode (mlxconfig LINK_TYPE_P)"
        )
        return Verdict(port.subject, Status.FAIL, "WrongLayer", message, observed=port.layer, expected=wanted.value)
    peers = [other for other in ports if other.hardware == port.hardware and other.subject != port.subject]
    if wanted is None and is_odd_one_out(port, peers):
        layer = peers[0].layer
        message = f"{shows} and is not ACTIVE; its {len(peers)} likes speak {layer} and are: in the wrong mode?"
        return Verdict(port.subject, Status.WARN, "OddLayer", message, observed=port.layer, expected=layer)
    return Verdict(
        port.subject, Status.OK, "Layer", shows, observed=port.layer, expected=wanted.value if wanted else ""
    )


def is_odd_one_out(port: Port, peers: list[Port]) -> bool:
    layers = {raw(other)["layer"] for other in peers}
    return (
        bool(port.hardware)
        and len(peers) + 1 >= PEERS
        and len(layers) == 1
        and not isinstance(next(iter(layers)), Unreadable)
        and port.layer not in layers
        and not inventory.is_active(port)
        and all(map(inventory.is_active, peers))
    )


CHECK = Check(
    id="port.layer",
    question="Does every RDMA port speak the link layer that is expected of it?",
    why="A card that came back from repair in Ethernet mode may have a link, but no way into the InfiniBand fabric.",
    fix="mlxconfig -d {place} set LINK_TYPE_P1=1 (InfiniBand) or 2 (Ethernet), so that it speaks {expected}; then "
    "reset the card or reboot.",
    reasons=(
        Reason("WrongLayer", Status.FAIL),
        Reason("OddLayer", Status.WARN, against_likes=True),
        Reason("Layer", Status.OK),
    ),
    source="Linux drivers/infiniband/core/sysfs.c link_layer_show; facebookresearch/gcm (critical)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, Expected),
    after=("port.present",),
    judge=judge,
)
