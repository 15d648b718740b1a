"""port.gid: who needs a routable GID, and what counts as one."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.gid import CHECK
from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Address, Links
from nodeprep.facts.rdma.rdma import Gid, Port, RdmaDevice
from nodeprep.job_profile import BondWant, DeviceWant, Expectation, PortWant, Profile
from nodeprep.model import Subject, Unreadable, Why
from nodeprep.values import replace
from tests.values import beside, by_kind, device, expected, gid, link, links, port, rdma, say, verdicts

KEY = "0000:5c:00.0/1"
WANTS = expected(firm={KEY: PortWant(gid=True)})
COUNTED = expected(counted={KEY: "profile rails (at least 8 ports)"})
BLIND = Unreadable(Why.IO_ERROR, "/sys/class/infiniband/mlx5_3/ports/1/gids/3", 5)

LOCAL = gid(index=1, value="fe80:0000:0000:0000:5054:00ff:fe12:3456")
V4, V6 = gid(), gid(index=5, value="2001:0db8:0000:0000:0000:0000:0000:0007")
FIRST = gid(index=2, kind="IB/RoCE v1")
UNTYPED, BROKEN = gid(kind=None), gid(value=BLIND)

GIDS = [
    ((LOCAL, FIRST, V4), "ok RoutableGid"),
    ((LOCAL, V6), "ok RoutableGid"),
    ((LOCAL, UNTYPED), "ok RoutableGid"),
    ((BROKEN, V4), "ok RoutableGid"),
    ((LOCAL,), "fail NoRoutableGid"),
    ((), "fail NoRoutableGid"),
    ((gid(value="0000:0000:0000:0000:0000:ffff:a9fe:0102"),), "fail NoRoutableGid"),
    ((LOCAL, FIRST), "warn OnlyRoceV1"),
    ((LOCAL, BROKEN), "unknown CannotLook"),
    (None, "absent Nothing"),
    (BLIND, "unknown CannotLook"),
]


@pytest.mark.parametrize(("gids", "says"), GIDS)
def test_says_by_gids(gids: tuple[Gid, ...] | Unreadable | None, says: str) -> None:
    assert say(CHECK, rdma(port(gids=gids)), WANTS) == says


BARE = {"gids": (LOCAL,)}
CONCERNS = [
    # what             wanted by                                        says
    (BARE, WANTS, "fail NoRoutableGid"),
    (BARE, COUNTED, "fail NoRoutableGid"),
    (BARE, expected(firm={KEY: PortWant(gid=False)}), "absent Nothing"),
    (BARE, expected(firm={KEY: PortWant()}), "absent Nothing"),
    (BARE, expected(firm={KEY: PortWant(gid=True, required=False)}), "absent Nothing"),
    (BARE, expected(), "absent Nothing"),
    (BARE | {"state": "1: DOWN"}, WANTS, "absent Nothing"),
    (BARE | {"state": BLIND}, WANTS, "fail NoRoutableGid"),
    (BARE | {"layer": "InfiniBand"}, WANTS, "absent Nothing"),
    (BARE | {"layer": "Unknown"}, WANTS, "absent Nothing"),
    (BARE | {"layer": BLIND}, WANTS, "fail NoRoutableGid"),  # its entry of RoCE v2 says that it is Ethernet
    ({"gids": (), "layer": BLIND}, WANTS, "unknown CannotLook"),
    (BARE | {"layer": BLIND}, expected(), "absent Nothing"),
]


@pytest.mark.parametrize(("what", "wants", "says"), CONCERNS)
def test_says_by_who_asks(what: dict[str, Any], wants: Expected, says: str) -> None:
    assert say(CHECK, rdma(port(**what)), wants) == says


@pytest.mark.parametrize(
    ("node_type", "says"),
    [("4: RNIC", "absent Nothing"), ("1: CA", "fail NoRoutableGid"), (None, "fail NoRoutableGid")],
)
def test_iwarp_has_no_gids_of_that_sense(node_type: str | None, says: str) -> None:
    seen = rdma(port(gids=(LOCAL,)), devices=(device(node_type=node_type),))
    assert say(CHECK, seen, WANTS) == says


def rail(index: int, *gids: Gid, **different: Any) -> Port:
    place = {"device": f"mlx5_{index}", "bdf": f"0000:{index:02x}:00.0", "netdev": f"eth{index}", "gids": gids}
    return port(**(place | different))


@pytest.mark.parametrize("bad", range(1, 5))
@pytest.mark.parametrize("suggested", [False, True])
def test_each_rail_needs_one_be_it_one_or_all_that_have_none(bad: int, suggested: bool) -> None:
    seen = rdma(*(rail(index, *([] if index < bad else [V4])) for index in range(4)))
    wants = by_kind(seen, layer="Ethernet", suggested=suggested)
    assert say(CHECK, seen, wants).count("fail NoRoutableGid") == bad


def test_who_wants_it_is_told() -> None:
    seen = rdma(rail(0, V4), rail(1, V4), rail(2, LOCAL))
    *_, verdict = verdicts(CHECK, seen, by_kind(seen))
    assert verdict.message == (
        "mlx5_2/1 at 0000:02:00.0 (eth2) has no GID made of a routable address; one is wanted by "
        "profile test (one of 3 rails, 3 of them up): ip address show eth2"
    )


CARDS = [
    # second port of the card   netdevs                                  says of it
    ({"gids": (LOCAL,)}, links(link(), link(name="eth3"), addresses=None), "warn NoRoutableGid"),
    ({}, links(link(), link(name="eth3"), addresses=(Address("eth2", "10.99.0.2", 24, "global", False),)), "warn"),
    ({}, links(link(), link(name="eth3"), addresses=None), "ok RoutableGid"),
]


@pytest.mark.parametrize(("second", "found", "says"), CARDS)
def test_the_other_port_of_the_card_stands_in(second: dict[str, Any], found: Links, says: str) -> None:
    own = {"gids": (gid(netdev="eth3"),)}
    seen = rdma(port(), beside(**(own | second)))
    assert say(CHECK, seen, by_kind(seen, found), found).split("; ")[1].startswith(says)


BOND = links(
    *(link(name=f"eth{one}", bdf=f"0000:0{one}:00.0", master="bond0") for one in (0, 1)),
    link(name="bond0", bdf="", kind="bond"),
    addresses=None,
)
DOWN = {"state": "1: DOWN", "physical": "2: Polling"}
LEGS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # of one leg                     of the other                     says of the bond
    ({"gids": (V4,)}, {"gids": (V4,)}, "ok RoutableGid"),
    ({"gids": (V4,)}, {"gids": (LOCAL,)}, "ok RoutableGid"),  # active-backup: the backup has none
    ({"gids": (LOCAL,)}, {"gids": (V6,)}, "ok RoutableGid"),
    ({"gids": (LOCAL,)}, {"gids": (LOCAL,)}, "fail NoRoutableGid"),
    ({"gids": (LOCAL,)}, {"gids": ()}, "fail NoRoutableGid"),
    ({"gids": (V4,)} | DOWN, {"gids": (LOCAL,)}, "fail NoRoutableGid"),  # what is up has none
    ({"gids": (LOCAL,)} | DOWN, {"gids": (V4,)}, "ok RoutableGid"),
    ({"gids": (LOCAL,)}, {"gids": None}, "absent Nothing"),
    ({"gids": None}, {"gids": (V4,)}, "ok RoutableGid"),
    ({"gids": (BROKEN,)}, {"gids": (V4,)}, "ok RoutableGid"),
    ({"gids": (BROKEN,)}, {"gids": (LOCAL,)}, "unknown CannotLook"),
    ({"gids": (FIRST,)}, {"gids": (LOCAL,)}, "warn OnlyRoceV1"),
    (DOWN, DOWN, "absent Nothing"),  # port.bond says it
    ({"gids": (V4,), "physical": "2: Polling"}, {"gids": (LOCAL,)}, "fail NoRoutableGid"),
    ({"gids": BLIND}, {"gids": (V4,)}, "ok RoutableGid"),
    ({"gids": BLIND}, {"gids": (LOCAL,)}, "unknown CannotLook"),
]
BONDS = [
    # what the profile says of the bond                    where no leg has one
    (PortWant(required=False, bonded=True), BondWant(gid=True), "fail NoRoutableGid"),
    (PortWant(required=False, bonded=True), BondWant(gid=False), "absent Nothing"),
    (PortWant(required=False, bonded=True), BondWant(), "absent Nothing"),
    (PortWant(required=False), BondWant(gid=True), "fail NoRoutableGid"),
    (PortWant(gid=True), BondWant(), "fail NoRoutableGid; fail NoRoutableGid"),  # of each leg, by hand
]


@pytest.mark.parametrize("suggested", [False, True])
@pytest.mark.parametrize(("one", "other", "says"), LEGS)
def test_of_a_bond_one_leg_that_is_up_must_have_one(
    one: dict[str, Any], other: dict[str, Any], says: str, suggested: bool
) -> None:
    seen = rdma(rail(0, **one), rail(1, **other))
    assert say(CHECK, seen, by_kind(seen, BOND, layer="Ethernet", suggested=suggested), BOND) == says


@pytest.mark.parametrize("netdev", ["eth0", "bond0"])
@pytest.mark.parametrize(("gids", "says"), [((V4,), "ok RoutableGid"), ((LOCAL,), "fail NoRoutableGid")])
def test_a_roce_lag_must_have_one(netdev: str, gids: tuple[Gid, ...], says: str) -> None:
    seen = rdma(rail(0, gids=gids, netdev=netdev))
    assert say(CHECK, seen, by_kind(seen, BOND), BOND) == says


@pytest.mark.parametrize(("want", "bond", "says"), BONDS)
def test_a_captured_bond_must_have_one_if_the_good_node_had(want: PortWant, bond: BondWant, says: str) -> None:
    ports = (rail(0, LOCAL), rail(1, LOCAL))
    expect = Expectation(
        devices={one.bdf: DeviceWant() for one in ports},
        ports={one.subject.key: want for one in ports},
        bonds={"bond0": replace(bond, legs=tuple(one.bdf for one in ports))},
    )
    seen = rdma(*ports, devices=tuple(device(name=one.device, bdf=one.bdf) for one in ports))
    assert say(CHECK, seen, inventory.derive(Profile("good", expect=expect), None, seen, BOND), BOND) == says


def test_a_bond_is_told_with_its_ports() -> None:
    seen = rdma(rail(0, LOCAL), rail(1, LOCAL))
    (none,) = verdicts(CHECK, seen, by_kind(seen, BOND), BOND)
    assert none.subject == Subject("bond0", None, "bond0")
    assert none.message == (
        "bond bond0 (mlx5_0/1, mlx5_1/1) has no GID made of a routable address; one is wanted by "
        "profile test (one of 2 rails, 2 of them up): ip address show bond0"
    )
    seen = rdma(rail(0, LOCAL), rail(1, V4))
    (good,) = verdicts(CHECK, seen, by_kind(seen, BOND), BOND)
    assert good.message == "bond bond0 (mlx5_0/1, mlx5_1/1): GID 3 of mlx5_1/1 is 10.99.0.2; NCCL_IB_GID_INDEX=3"


@pytest.mark.parametrize(("odd", "says"), [(1, "warn NoRoutableGid"), (2, "fail NoRoutableGid; fail NoRoutableGid")])
def test_one_card_in_the_other_mode_needs_none(odd: int, says: str) -> None:
    """port.layer warns of it. Two or more of them may be another network, which somebody uses."""
    like = "15b3:1021 MT_0000000838"
    ports = [
        port(device=f"m{n}", bdf=f"0000:4{n}:00.0", layer=layer, like=f"{like} {layer}", gids=(LOCAL,))
        for n in range(6)
        for layer in ["Ethernet" if n < odd else "InfiniBand"]
    ]
    seen = rdma(*ports)
    assert say(CHECK, seen, by_kind(seen)) == says


def test_the_bond_of_a_front_end_needs_none() -> None:
    fast = [port(device=f"f{one}", bdf=f"0000:4{one}:00.0", netdev=f"f{one}", gids=(V4,)) for one in range(2)]
    slow = {"rate": 100.0, "like": "15b3:101d MT_0000000359 Ethernet"}
    legs = (rail(0, LOCAL, **slow), rail(1, LOCAL, **slow))
    seen = rdma(*fast, *legs)
    assert say(CHECK, seen, by_kind(seen, BOND), BOND) == "ok RoutableGid; ok RoutableGid"


def addresses(*pairs: tuple[str, str]) -> tuple[Address, ...]:
    return tuple(Address(netdev, address, 24, "global", False) for netdev, address in pairs)


FRESH = [
    ((V4,), addresses(("eth2", "10.99.0.2")), "ok RoutableGid"),
    ((V4,), addresses(("eth2", "10.99.0.3")), "fail StaleGid"),
    ((V4,), addresses(("eth3", "10.99.0.2")), "fail StaleGid"),
    ((V4,), (), "fail StaleGid"),
    ((V4,), None, "ok RoutableGid"),
    ((V4, V6), addresses(("eth2", "2001:db8::7")), "ok RoutableGid"),
    ((V6,), addresses(("eth2", "2001:db8::8")), "fail StaleGid"),
    ((gid(netdev="eth2.7"),), addresses(("eth2", "10.99.0.3")), "ok RoutableGid"),  # that netdev is not ours to see
    ((gid(netdev=None),), addresses(("eth2", "10.99.0.3")), "fail StaleGid"),
]


@pytest.mark.parametrize(("gids", "found", "says"), FRESH)
def test_a_gid_whose_address_is_gone_is_stale(
    gids: tuple[Gid, ...], found: tuple[Address, ...] | None, says: str
) -> None:
    assert say(CHECK, rdma(port(gids=gids)), WANTS, links(link(), addresses=found)) == says


def test_the_address_may_be_on_the_bond_above() -> None:
    bonded = links(link(master="bond0"), link(name="bond0", kind="bond"), addresses=addresses(("bond0", "10.99.0.2")))
    assert say(CHECK, rdma(port()), WANTS, bonded) == "ok RoutableGid"


def test_the_first_ipv4_index_is_told_for_nccl() -> None:
    seen = rdma(port(gids=(LOCAL, gid(index=2, value=V6.value), gid(index=7), gid(index=9))))
    (verdict,) = verdicts(CHECK, seen, WANTS)
    assert verdict.message == "mlx5_3/1 at 0000:5c:00.0 (eth2): GID 7 is 10.99.0.2; NCCL_IB_GID_INDEX=7"
    (six,) = verdicts(CHECK, rdma(port(gids=(V6, gid(index=8, value=V6.value)))), WANTS)
    assert six.observed == "5"


ERI = device(id="1ded:107f")
ELASTIC = [
    # the port               its device                                    names who sets the address
    ({"gids": (LOCAL,)}, ERI, True),
    ({"gids": (V4,)}, ERI, True),
    ({"gids": (LOCAL,)}, device(), False),
    ({"gids": (LOCAL,)}, device(name="erdma_1", id="1ded:107f"), False),
]


@pytest.mark.parametrize(("what", "owner", "is_named"), ELASTIC)
def test_of_elastic_rdma_it_is_told_who_sets_the_address(
    what: dict[str, Any], owner: RdmaDevice, is_named: bool
) -> None:
    (verdict,) = verdicts(CHECK, rdma(port(**what), devices=(owner,)), WANTS, links(link()))
    assert verdict.reason in ("NoRoutableGid", "StaleGid")
    assert verdict.message.endswith("sets it when its pod starts: eni.eri-address") is is_named
    assert verdict.remedy is None, "a playbook that sets an interface up gives it no address"


def test_messages_of_v1_only_and_stale() -> None:
    (old,) = verdicts(CHECK, rdma(port(gids=(FIRST,))), WANTS)
    assert old.message == (
        "mlx5_3/1 at 0000:5c:00.0 (eth2) has routable GIDs of RoCE v1 only, which no router carries; "
        "one is wanted by profile test of RoCE v2"
    )
    (stale,) = verdicts(CHECK, rdma(port()), WANTS, links(link()))
    assert stale.message == (
        "mlx5_3/1 at 0000:5c:00.0 (eth2) shows GID 3 10.99.0.2, no address of its netdev any more; "
        "one is wanted by profile test: ip address show"
    )
