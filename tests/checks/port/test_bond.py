"""port.bond: the legs under RDMA ports."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.bond import CHECK
from nodeprep.facts.expected.bonds import ExpectedBond, ExpectedLeg
from nodeprep.facts.network.links import Link, Links
from nodeprep.job_profile import BondWant
from nodeprep.model import Subject, Unreadable, Why
from tests.values import by_kind, device, expected, link, links, port, rdma, say, verdicts, wanted

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


def test_an_excluded_interface_may_be_the_leg_that_is_missed() -> None:
    gone = ExpectedBond("bond0", BondWant(legs=("0000:5c:00.0",)), None, (ExpectedLeg("0000:5c:00.0", "", False),))
    nothing = links(hidden=("leg0",), addresses=None)
    assert say(CHECK, rdma(PORT), expected(bonds=(gone,)), nothing) == "unknown CannotLook"
    assert "fail BondGone" in say(CHECK, rdma(PORT), expected(bonds=(gone,)), links(addresses=None))


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


NO_RECORD = {"carrier": None, "operstate": "unknown"}
OWN_PORTS = [
    # legs                    state of the RDMA port of each        says
    ((NO_RECORD, NO_RECORD), ("4: ACTIVE", "4: ACTIVE"), "ok AllLegs"),
    ((NO_RECORD, NO_RECORD), ("1: DOWN", "1: DOWN"), "fail NoLeg"),
    ((DOWN, NO_RECORD), ("1: DOWN", "1: DOWN"), "fail NoLeg"),
    ((DOWN, NO_RECORD), ("1: DOWN", CUT), "warn LegDown"),
    ((UP, {"carrier": None, "operstate": "unknown", "up": False}), ("4: ACTIVE", CUT), "warn LegDown"),
]


@pytest.mark.parametrize(("legs", "states", "says"), OWN_PORTS)
def test_the_port_of_a_leg_is_a_sign_too(legs: Any, states: Any, says: str) -> None:
    ports = [
        port(device=f"mlx5_{n}", bdf=f"0000:5c:00.{n}", netdev=f"leg{n}", state=state) for n, state in enumerate(states)
    ]
    assert say(CHECK, rdma(*ports), wanted(ports[0], "profile"), bonded(*legs)) == says


@pytest.mark.parametrize(
    ("by", "shows", "says"),
    [
        ("profile", {"carrier": False}, "fail NoCarrier"),
        (None, {"carrier": False}, "warn NoCarrier"),
        ("profile", {"carrier": CUT, "operstate": "down"}, "fail NoCarrier"),
        ("profile", {"carrier": False, "operstate": CUT}, "fail NoCarrier"),
        (None, {"carrier": False, "operstate": CUT}, "unknown CannotLook"),
    ],
)
def test_a_bond_without_carrier_over_legs_that_have_one(by: str | None, shows: dict[str, Any], says: str) -> None:
    seen = links(bond(**shows), *bonded(UP, UP).links[1:])
    assert say(CHECK, rdma(PORT), wanted(PORT, by), seen) == says


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


def test_who_wants_it_counts_no_dead_leg_as_up() -> None:
    ports = [port(device=f"mlx5_{n}", bdf=f"0000:5c:00.{n}", netdev=f"leg{n}", state="1: DOWN") for n in (0, 1)]
    ports += [port(device=f"mlx5_{n}", bdf=f"0000:{n}c:00.0", netdev=f"eth{n}") for n in (6, 7)]
    seen, netdevs = rdma(*ports), bonded(DOWN, DOWN)
    found = verdicts(CHECK, seen, by_kind(seen, netdevs), netdevs)
    assert [one.reason for one in found] == ["NoLeg"]
    assert "(one of 2 rails, 0 of them up)" in found[0].message


FIRST, SECOND = "0000:5c:00.0", "0000:5c:00.1"
GOOD = BondWant((FIRST, SECOND), carrier=True, mtu=9000)
LAG = BondWant((FIRST, SECOND), carrier=True, lag=True)
UNUSED = BondWant((FIRST, SECOND), carrier=False)


def named(now: str | None, *joined: bool, want: BondWant = GOOD, netdevs: bool = True) -> Any:
    legs = zip((FIRST, SECOND), ("leg0", "leg1"), joined, strict=False)
    found = tuple(ExpectedLeg(at, name if netdevs else "", one) for at, name, one in legs)
    return expected(profile="rails", bonds=(ExpectedBond("bond0", want, now, found),))


NAMED = [
    # what the profile names                     links                             says
    (named("bond0", True, True), bonded(UP, UP), "ok AllLegs"),
    (named("bond0", True, True), bonded(UP, DOWN), "warn LegDown"),
    (named("bond0", True, True), bonded(DOWN, DOWN), "fail NoLeg"),
    (named("bond0", True, True, want=UNUSED), bonded(DOWN, DOWN), "warn NoLegUnneeded"),
    (named("bond0", True, False), bonded(UP), "fail LeftBond; warn LegDown"),
    (named("bond0", True, False), bonded(DOWN), "fail LeftBond; fail NoLeg"),
    (named("bond0", True, False, want=UNUSED), bonded(UP), "fail LeftBond; warn LegDown"),
    (named(None, False, False), links(), "fail LeftBond; fail LeftBond; fail BondGone"),
    (named(None, False, False, netdevs=False), links(), "fail LegGone; fail LegGone; fail BondGone"),
    # In a dead tree too, where the profile says that there were legs.
    (named(None, False, False), bonded(addresses=None), "fail LeftBond; fail LeftBond; fail BondGone"),
    (named(None, want=BondWant(carrier=True)), links(), "fail BondGone"),
    (named("bond0", want=BondWant(carrier=True)), bonded(UP, UP), "ok AllLegs"),
    (named("bond0", True, True), links(bond(**DOWN), *bonded(UP, UP).links[1:]), "fail NoCarrier"),
    (named("bond0", True, True), bonded({"carrier": None, "operstate": CUT}, UP), "unknown CannotLook"),
]


@pytest.mark.parametrize(("profile", "seen", "says"), NAMED, ids=range(len(NAMED)))
@pytest.mark.parametrize("lead", [PORT, port(netdev="leg0"), port(netdev="eth9", bdf="0000:9c:00.0")])
def test_holds_a_node_to_the_bonds_of_its_profile(profile: Any, seen: Links, says: str, lead: Any) -> None:
    """Whichever netdev the RDMA port shows, or none of the bond's."""
    assert say(CHECK, rdma(lead), profile, seen) == says


