"""port.layer: what a profile states, and the odd one among its likes."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.layer import CHECK
from nodeprep.facts.rdma.rdma import Port
from nodeprep.job_profile import PortWant
from nodeprep.model import Unreadable, Why
from tests.values import expected, port, rdma, say, verdicts, wanted

KEY = "0000:5c:00.0/1"
CARD = "15b3:1021 MT_0000000838"
CUT = Unreadable(Why.MALFORMED, "/sys/class/infiniband/mlx5_3/ports/1/link_layer")
DOWN = "1: DOWN"
ROWS = [
    ("InfiniBand", "InfiniBand", "ok Layer"),
    ("Ethernet", "InfiniBand", "fail WrongLayer"),
    ("InfiniBand", "Ethernet", "fail WrongLayer"),
    ("Unknown", "Ethernet", "fail WrongLayer"),
    ("Ethernet", None, "ok Layer"),
    (CUT, "Ethernet", "unknown CannotLook"),
    (CUT, None, "unknown CannotLook"),
]


@pytest.mark.parametrize(("layer", "asked", "says"), ROWS)
def test_says_what_a_profile_wants(layer: object, asked: str | None, says: str) -> None:
    assert say(CHECK, rdma(port(layer=layer)), expected(firm={KEY: PortWant(layer=asked)})) == says


def test_an_unreadable_layer_of_a_port_that_nobody_wants_is_no_question() -> None:
    assert say(CHECK, rdma(port(layer=CUT)), expected()) == "absent Nothing"
    assert say(CHECK, rdma(port(layer=CUT)), wanted(port(), "8 of 8 alike")) == "unknown CannotLook"


def rail(index: int, layer: str = "InfiniBand", card: str = CARD, **different: Any) -> Port:
    return port(device=f"mlx5_{index}", bdf=f"0000:{index:02x}:00.0", layer=layer, like=f"{card} {layer}", **different)


def of_first(*ports: Port) -> str:
    verdict = verdicts(CHECK, rdma(*ports), expected())[0]
    return f"{verdict.status} {verdict.reason}"


ODD = rail(0, "Ethernet", state=DOWN)
PEERS = (rail(1), rail(2), rail(3))


def test_the_odd_one_of_four_that_is_not_active_is_in_the_wrong_mode_perhaps() -> None:
    assert of_first(ODD, *PEERS) == "warn OddLayer"
    (verdict, *others) = verdicts(CHECK, rdma(ODD, *PEERS), expected())
    assert {other.status for other in others} == {"ok"}
    assert verdict.message == (
        "mlx5_0/1 at 0000:00:00.0 speaks Ethernet and is not ACTIVE; its 3 likes speak InfiniBand and are: "
        "in the wrong mode?"
    )


NORMAL = [
    ("it is in use as it is", (rail(0, "Ethernet"), *PEERS)),
    ("three are too few", (ODD, *PEERS[:2])),
    ("two differ", (ODD, rail(4, "Ethernet", state=DOWN), *PEERS)),
    ("a peer is down too", (ODD, *PEERS, rail(4, state=DOWN))),
    ("other cards", (ODD, *(rail(n, card="15b3:101d MT_1") for n in (1, 2, 3)))),
    ("nothing names the card", (rail(0, "Ethernet", card="", state=DOWN), *(rail(n, card="") for n in (1, 2, 3)))),
    ("it has the same layer", (rail(0, state=DOWN), *PEERS)),
]


@pytest.mark.parametrize("ports", [ports for _, ports in NORMAL], ids=[why for why, _ in NORMAL])
def test_says_nothing_where(ports: tuple[Port, ...]) -> None:
    assert of_first(*ports) == "ok Layer"


def test_a_peer_that_cannot_be_read_has_no_say() -> None:
    blind = [port(device=f"m{n}", bdf=f"0000:1{n}:00.0", layer=CUT, like=CARD) for n in range(3)]
    assert of_first(ODD, *blind) == "ok Layer"


def test_what_the_profile_says_comes_first() -> None:
    wants = expected(firm={ODD.subject.key: PortWant(layer="Ethernet")})
    assert say(CHECK, rdma(ODD, *PEERS), wants).startswith("ok Layer")
