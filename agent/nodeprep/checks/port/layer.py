"""Does every RDMA port speak the link layer that is expected of it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Unreadable, Verdict, grouped, raw
from nodeprep.values import Value

PEERS = 4  # of the same card; with fewer, one that differs may be meant to


class LayerPeers(Value):
    """Ports on the same kind of card: how many, how many of them ACTIVE, and the layers that they speak."""

    count: int
    active: int
    layers: Mapping[object, int]

    @classmethod
    def of(cls, ports: tuple[Port, ...]) -> LayerPeers:
        return cls(len(ports), sum(map(inventory.is_active, ports)), Counter(raw(port)["layer"] for port in ports))


def judge(seen: Seen) -> Iterator[Verdict]:
    expected, ports = seen[Expected], seen[Rdma].ports
    likes = {hardware: LayerPeers.of(found) for hardware, found in grouped(ports, lambda port: port.hardware).items()}
    yield from seen.each(ports, lambda port: verdict(port, expected, likes[port.hardware]))


def verdict(port: Port, expected: Expected, likes: LayerPeers) -> Verdict | None:
    if expected.of(port) is None and isinstance(raw(port)["layer"], Unreadable):
        return None
    shows = f"{port.where} speaks {port.layer}"
    wanted = expected.port(port, lambda want: want.layer)
    if wanted is not None and port.layer != wanted.value:
        message = (
            f"{shows}; {wanted.value} is wanted by {wanted.by}: the card is in the other mode (mlxconfig LINK_TYPE_P)"
        )
        return Verdict(port.subject, Status.FAIL, "WrongLayer", message, observed=port.layer, expected=wanted.value)
    layer = odd_one_out(port, likes) if wanted is None else None
    if layer is not None:
        message = f"{shows} and is not ACTIVE; its {likes.count - 1} likes speak {layer} and are: in the wrong mode?"
        return Verdict(port.subject, Status.WARN, "OddLayer", message, observed=port.layer, expected=layer)
    return Verdict(
        port.subject, Status.OK, "Layer", shows, observed=port.layer, expected=wanted.value if wanted else ""
    )


def odd_one_out(port: Port, likes: LayerPeers) -> str | None:
    """The layer that all its likes speak and are ACTIVE by, where it speaks another and is not."""
    if not port.hardware or likes.count < PEERS or inventory.is_active(port) or likes.active != likes.count - 1:
        return None
    layers = [layer for layer, count in likes.layers.items() if count > (layer == port.layer)]
    return layers[0] if len(layers) == 1 and isinstance(layers[0], str) and layers[0] != port.layer else None


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
