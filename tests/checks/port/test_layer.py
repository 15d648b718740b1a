"""port.layer: what a profile states, and the odd one among its likes."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep import check_round
from nodeprep.checks.port import state
from nodeprep.checks.port.layer import CHECK
from nodeprep.facts.rdma.rdma import Port
from nodeprep.job_profile import AtLeast, Expectation, PortWant, Profile
from nodeprep.model import Unreadable, Why
from tests.machines import SHAPES, STATES
from tests.values import by_kind, expected, nic, pci, port, rdma, say, verdicts, wanted

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


ODD = rail(0, "Ethernet", state=DOWN)
PEERS = (rail(1), rail(2), rail(3))


def of_kinds(*ports: Port, layer: str | None = "InfiniBand") -> str:
    return say(CHECK, rdma(*ports), by_kind(rdma(*ports), layer=layer)).split("; ")[0]


MODES = [
    # ports                                                                     says of the first
    ((ODD, *PEERS), "fail OddLayer"),
    ((ODD, PEERS[0]), "fail OddLayer"),
    ((ODD, rail(4, "Ethernet", state=DOWN), rail(5, "Ethernet", state=DOWN), rail(1)), "fail OddLayer"),
    ((ODD, *(rail(n, state=DOWN) for n in (1, 2, 3))), "fail OddLayer"),
    ((rail(0, "Ethernet"), *PEERS), "warn OddLayer"),
    ((rail(0, "Ethernet"), rail(4, "Ethernet"), *PEERS[:2]), "warn OddLayer"),
    ((rail(0, "Ethernet"), *PEERS[:2]), "ok Layer"),  # too few: it may be meant to
    ((ODD, *(rail(n, card="15b3:101d MT_1") for n in (1, 2, 3))), "ok Layer"),
    ((rail(0, "Ethernet", card="", state=DOWN), *(rail(n, card="") for n in (1, 2, 3))), "ok Layer"),
    ((rail(0, state=DOWN), *PEERS), "ok Layer"),
]


@pytest.mark.parametrize(("ports", "says"), MODES)
def test_a_card_in_another_mode_than_its_model(ports: tuple[Port, ...], says: str) -> None:
    assert of_kinds(*ports) == says


def test_without_a_layer_in_the_profile_those_that_are_up_decide() -> None:
    assert of_kinds(ODD, *PEERS, layer=None) == "fail OddLayer"
    assert of_kinds(rail(0, "Ethernet"), *PEERS, layer=None) == "warn OddLayer"


def test_a_front_end_card_in_another_mode_only_warns() -> None:
    front = [rail(n, "Ethernet", card="15b3:101d MT_1", rate=100.0) for n in (5, 6, 7)]
    odd = rail(4, card="15b3:101d MT_1", state=DOWN)
    slow = (nic(address=one.bdf, rdma=(), id="15b3:101d", max_speed=16.0) for one in (odd, *front))
    seen = rdma(odd, *front, *PEERS)
    assert say(CHECK, seen, by_kind(pci(*slow), seen, layer="InfiniBand")).startswith("warn OddLayer")


def test_both_camps_are_named() -> None:
    seen = rdma(ODD, *PEERS)
    (verdict, *others) = verdicts(CHECK, seen, by_kind(seen, layer="InfiniBand"))
    assert {other.status for other in others} == {"ok"}
    assert verdict.message == (
        "mlx5_0/1 at 0000:00:00.0 speaks Ethernet; of its model mlx5_1/1, mlx5_2/1, mlx5_3/1 speak InfiniBand: "
        "in the wrong mode?"
    )


def test_a_peer_that_cannot_be_read_has_no_say() -> None:
    blind = [port(device=f"m{n}", bdf=f"0000:1{n}:00.0", layer=CUT, like=CARD) for n in range(3)]
    assert of_kinds(ODD, *blind, layer=None) == "ok Layer"


def test_what_the_profile_says_comes_first() -> None:
    wants = expected(firm={ODD.subject.key: PortWant(layer="Ethernet")})
    assert say(CHECK, rdma(ODD, *PEERS), wants).startswith("ok Layer")


def test_a_port_in_the_wrong_mode_is_one_finding_and_what_its_state_says_follows() -> None:
    machine = SHAPES["8 x 400 RoCE"].with_fault(STATES["dead in the other mode"], 2)
    look = machine.look()
    profile = Profile("test", expect=Expectation(at_least=AtLeast(1, suggested=True)))
    bad = [one for one in check_round.judge((state.CHECK, CHECK), look, None, profile, {}).findings if one.fix]
    assert {(one.check, one.root) for one in bad} == {("port.layer", None), ("port.state", "port.layer")}
