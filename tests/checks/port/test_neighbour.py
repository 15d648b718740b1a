"""port.neighbour: nobody answers on one rail while somebody does on another."""

from __future__ import annotations

import pytest

from nodeprep.checks import CHECKS
from nodeprep.checks.port.neighbour import CHECK
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Link
from nodeprep.facts.network.neighbours import Neighbour, Neighbours
from nodeprep.model import Unreadable, Why
from tests.values import expected, link, links, port, rdma, say, verdicts

A = port()
B = port(device="mlx5_4", bdf="0000:5d:00.0", netdev="eth3")
BOTH = expected(rails={A.subject.key: "8 of 8 alike", B.subject.key: "8 of 8 alike"})
ETH2, ETH3 = link(), link(name="eth3", index=5, bdf="0000:5d:00.0")
INDEX = {"eth2": 4, "eth3": 5, "bond0": 6}
LINKS = links(ETH2, ETH3)
CUT = Unreadable(Why.MALFORMED, "/sys/class/infiniband/mlx5_3/ports/1/link_layer")


def table(*entries: str) -> Neighbours:
    """Entries such as "eth2 10.99.0.1 FAILED"."""
    told = (entry.split() for entry in entries)
    return Neighbours(0.0, tuple(Neighbour(INDEX[netdev], address, state) for netdev, address, state in told))


def of_a(*entries: str, wants: Expected = BOTH, rails: tuple[Link, ...] = (ETH2, ETH3)) -> str:
    """What is said of A."""
    found = verdicts(CHECK, rdma(A, B), wants, links(*rails), table(*entries))
    return "; ".join(f"{one.status} {one.reason}" for one in found if one.subject == A.subject)


SILENT, FINE = "eth2 10.99.0.1 FAILED", "eth3 10.99.1.1 REACHABLE"
ROWS = [
    ((SILENT, FINE), "warn NobodyAnswers"),
    (("eth2 10.99.0.1 INCOMPLETE", FINE), "warn NobodyAnswers"),
    ((SILENT, "eth2 10.99.0.2 FAILED", FINE), "warn NobodyAnswers"),
    ((SILENT, "eth3 10.99.1.1 STALE"), "warn NobodyAnswers"),
    ((SILENT, "eth3 10.99.1.1 DELAY"), "warn NobodyAnswers"),
    ((SILENT, "eth3 10.99.1.1 PERMANENT"), "warn NobodyAnswers"),
    ((SILENT, "eth3 10.99.1.1 PROBE"), "ok SomeSilent"),
    ((SILENT, "eth3 10.99.1.1 FAILED"), "ok SomeSilent"),
    ((SILENT,), "ok SomeSilent"),
    ((SILENT, "eth2 10.99.0.2 REACHABLE", FINE), "ok SomeSilent"),
    ((SILENT, "eth2 10.99.0.2 STALE", FINE), "ok SomeSilent"),
    (("eth2 10.99.0.2 REACHABLE", FINE), "ok Answered"),
    ((FINE,), ""),
    (("eth2 10.99.0.2 NOARP", FINE), ""),
    (("eth2 ff02::1 FAILED", FINE), ""),
    (("eth2 224.0.0.22 FAILED", FINE), ""),
    (("eth2 239.1.1.1 FAILED", FINE), ""),
    (("eth2 223.255.0.1 FAILED", FINE), "warn NobodyAnswers"),
    (("eth2 240.0.0.1 FAILED", FINE), "warn NobodyAnswers"),
    (("eth2 fe80::1 FAILED", FINE), "warn NobodyAnswers"),
    ((SILENT, "eth3 ff02::1 REACHABLE"), "ok SomeSilent"),
]


@pytest.mark.parametrize(("entries", "says"), ROWS)
def test_says(entries: tuple[str, ...], says: str) -> None:
    assert of_a(*entries) == says


def test_a_rail_that_nobody_wants_is_not_asked_about_and_proves_nothing() -> None:
    assert of_a(SILENT, FINE, wants=expected(rails={B.subject.key: "profile"})) == ""
    assert of_a(SILENT, FINE, wants=expected(rails={A.subject.key: "profile"})) == "ok SomeSilent"


def test_other_fabrics_are_not_asked_about_and_prove_nothing() -> None:
    ib = port(device="mlx5_4", bdf="0000:5d:00.0", netdev="eth3", layer="InfiniBand")
    assert say(CHECK, rdma(A, ib), BOTH, LINKS, table(SILENT, FINE)) == "ok SomeSilent"
    assert say(CHECK, rdma(ib), BOTH, LINKS, table("eth3 10.99.1.1 FAILED")) == "absent Nothing"


def test_an_unreadable_link_layer_is_no_pass() -> None:
    assert say(CHECK, rdma(port(layer=CUT), B), BOTH, LINKS, table(SILENT, FINE)) == "unknown CannotLook; ok Answered"


def test_the_neighbours_of_a_leg_are_its_bonds() -> None:
    rails = (link(master="bond0"), ETH3, link(name="bond0", index=6, bdf="", kind="bond"))
    assert of_a("bond0 10.99.0.1 FAILED", FINE, rails=rails) == "warn NobodyAnswers"
    assert of_a("bond0 10.99.0.1 FAILED", FINE) == ""


def test_states_that_change_by_the_second_judge_this_check_alone() -> None:
    assert [check.id for check in CHECKS.values() if Neighbours in (*check.needs, *check.uses)] == [CHECK.id]


def test_a_rail_without_netdev_is_port_netdevs_affair() -> None:
    assert say(CHECK, rdma(port(netdev=None)), BOTH, LINKS, table(SILENT)) == "absent Nothing"


def test_message_names_the_silent_ones_and_a_rail_that_works() -> None:
    verdict, _ = verdicts(CHECK, rdma(A, B), BOTH, LINKS, table(SILENT, "eth2 10.99.0.2 INCOMPLETE", FINE))
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0 (eth2): 0 neighbours answered, 2 did not (10.99.0.1 FAILED, 10.99.0.2 INCOMPLETE), "
        "while on mlx5_4/1 at 0000:5d:00.0 some do; wanted by 8 of 8 alike: wrong VLAN, or the wrong switch port? "
        "ip neighbour show dev eth2"
    )
    assert verdict.observed == "0 of 2"
