"""Does every RDMA port speak the link layer that is expected of it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.facts.expected import kinds
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.expected.kinds import PEERS, Member, Place, Role
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Unreadable, Verdict, raw
from nodeprep.values import Value

# One device of a card sets the modes of both its ports (LINK_TYPE_P1, LINK_TYPE_P2 of mlxconfig).
SET_MODE = (
    "mlxconfig -d {place} set LINK_TYPE_P1 (LINK_TYPE_P2 for the card's second port, function .1) to 1 (InfiniBand) or "
    "2 (Ethernet), so that it speaks {expected}; then reset the card or reboot."
)
OTHER_MODE = f"{SET_MODE} If it is meant to differ, capture a profile."


class Model(Value):
    """What the `count` ports of one model and place on their cards speak.

    `right` is what they should, "" where nothing says it. `camps` are the names of those that speak each. `used` is
    whether rails speak what is right, or any of the camps where nothing says which. `ranks` are how many of each camp
    are live, and how many there are.
    """

    count: int
    right: str
    camps: Mapping[str, str]
    used: bool
    ranks: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, camps: Mapping[str | None, list[Member]], wanted: str | None, for_jobs: frozenset[str]) -> Model:
        """`wanted` is what the profile asks for; else the camp with most live ports is right, if one has most."""
        known = {layer: camp for layer, camp in camps.items() if layer is not None}
        ranks = {layer: rank(camp) for layer, camp in known.items()}
        dead = not any(live for live, _ in ranks.values())
        # A dead spare may be the one in the wrong mode.
        used = {
            layer
            for layer, camp in known.items()
            if any(one.key in for_jobs and (one.live or dead or one.role is Role.RAIL) for one in camp)
        }
        most = max(ranks.values(), default=(0, 0))
        largest = [layer for layer, one in ranks.items() if one == most]
        right = wanted if wanted in used else largest[0] if len(largest) == 1 else ""
        told = {layer: kinds.names(camp) for layer, camp in known.items()}
        return cls(sum(map(len, camps.values())), right or "", told, right in used if right else bool(used), ranks)

    def is_meant(self, layer: str) -> bool:
        """Whether what speaks this layer is meant to: its live ones are as many as the right ones, and most of its own.

        Of fewer than four ports half of them are enough.
        """
        live, count = self.ranks[layer]
        most = 2 * live > count or (self.count < PEERS and 2 * live == count)
        return self.right in self.ranks and live >= self.ranks[self.right][1] and most


def judge(seen: Seen) -> Iterator[Verdict]:
    expected = seen[Expected]
    models = of_models(expected) if expected.by_kind else {}
    yield from seen.each(seen[Rdma].ports, lambda port: verdict(port, models, expected))


def verdict(port: Port, models: Mapping[Place, Model], expected: Expected) -> Verdict | None:
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
    odd = of_its_model(port, member, models[member.kind.place], expected) if member is not None else None
    return odd or Verdict(
        port.subject, Status.OK, "Layer", shows, observed=port.layer, expected=wanted.value if wanted else ""
    )


def of_models(expected: Expected) -> dict[Place, Model]:
    """The ports of one model, function and number by what they speak."""
    camps: dict[Place, dict[str | None, list[Member]]] = {}
    for kind, likes in expected.kinds.by_kind.items():
        camps.setdefault(kind.place, {}).setdefault(kind.layer, []).extend(likes)
    for_jobs = expected.kinds.for_jobs
    return {one: Model.of(found, expected.counted_layer, for_jobs) for one, found in camps.items()}


def of_its_model(port: Port, member: Member, model: Model, expected: Expected) -> Verdict | None:
    """A port that speaks another layer than the others of its model: FAIL if its card is dead by it."""
    dead = not member.live and not expected.kinds.carriers.carry(member.card)
    few = model.count < PEERS
    if (
        port.layer == model.right
        or len(model.camps) < 2
        or not member.kind.hardware
        or member.kind.software
        or (few and not dead)
        or (dead and model.is_meant(port.layer))
    ):
        return None
    status = Status.FAIL if dead and model.used else Status.WARN
    others = sorted(layer for layer in model.camps if layer != port.layer)
    right = model.right or " or ".join(others)
    told = [model.right] if model.right else others
    having = " and ".join(f"{model.camps[one]} speak{'s' if model.ranks[one][1] == 1 else ''} {one}" for one in told)
    why = "in the wrong mode?" if model.right else "which one is in the wrong mode, nothing here says"
    message = f"{port.where} speaks {port.layer}; of its model {having}: {why}"
    return Verdict(port.subject, status, "OddLayer", message, observed=port.layer, expected=right)


def rank(camp: list[Member]) -> tuple[int, int]:
    return (sum(one.live for one in camp), len(camp))


CHECK = Check(
    id="port.layer",
    question="Does every RDMA port speak the link layer that is expected of it?",
    why="A card that came back from repair in Ethernet mode may have a link, but no way into the InfiniBand fabric.",
    fix=SET_MODE,
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
