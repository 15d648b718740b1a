"""port.bond: the legs under RDMA ports."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.bond import CHECK
from nodeprep.facts.network.links import Link, Links
from nodeprep.model import Subject, Unreadable, Why
from tests.values import link, links, port, rdma, say, verdicts, wanted

PORT = port(device="mlx5_bond_0", netdev="bond0")
UP, DOWN = {"carrier": True}, {"carrier": False, "operstate": "down"}
CUT = Unreadable(Why.MALFORMED, "/sys/class/net/eth2/operstate")


def bond(**different: Any) -> Link:
    return link(**({"name": "bond0", "bdf": "", "kind": "bond"} | different))


def bonded(*legs: dict[str, Any], **different: Any) -> Links:
    found = [link(name=f"leg{n}", bdf=f"0000:5c:00.{n}", master="bond0", **leg) for n, leg in enumerate(legs)]
    return links(bond(), *found, link(name="eth9", bdf="0000:9c:00.0", **DOWN), **different)


LEGS = [
    # legs           wanted by   says
    ((UP, UP), "profile", "ok AllLegs"),
    ((UP, DOWN), "profile", "warn LegDown"),
    ((UP, DOWN), None, "warn LegDown"),
    ((DOWN, DOWN), "profile", "fail NoLeg"),
    ((DOWN, DOWN), None, "warn NoLegUnneeded"),
    ((DOWN,), "profile", "fail NoLeg"),
    ((UP,), "profile", "ok AllLegs"),
    (({"carrier": None, "operstate": "down"}, UP), "profile", "warn LegDown"),
    (({"carrier": None, "operstate": "unknown"}, UP), "profile", "ok AllLegs"),
    (({"carrier": None, "operstate": CUT}, UP), "profile", "unknown CannotLook"),
    ((), "profile", "fail NoLeg"),
]


@pytest.mark.parametrize(("legs", "by", "says"), LEGS)
def test_says(legs: tuple[dict[str, Any], ...], by: str | None, says: str) -> None:
    assert say(CHECK, rdma(PORT), wanted(PORT, by), bonded(*legs)) == says


def test_a_dead_tree_may_not_record_who_is_whose_master() -> None:
    profile = wanted(PORT, "profile")
    assert say(CHECK, rdma(PORT), profile, bonded(addresses=None)) == "absent Nothing"
    assert say(CHECK, rdma(PORT), profile, links(bond(**DOWN), addresses=None)) == "fail NoLeg"


LEADS = [
    (port(netdev="bond0"), "warn LegDown"),
    (port(netdev="leg0"), "warn LegDown"),
    (port(netdev=None, bdf="0000:5c:00.1"), "warn LegDown"),
    (port(netdev="eth9"), "absent Nothing"),
    (port(netdev=None, bdf="0000:77:00.0"), "absent Nothing"),
]


@pytest.mark.parametrize(("lead", "says"), LEADS)
def test_finds_the_bond_by_the_ports_netdev_or_function(lead: Any, says: str) -> None:
    seen = links(bond(), link(name="leg1", bdf="0000:5c:00.1", master="bond0", **UP), *bonded(DOWN).links[1:])
    assert say(CHECK, rdma(lead), wanted(lead, "profile"), seen) == says


def test_a_bridge_is_no_bond() -> None:
    seen = links(link(name="br0", kind="bridge", bdf=""), link(master="br0", **DOWN))
    assert say(CHECK, rdma(port()), wanted(port(), "profile"), seen) == "absent Nothing"


def test_two_ports_on_one_bond_are_one_verdict_and_one_who_wants_it_is_enough() -> None:
    first, second = port(netdev="leg0"), port(device="mlx5_4", bdf="0000:5c:00.1", netdev="leg1")
    assert say(CHECK, rdma(first, second), wanted(second, "profile"), bonded(DOWN, DOWN)) == "fail NoLeg"


def test_message_shows_the_legs() -> None:
    (verdict,) = verdicts(CHECK, rdma(PORT), wanted(PORT, "profile rails"), bonded(DOWN, DOWN))
    assert verdict.message == (
        "bond bond0: leg0 down, leg1 down; no leg has a carrier; the RDMA port on it is wanted by profile rails: "
        "cat /proc/net/bonding/bond0"
    )
    assert (verdict.subject, verdict.observed) == (Subject("bond0"), "0 of 2")
    (half,) = verdicts(CHECK, rdma(PORT), wanted(PORT, None), bonded(UP, DOWN))
    assert half.message == (
        "bond bond0: leg0 up, leg1 down; 1 of 2 legs have a carrier: the bond has lost bandwidth and its spare; "
        "see cable, switch port"
    )
