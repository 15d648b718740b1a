"""Which ports are alike, and which of them are rails, spares, the front end or given away."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.facts.expected import kinds
from nodeprep.facts.expected.kinds import Kinds, Role
from nodeprep.facts.machine.pci import Auxiliary, PciDevice
from nodeprep.facts.network.links import Link
from nodeprep.facts.rdma.rdma import Port
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.model import Unreadable, Why
from tests.values import device, link, links, nic, pci, port, rdma

BLIND = Unreadable(Why.IO_ERROR, "/sys", 5)
DOWN: dict[str, Any] = {"state": "1: DOWN", "physical": "2: Polling", "rate": 10.0}
SLOW: dict[str, Any] = {"rate": 100.0, "like": "15b3:101d MT_1 Ethernet"}
FABRIC: dict[str, Any] = {"layer": "InfiniBand", "like": "15b3:1021 MT_1 InfiniBand", "lid": "0x1", "sm_lid": "0x1"}
TAKEN = Auxiliary("mlx5_core.rdma.0", "mlx5_ib.rdma")


def on(place: str, **different: Any) -> Port:
    """A port on a function such as "10.0": bus and function."""
    return port(device=f"m{place}", bdf=at(place), netdev=f"e{place}", **different)


def at(place: str) -> str:
    bus, _, function = place.partition(".")
    return f"0000:{bus}:00.{function}"


def under(one: Port, **different: Any) -> PciDevice:
    """The function under a port, with what it carries."""
    usual: dict[str, Any] = {"id": one.like.split()[0], "rdma": (one.device,), "netdevs": (one.netdev,)}
    return nic(address=one.bdf, **(usual | different))


def sorted_out(
    *ports: Port, beside: tuple[PciDevice, ...] = (), bond: dict[str, str] | None = None, **more: Any
) -> Kinds:
    """The kinds of ports and of the functions beside them; `bond` is the master by netdev."""
    masters = bond or {}
    netdevs = [name for one in (*map(under, ports), *beside) for name in one.netdevs]
    shown: list[Link] = [link(name=name, master=masters.get(name)) for name in netdevs]
    shown += [link(name=name, bdf="", kind="bond") for name in sorted(set(masters.values()))]
    devices = tuple(device(name=one.device, bdf=one.bdf, id=one.like.split()[0]) for one in ports)
    shared = [name for name in masters.values() if list(masters.values()).count(name) > 1]
    legs = frozenset(one.subject.key for one in ports if masters.get(one.netdev or "") in shared)
    bus = pci(*map(under, ports), *beside)
    return kinds.derive(bus, rdma(*ports, devices=devices), links(*shown, addresses=None), None, legs, **more)


def roles(found: Kinds) -> dict[str, str]:
    """Bus and function by role."""
    return {one.place.removeprefix("0000:").replace(":00", ""): str(one.role) for one in found.members}


ROLES: list[tuple[str, tuple[Port, ...], dict[str, str]]] = [
    ("single-port cards", (on("10.0"), on("11.0", **DOWN)), {"10.0": "rail", "11.0": "rail"}),
    (
        "a second port that was never cabled",
        (on("10.0"), on("10.1", **DOWN), on("11.0"), on("11.1", **DOWN)),
        {"10.0": "rail", "10.1": "spare", "11.0": "rail", "11.1": "spare"},
    ),
    (
        "a card of which the cabled port died",
        (on("10.0"), on("10.1", **DOWN), on("11.0", **DOWN), on("11.1", **DOWN)),
        {"10.0": "rail", "10.1": "spare", "11.0": "rail", "11.1": "spare"},
    ),
    ("a port without an address", (on("10.0"), on("10.1", gids=())), {"10.0": "rail", "10.1": "spare"}),
    ("both ports of a card without one", (on("10.0", gids=()), on("10.1", gids=())), {"10.0": "rail", "10.1": "rail"}),
    ("a front end", (on("10.0"), on("80.0", **SLOW)), {"10.0": "rail", "80.0": "front-end"}),
    (
        "a front end whose second card is dead",
        (on("10.0"), on("80.0", **SLOW), on("81.0", **(SLOW | DOWN))),
        {"10.0": "rail", "80.0": "front-end", "81.0": "front-end"},
    ),
    (
        "ports of two rates, a fast one dead",
        (on("10.0"), on("10.1", rate=100.0), on("11.0", **DOWN), on("11.1", rate=100.0)),
        {"10.0": "rail", "10.1": "front-end", "11.0": "spare", "11.1": "front-end"},
    ),
    (
        "ports of two rates, the fast ones dead",
        (on("10.0", **DOWN), on("10.1", rate=100.0), on("11.0", gids=()), on("11.1", rate=100.0)),
        {"10.0": "spare", "10.1": "rail", "11.0": "spare", "11.1": "rail"},
    ),
    (
        "ports of two rates, the fast ones dead and one card whole",
        (on("10.0", **DOWN), on("10.1", rate=100.0), on("11.0", **DOWN), on("11.1", **DOWN)),
        {"10.0": "spare", "10.1": "rail", "11.0": "spare", "11.1": "rail"},
    ),
    (
        "the same beside a third kind that runs between",
        (
            *(on("10.0", **DOWN), on("10.1", rate=100.0), on("11.0", **DOWN), on("11.1", **DOWN)),
            on("80.0", **(SLOW | {"rate": 200.0})),
        ),
        {"10.0": "spare", "10.1": "front-end", "11.0": "rail", "11.1": "front-end", "80.0": "front-end"},
    ),
    (
        "the fast ones dead, no card whole, beside a third kind that runs between",
        (on("10.0", **DOWN), on("10.1", rate=100.0), on("80.0", **(SLOW | {"rate": 200.0}))),
        {"10.0": "spare", "10.1": "rail", "80.0": "rail"},
    ),
    (
        "a port of each network, the InfiniBand ones dead",
        (on("10.0", **(FABRIC | DOWN)), on("10.1"), on("11.0", **(FABRIC | DOWN)), on("11.1")),
        {"10.0": "spare", "10.1": "rail", "11.0": "spare", "11.1": "rail"},
    ),
    (
        "two ports of one function",
        (on("10.0"), port(device="m10.0", bdf=at("10.0"), number=2, netdev="e10.0", **DOWN)),
        {"10.0": "rail"},
    ),
]


@pytest.mark.parametrize(("shape", "ports", "wanted"), ROLES, ids=lambda value: value if isinstance(value, str) else "")
def test_roles(shape: str, ports: tuple[Port, ...], wanted: dict[str, str]) -> None:
    assert roles(sorted_out(*ports)) == wanted, shape


def test_ports_of_the_other_link_layer_are_no_rails() -> None:
    fabric = on("10.0", layer="InfiniBand", rate=200.0, lid="0x1", sm_lid="0x1")
    assert roles(sorted_out(fabric, on("11.0"), layer="InfiniBand")) == {"10.0": "rail", "11.0": "front-end"}
    assert roles(sorted_out(fabric, on("11.0"))) == {"10.0": "front-end", "11.0": "rail"}


SILENT: list[tuple[str, PciDevice, bool, bool]] = [
    # what is beside a rail of the same model              RDMA is wanted   a member
    ("without its driver", nic(address=at("11.0"), driver=None, rdma=()), False, True),
    ("RDMA is off", nic(address=at("11.0"), rdma=()), False, True),
    ("handed on", nic(address=at("11.0"), driver="vfio-pci", rdma=()), False, False),
    ("kept for another", nic(address=at("11.0"), driver=None, driver_override="vfio-pci", rdma=()), False, False),
    ("a virtual function", nic(address=at("11.0"), rdma=(), virtual_function=True), False, False),
    ("another model", nic(address=at("11.0"), id="8086:1521", rdma=()), True, False),
    (
        "another model that offers RDMA",
        nic(address=at("11.0"), id="8086:1", rdma=(), auxiliaries=(TAKEN,)),
        False,
        True,
    ),
    ("another model by the tables", nic(address=at("11.0"), id="8086:1592", rdma=()), True, True),
    ("another board", nic(address=at("11.0"), subsystem="15b3:1", rdma=()), False, True),
    ("no id", nic(address=at("11.0"), id=BLIND, rdma=()), True, False),
]


@pytest.mark.parametrize(("shape", "beside", "wanted", "member"), SILENT)
def test_functions_that_show_no_rdma_device(shape: str, beside: PciDevice, wanted: bool, member: bool) -> None:
    found = sorted_out(on("10.0"), beside=(beside,), wanted=wanted)
    assert bool(found.at(at("11.0"))) == member, shape


def test_tables_count_only_where_rdma_is_wanted() -> None:
    bus = pci(nic(address=at("10.0"), rdma=()), nic(address=at("11.0"), rdma=()))
    assert len(kinds.derive(bus, rdma(), None, None, wanted=True).members) == 2
    assert kinds.derive(bus, rdma(), None, None).members == ()


def test_a_copy_without_drivers_shows_nothing_of_silent_functions() -> None:
    bus = pci(nic(address=at("10.0"), driver=None, rdma=()), drivers_shown=False)
    assert kinds.derive(bus, rdma(), None, None, wanted=True).members == ()


SECOND = nic(address=at("10.1"), rdma=(), netdevs=("e10.1",))
OFFERING = nic(address=at("10.1"), rdma=(), netdevs=("e10.1",), auxiliaries=(Auxiliary("mlx5_core.rdma.1", None),))
LAG = {"e10.0": "bond0", "e10.1": "bond0"}
LEGS: list[tuple[str, tuple[Port, ...], PciDevice, dict[str, str], bool]] = [
    # a function without RDMA device beside one with                                    a member: it lost its own
    ("of a RoCE LAG", (on("10.0"),), SECOND, LAG, False),
    ("in no bond", (on("10.0"),), SECOND, {}, True),
    ("without its driver", (on("10.0"),), nic(address=at("10.1"), driver=None, rdma=(), netdevs=()), LAG, True),
    ("no driver took the offer", (on("10.0"),), OFFERING, LAG, True),
    ("the first function", (on("10.1"),), nic(address=at("10.0"), rdma=(), netdevs=("e10.0",)), LAG, True),
    ("its like leg has a device", (on("10.0"), on("11.1")), SECOND, LAG | {"e11.1": "bond1"}, True),
    ("its like is no leg", (on("10.0"), on("11.1")), SECOND, LAG, False),
]


@pytest.mark.parametrize(("shape", "ports", "beside", "bond", "member"), LEGS)
def test_a_leg_without_device_is_of_a_lag_or_lost_it(
    shape: str, ports: tuple[Port, ...], beside: PciDevice, bond: dict[str, str], member: bool
) -> None:
    found = sorted_out(*ports, beside=(beside,), bond=bond)
    assert bool(found.at(beside.address)) == member, shape


def test_what_is_given_away_is_no_member_and_says_to_whom() -> None:
    elsewhere = nic(address=at("12.0"), rdma=(), auxiliaries=(TAKEN,))
    bus = pci(
        nic(address=at("10.0"), driver="vfio-pci", rdma=()),
        nic(address=at("11.0"), driver=None, driver_override="uio_pci_generic", rdma=()),
        elsewhere,
    )
    exclusive = RdmaNetlink(0.0, True, (), (), (), (), (), (), "exclusive", ())
    found = kinds.derive(bus, rdma(), None, exclusive, wanted=True)
    assert found.members == ()
    assert found.away == {
        at("10.0"): "vfio-pci",
        at("11.0"): "uio_pci_generic",
        at("12.0"): kinds.ANOTHER_RDMA_NAMESPACE,
    }


def test_a_rail_whose_netdev_is_in_a_pod_is_given_away_where_the_kernel_told_all_netdevs() -> None:
    rail, dead = on("10.0"), on("11.0", **DOWN)
    for addresses, away in (((), {at("10.0"): kinds.ANOTHER_NETWORK_NAMESPACE}), (None, {})):
        bus = pci(under(rail), under(dead))
        found = kinds.derive(bus, rdma(rail, dead), links(addresses=addresses), None)
        assert found.away == away


KINDS: list[tuple[str, list[tuple[str, object]], int]] = [
    # board and subsystem of each rail                                                                kinds
    ("one board", [("A", ""), ("A", "")], 1),
    ("two boards, and no subsystem is shown", [("A", ""), ("B", "")], 2),
    ("two boards of one subsystem", [("A", "15b3:1"), ("B", "15b3:1")], 1),
    ("two subsystems of one board", [("A", "15b3:1"), ("A", "15b3:2")], 2),
    ("one subsystem cannot be read", [("A", "15b3:1"), ("A", BLIND), ("B", "15b3:1")], 1),
    ("nor which one it is", [("A", "15b3:1"), ("A", BLIND), ("A", "15b3:2")], 3),
]


@pytest.mark.parametrize(("shape", "rails", "count"), KINDS)
def test_the_subsystem_makes_the_kind_and_the_board_where_none_is_shown(
    shape: str, rails: list[tuple[str, object]], count: int
) -> None:
    ports = [on(f"1{n}.0", like=f"15b3:1021 {board} Ethernet") for n, (board, _) in enumerate(rails)]
    bus = pci(*(under(one, subsystem=shown) for one, (_, shown) in zip(ports, rails, strict=True)))
    assert len(kinds.derive(bus, rdma(*ports), None, None).by_kind) == count, shape


def test_a_dead_card_whose_board_cannot_be_read_is_a_rail() -> None:
    """A kind of its own that is dead: no port of its card takes the blame."""
    dead = on("12.0", like="15b3:1021 garbage Ethernet", **DOWN)
    assert roles(sorted_out(on("10.0"), on("11.0"), dead)) == {"10.0": "rail", "11.0": "rail", "12.0": "rail"}


def test_camps_and_carrying_ports() -> None:
    found = sorted_out(on("10.0"), on("11.0", **DOWN), on("12.0"))
    (kind,) = found.by_kind
    assert [one.name for one in found.up[kind]] == ["m10.0/1", "m12.0/1"]
    assert [one.name for one in found.down[kind]] == ["m11.0/1"]
    assert {card: len(ports) for card, ports in found.carriers.by_card.items()} == {"0000:10:00": 1, "0000:12:00": 1}
    assert found.speeds == {kind: 400.0}


def test_a_member_that_cannot_be_told_from_a_rail_is_one() -> None:
    """Nothing tells the speed of a dead kind of which slot and card are not shown."""
    dead = on("80.0", **(SLOW | DOWN))
    bus = pci(under(on("10.0")), under(dead, max_speed=None, max_width=None))
    found = kinds.derive(bus, rdma(on("10.0"), dead), None, None)
    assert {one.role for one in found.members} == {Role.RAIL}
    bus = pci(under(on("10.0")), under(dead, max_speed=8.0, max_width=8))
    found = kinds.derive(bus, rdma(on("10.0"), dead), None, None)
    assert [one.role for one in found.members] == [Role.RAIL, Role.FRONT_END]


def test_a_port_of_the_other_network_stands_in_only_where_the_hardware_chose_the_network() -> None:
    ports = (on("10.0", **(FABRIC | DOWN)), on("10.1"), on("11.0", **FABRIC), on("11.1"))
    found = sorted_out(*ports, layer="InfiniBand", firm=False)
    assert roles(found)["10.0"] == "spare"
    assert roles(sorted_out(*ports, layer="InfiniBand", firm=True))["10.0"] == "rail"


def test_the_fastest_sound_ports_stand_in_for_a_faster_kind_without_one() -> None:
    slow = [on(f"8{n}.0", **SLOW) for n in (0, 1)]
    (front,) = {one.kind for one in sorted_out(*slow).members}
    assert sorted_out(on("10.0", **DOWN), on("11.0", gids=()), *slow).stand_ins == {front}
    assert sorted_out(on("10.0", **DOWN), on("11.0"), *slow).stand_ins == set()


def test_a_silent_function_of_a_model_of_both_networks_may_be_a_rail_unless_it_carries_something() -> None:
    ports = (on("10.0", **FABRIC), on("11.0", **FABRIC), on("80.0", rate=100.0))
    silent = nic(address=at("12.0"), rdma=(), netdevs=("e12.0",), pci_class="020000")
    devices = tuple(device(name=one.device, bdf=one.bdf) for one in ports)
    for operstate, layer in (("up", "Ethernet"), ("down", None)):
        shown = links(
            *(link(name=one.netdev) for one in ports), link(name="e12.0", operstate=operstate), addresses=None
        )
        found = kinds.derive(pci(*map(under, ports), silent), rdma(*ports, devices=devices), shown, None)
        assert [one.kind.layer for one in found.at(at("12.0"))] == [layer]
