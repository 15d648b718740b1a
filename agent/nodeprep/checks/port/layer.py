"""Does every RDMA port speak the link layer that is expected of it?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected import kinds
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.expected.kinds import Member, Role
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Unreadable, Verdict, raw

PEERS = 4  # ports of one model; with fewer, one that is up and differs may be meant to
OTHER_MODE = (
    "mlxconfig -d {place} set LINK_TYPE_P1=1 (InfiniBand) or 2 (Ethernet), so that it speaks {expected}; then reset "
    "the card or reboot. If it is meant to differ, capture a profile."
)


def judge(seen: Seen) -> Iterator[Verdict]:
    expected = seen[Expected]
    yield from seen.each(seen[Rdma].ports, lambda port: verdict(port, expected))


def verdict(port: Port, expected: Expected) -> Verdict | None:
    if expected.of(port) is None and isinstance(raw(port)["layer"], Unreadable):
        return None
    shows = f"{port.where} speaks {port.layer}"
    wanted = expected.port(port, lambda want: want.layer)
    if wanted is not None and port.layer != wanted.value:
        message = (
            f"{shows}; {wanted.value} is wanted by {wanted.by}: the card is in the other mode (mlxconfig LINK_TYPE_P)"
        )
        return Verdict(port.subject, Status.FAIL, "WrongLayer", message, observed=port.layer, expected=wanted.value)
    member = expected.kinds.of(port) if wanted is None and expected.by_kind else None
    odd = of_its_model(port, member, expected) if member is not None else None
    return odd or Verdict(
        port.subject, Status.OK, "Layer", shows, observed=port.layer, expected=wanted.value if wanted else ""
    )


def of_its_model(port: Port, member: Member, expected: Expected) -> Verdict | None:
    """A port that speaks another layer than the others of its model: FAIL if its card is dead by it."""
    found, mine = expected.kinds, member.kind
    place = (mine.model, mine.function, mine.number)
    models = [one for one in found.by_kind if (one.model, one.function, one.number) == place]
    camps: dict[str, list[Member]] = {}
    for kind in models:
        if kind.layer is not None:
            camps.setdefault(kind.layer, []).extend(found.by_kind[kind])
    used = {layer for layer, camp in camps.items() if any(one.role is Role.RAIL for one in camp)}
    said = expected.counted_layer
    right = said if said in used else max(camps, key=lambda one: rank(camps[one]))
    dead = not any(one.live for one in found.members if one.card == member.card)
    few = sum(len(found.by_kind[kind]) for kind in models) < PEERS
    if port.layer == right or not mine.hardware or mine.software or (few and not dead):
        return None
    message = (
        f"{port.where} speaks {port.layer}; of its model {kinds.names(camps[right])} speak {right}: in the wrong mode?"
    )
    status = Status.FAIL if dead and right in used else Status.WARN
    return Verdict(port.subject, status, "OddLayer", message, observed=port.layer, expected=right)


def rank(camp: list[Member]) -> tuple[int, int]:
    return (sum(one.live for one in camp), len(camp))


CHECK = Check(
    id="port.layer",
    question="Does every RDMA port speak the link layer that is expected of it?",
    why="A card that came back from repair in Ethernet mode may have a link, but no way into the InfiniBand fabric.",
    fix="mlxconfig -d {place} set LINK_TYPE_P1=1 (InfiniBand) or 2 (Ethernet), so that it speaks {expected}; then "
    "reset the card or reboot.",
    reasons=(
        Reason("WrongLayer", Status.FAIL),
        Reason("OddLayer", Status.FAIL, OTHER_MODE),
        Reason("OddLayer", Status.WARN, OTHER_MODE, against_likes=True),
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