def test_a_roce_lag_is_one_rdma_device() -> None:
    first, second = device(name="mlx5_0", bdf=FIRST), device(name="mlx5_1", bdf=SECOND)
    virtual = device(name="mlx5_9", bdf=SECOND, virtual_function=True)
    whole = named("bond0", True, True, want=LAG)
    assert say(CHECK, rdma(PORT, devices=(first, virtual)), whole, bonded(UP, UP)) == "ok AllLegs"
    assert say(CHECK, rdma(PORT, devices=(first, second)), whole, bonded(UP, DOWN)) == "fail LagSplit"
    apart = named("bond0", True, True)
    assert say(CHECK, rdma(PORT, devices=(first, second)), apart, bonded(UP, UP)) == "ok AllLegs"


def test_a_message_names_the_leg_and_its_bond() -> None:
    left, _ = verdicts(CHECK, rdma(PORT), named("bond7", True, False), links(bond(name="bond7")))
    assert left.subject == Subject(SECOND, None, "leg1")
    assert left.message == (
        "leg1 at 0000:5c:00.1 is no leg of bond bond7; profile rails wants it as a leg of bond bond7: "
        "ip -d link show leg1"
    )
    assert CHECK.fix_of(left).startswith("ip link set leg1 down && ip link set leg1 master bond7, ")
    *_, gone = verdicts(CHECK, rdma(PORT), named(None, False, False), links(bond()))
    assert gone.message == (
        "bond bond0 is there without its legs; a bond of 0000:5c:00.0, 0000:5c:00.1 is wanted by profile rails"
    )
    *_, gone = verdicts(CHECK, rdma(PORT), named(None, False, False), links())
    assert gone.message.startswith("bond bond0 is not there; ")


def test_a_bond_without_a_carrier_whose_legs_have_one() -> None:
    assert say(CHECK, rdma(PORT), wanted(PORT, "profile"), links(bond(**DOWN), *bonded(UP, UP).links[1:])) == (
        "fail NoCarrier"
    )
