"""What ought to be on a node: matched by address, by name, by count, or by the best of like ports."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expectancy, Expected
from nodeprep.facts.machine.pci import Auxiliary, Pci
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.job_profile import NO_PROFILE, AtLeast, DeviceWant, Expectation, PortWant, Profile
from nodeprep.model import Unreadable, Why
from nodeprep.values import replace
from tests.values import changed, device, link, links, nic, pci, port, rdma

BLIND = Unreadable(Why.IO_ERROR, "/sys/class/infiniband/mlx5_3/ports/1/state", 5)
RAILS = 8
CX7, CX6 = "15b3:1021", "15b3:101d"
DOWN: dict[str, Any] = {"state": "1: DOWN", "physical": "2: Polling", "rate": 2.5}


def at(index: int, bus: int = 0x10) -> str:
    return f"0000:{bus + index:02x}:00.0"


def rail(index: int, bus: int = 0x10, **different: Any) -> Port:
    usual = {"device": f"mlx5_{index}", "bdf": at(index, bus), "netdev": f"eth{index}"}
    return port(**(usual | different))


def front_end(index: int = 8, **different: Any) -> Port:
    """A 25 Gb/s Ethernet port of another, slower card that is down, as on many nodes."""
    return rail(index, like=f"{CX6} MT_0000000359 Ethernet", **(DOWN | different))


def node(*ports: Port, chip: str = CX7, **of_devices: Any) -> tuple[Pci, Rdma]:
    """PCI and RDMA listing of these ports, each a device of its own."""
    devices = tuple(device(name=one.device, bdf=one.bdf, id=chip, **of_devices) for one in ports)
    slow = {"max_speed": 8.0, "max_width": 8}
    nics = tuple(
        nic(address=one.bdf, id=chip, rdma=(one.device,), **(slow if one.like.startswith(CX6) else {}))
        for one in ports
        if one.bdf
    )
    return pci(*nics), rdma(*ports, devices=devices)


def captured(count: int = RAILS, **different: Any) -> Profile:
    """A profile captured on a node with so many rails, by address."""
    devices = {at(index): DeviceWant(id=CX7, rdma=f"mlx5_{index}") for index in range(count)}
    wants = {f"{at(index)}/1": PortWant(rate=400.0, **different) for index in range(count)}
    return Profile("good", expect=Expectation(devices=devices, ports=wants, any_slot=True))


def at_least(count: int = RAILS, layer: str | None = "Ethernet", rate: float | None = 400.0) -> Profile:
    return Profile("rails", expect=Expectation(at_least=AtLeast(count, layer, rate)))


def wanted(expected: Expected, ports: tuple[Port, ...]) -> dict[str, str | None]:
    return {one.device: expected.of(one) for one in ports}


def missing(expected: Expected) -> list[str]:
    return [absent.subject.name for absent in (*expected.missing_devices, *expected.missing_ports)]


class TestByAddress:
    """A captured profile: exact addresses first."""

    def test_every_port_is_wanted_by_the_profile(self) -> None:
        ports = tuple(map(rail, range(RAILS)))
        expected = inventory.derive(captured(), *node(*ports))
        assert set(wanted(expected, ports).values()) == {"profile good"}
        assert expected.rate(ports[0]) == Expectancy(400.0, "profile good", firm=True)
        assert expected.is_firm(ports[0])
        assert expected.wants_rdma
        assert (missing(expected), expected.moved) == ([], frozenset())

    @pytest.mark.parametrize("lost", range(RAILS))
    def test_one_that_is_gone_is_named_and_no_other_stands_in(self, lost: int) -> None:
        ports = (*(rail(index) for index in range(RAILS) if index != lost), rail(12, like=rail(0).like))
        expected = inventory.derive(captured(), *node(*ports))
        assert missing(expected) == [f"{at(lost)} ({CX7}, mlx5_{lost})", f"mlx5_{lost}/1 at {at(lost)}"]

    def test_a_port_without_its_device_on_the_rdma_side_is_missing_alone(self) -> None:
        listing, seen = node(*map(rail, range(RAILS)))
        expected = inventory.derive(captured(), listing, rdma(*seen.ports[1:], devices=seen.devices[1:]))
        assert missing(expected) == [f"mlx5_0/1 at {at(0)}"]

    def test_without_a_pci_listing_devices_are_not_missed_but_ports_are(self) -> None:
        _, seen = node(*map(rail, range(1, RAILS)))
        expected = inventory.derive(captured(), None, seen)
        assert missing(expected) == [f"mlx5_0/1 at {at(0)}"]

    def test_names_do_not_matter(self) -> None:
        ports = tuple(rail(index, device=f"rocep{RAILS - index}s0") for index in range(RAILS))
        expected = inventory.derive(captured(), *node(*ports))
        assert set(wanted(expected, ports).values()) == {"profile good"}

    def test_what_is_not_required_is_nobodys_concern(self) -> None:
        ports = tuple(map(rail, range(RAILS)))
        expected = inventory.derive(captured(required=False), *node(*ports))
        assert set(wanted(expected, ports).values()) == {None}
        assert expected.rate(ports[0]) is None
        assert not expected.wants_rdma
        assert missing(inventory.derive(captured(required=False), *node())) == [
            f"{at(i)} ({CX7}, mlx5_{i})" for i in range(RAILS)
        ]

    def test_ports_alone_are_found_by_address_too(self) -> None:
        profile = Profile("hand", expect=Expectation(ports={f"{at(1)}/1": PortWant(), f"{at(2)}/1": PortWant()}))
        expected = inventory.derive(profile, *node(rail(1), rail(3)))
        assert expected.of(rail(1)) == "profile hand"
        assert missing(expected) == [f"{at(2)}/1"]

    @pytest.mark.parametrize("gone", range(5))
    def test_four_of_eight_are_named_by_hand_and_the_other_four_do_not_stand_in(self, gone: int) -> None:
        """A.4: neither for the devices nor for the ports, for every number of them that left the bus."""
        devices = {at(index): DeviceWant(id=CX7, rdma=f"mlx5_{index}") for index in range(4)}
        ports = {f"{at(index)}/1": PortWant() for index in range(4)}
        for expect, each in (
            (Expectation(devices), 1),
            (Expectation(ports=ports), 1),
            (Expectation(devices, ports), 2),
        ):
            expected = inventory.derive(Profile("hand", expect=expect), *node(*map(rail, range(gone, RAILS))))
            assert len(missing(expected)) == each * gone

    def test_a_device_whose_address_is_not_shown_may_lie_at_the_one_that_is_named(self) -> None:
        shown = replace(captured(1), expect=replace(captured(1).expect, any_slot=False))
        _, seen = node(rail(0))
        bare = rdma(*(changed(one, bdf="") for one in seen.ports), devices=(changed(seen.devices[0], bdf=""),))
        assert missing(inventory.derive(shown, None, bare, None)) == []

    def test_one_of_eight_like_devices_is_named_and_no_other_stands_in(self) -> None:
        """A.4: nor are two of eight taken for those of a sibling with other slots."""
        for named in (1, 2):
            few = {at(30 + index): DeviceWant(id=CX7, rdma=f"mlx5_{index}") for index in range(named)}
            expected = inventory.derive(Profile("hand", expect=Expectation(few)), *node(*map(rail, range(RAILS))))
            assert len(missing(expected)) == named

    def test_what_a_pod_has_is_elsewhere_and_not_missing(self) -> None:
        """B.11: RDMA namespaces are exclusive, and the device is in one of a pod."""
        listing, seen = node(*map(rail, range(RAILS)))
        taken = (Auxiliary("mlx5_core.rdma.0", "mlx5_ib.rdma"),)
        lent = pci(changed(listing.devices[0], rdma=(), auxiliaries=taken), *listing.devices[1:])
        rest = rdma(*seen.ports[1:], devices=seen.devices[1:])
        exclusive = RdmaNetlink(0.0, True, (), (), (), (), (), (), "exclusive", ())
        for profile in (captured(), at_least(), at_least(rate=None)):
            expected = inventory.derive(profile, lent, rest, None, exclusive)
            assert (missing(expected), expected.shortage) == ([], None)
            gone = inventory.derive(profile, lent, rest, None, None)
            assert missing(gone) == ([f"mlx5_0/1 at {at(0)}"] if profile.expect.ports else [])

    def test_what_is_handed_on_is_short_of_an_operators_count_only(self) -> None:
        listing, seen = node(*map(rail, range(RAILS)))
        lent = pci(changed(listing.devices[0], rdma=(), driver="vfio-pci"), *listing.devices[1:])
        rest = rdma(*seen.ports[1:], devices=seen.devices[1:])
        counted = inventory.derive(at_least(), lent, rest)
        assert counted.shortage is not None
        assert len(counted.rails) == RAILS - 1


class TestOnASibling:
    """A profile of one node held against another."""

    def test_with_other_addresses_names_and_kind_decide(self) -> None:
        ports = tuple(rail(index, bus=0x40) for index in range(RAILS))
        expected = inventory.derive(captured(), *node(*ports))
        assert missing(expected) == []
        assert set(wanted(expected, ports).values()) == {"profile good"}
        assert expected.moved == frozenset(one.bdf for one in ports)

    def test_with_other_addresses_and_names_slot_order_decides(self) -> None:
        ports = tuple(rail(index, bus=0x40, device=f"ibp{index}") for index in range(RAILS))
        profile = captured()
        rates = {f"{at(index)}/1": PortWant(rate=100.0 * (index + 1)) for index in range(RAILS)}
        expected = inventory.derive(replace(profile, expect=replace(profile.expect, ports=rates)), *node(*ports))
        assert [expected.firm[one.subject.key].rate for one in ports] == [100.0 * (n + 1) for n in range(RAILS)]

    def test_half_of_the_addresses_make_it_the_same_node(self) -> None:
        """There what is gone is missing; with fewer, it is another node, and the rest is found by name and kind."""
        half = (*map(rail, range(4)), *(rail(index, bus=0x40) for index in range(4, RAILS)))
        assert len(missing(inventory.derive(captured(), *node(*half)))) == 2 * 4
        fewer = (*map(rail, range(3)), *(rail(index, bus=0x40) for index in range(3, RAILS)))
        assert missing(inventory.derive(captured(), *node(*fewer))) == []

    def test_the_right_name_on_another_kind_does_not_stand_in(self) -> None:
        ports = tuple(rail(index, bus=0x40) for index in range(RAILS))
        assert len(missing(inventory.derive(captured(), *node(*ports, chip=CX6)))) == 2 * RAILS

    def test_a_name_without_a_kind_is_enough(self) -> None:
        names = Expectation({at(n): DeviceWant(rdma=f"mlx5_{n}") for n in range(4)}, any_slot=True)
        ports = tuple(rail(index, bus=0x40) for index in range(4))
        assert missing(inventory.derive(Profile("names", expect=names), *node(*ports))) == []

    def test_another_kind_of_nic_does_not_stand_in(self) -> None:
        ports = tuple(rail(index, bus=0x40, device=f"ens{index}") for index in range(RAILS))
        expected = inventory.derive(captured(), *node(*ports, chip=CX6))
        assert len(missing(expected)) == 2 * RAILS

    def test_virtual_functions_are_not_taken_for_nics(self) -> None:
        listing, seen = node(*(rail(index, bus=0x40) for index in range(RAILS)), virtual_function=True)
        virtual = pci(*(changed(one, virtual_function=True) for one in listing.devices))
        assert len(missing(inventory.derive(captured(), virtual, seen))) == 2 * RAILS

    def test_in_a_tree_without_pci_names_decide(self) -> None:
        """There the kind is a chip's name, which says nothing against a PCI id."""
        ports = tuple(rail(index, bdf="") for index in range(RAILS) if index != 5)
        devices = tuple(device(name=one.device, bdf="", id="") for one in ports)
        expected = inventory.derive(captured(), None, rdma(*ports, devices=devices))
        assert set(wanted(expected, ports).values()) == {"profile good"}
        assert missing(expected) == [f"mlx5_5/1 at {at(5)}"]

    def test_a_capture_without_pci_is_matched_by_name(self) -> None:
        names = [f"mlx5_{index}" for index in range(RAILS)]
        wants = Expectation({n: DeviceWant(id="MT4129") for n in names}, {f"{n}/1": PortWant() for n in names})
        ports = tuple(rail(index, bdf="") for index in range(RAILS) if index != 5)
        devices = tuple(device(name=one.device, bdf="", id="") for one in ports)
        assert missing(inventory.derive(Profile("flat", expect=wants), None, rdma(*ports, devices=devices))) == [
            "mlx5_5/1"
        ]
        full = inventory.derive(Profile("flat", expect=wants), *node(*map(rail, range(RAILS))))
        assert missing(full) == []


class TestAtLeast:
    """A count rests on the ports that fit it; who is to blame where too few do."""

    BY = "profile rails (at least 8 ports)"

    def test_enough_that_fit_leave_the_others_alone(self) -> None:
        ports = (*map(rail, range(RAILS)), front_end())
        expected = inventory.derive(at_least(), *node(*ports))
        assert expected.shortage is None
        assert expected.of(ports[-1]) is None
        assert (expected.of(ports[0]), expected.is_firm(ports[0])) == (self.BY, True)
        assert expected.rate(ports[0]) == Expectancy(400.0, "profile rails", firm=True)

    @pytest.mark.parametrize("unfit", [DOWN, {"rate": 200.0}, {"state": BLIND}, {"rate": BLIND}, {"layer": BLIND}])
    def test_one_that_does_not_fit_is_blamed_and_no_front_end_port(self, unfit: dict[str, Any]) -> None:
        ports = (rail(0, **unfit), *map(rail, range(1, RAILS)), front_end())
        expected = inventory.derive(at_least(), *node(*ports))
        assert (expected.of(ports[0]), expected.of(ports[-1])) == (self.BY, None)
        assert expected.shortage is None

    def test_one_that_is_gone_is_counted_although_a_front_end_port_is_there(self) -> None:
        ports = (*map(rail, range(7)), front_end(), front_end(9))
        expected = inventory.derive(at_least(), *node(*ports))
        assert expected.shortage is not None
        assert (expected.shortage.have, expected.shortage.want) == (7, 8)
        assert (expected.shortage.of, expected.shortage.by) == ("Ethernet 400 Gb/s ports", self.BY)
        assert (expected.of(ports[-1]), expected.of(ports[0])) == (None, self.BY)

    def test_the_same_chip_on_another_board_is_a_rail_too(self) -> None:
        odd = rail(7, like=f"{CX7} MT_0000000999 Ethernet", **DOWN)
        ports = (*map(rail, range(7)), odd, front_end())
        expected = inventory.derive(at_least(), *node(*ports))
        assert (expected.shortage, expected.of(odd), expected.of(ports[-1])) == (None, self.BY, None)

    def test_where_none_fits_the_kind_with_enough_ports_is_meant(self) -> None:
        ports = (*(rail(index, **DOWN) for index in range(RAILS)), front_end())
        expected = inventory.derive(at_least(), *node(*ports))
        assert [expected.of(one) for one in ports] == [self.BY] * RAILS + [None]

    def test_where_none_fits_a_slower_kind_fills_no_count(self) -> None:
        ports = (rail(0, **DOWN), front_end())
        expected = inventory.derive(at_least(2), *node(*ports))
        assert [expected.of(one) for one in ports] == ["profile rails (at least 2 ports)", None]
        assert expected.shortage is not None
        assert (expected.shortage.have, expected.shortage.want) == (1, 2)

    @pytest.mark.parametrize(
        ("down", "front", "have", "blamed"),
        [(0, 100.0, None, 0), (4, 100.0, None, 4), (8, 100.0, None, 8)],
    )
    def test_a_count_without_a_rate_is_not_filled_up_by_the_front_end(
        self, down: int, front: float, have: int | None, blamed: int
    ) -> None:
        up: dict[str, Any] = {"state": "4: ACTIVE", "physical": "5: LinkUp", "rate": front}
        fronts = [front_end(8 + index, **up) for index in range(4)]
        ports = (*(rail(n, **DOWN) for n in range(down)), *(rail(n) for n in range(down, RAILS)), *fronts)
        expected = inventory.derive(at_least(rate=None), *node(*ports))
        assert (expected.shortage.have if expected.shortage else None) == have
        assert [expected.of(one) for one in ports] == [self.BY] * RAILS + [None] * 4
        assert len([one for one in ports[:RAILS] if not inventory.is_active(one)]) == blamed

    def test_four_rails_and_four_front_end_ports_are_not_eight_but_two_models_of_rails_are(self) -> None:
        up: dict[str, Any] = {"state": "4: ACTIVE", "physical": "5: LinkUp"}
        for rate, short in ((100.0, 4), (200.0, None)):
            ports = (*map(rail, range(4)), *(front_end(8 + index, rate=rate, **up) for index in range(4)))
            shortage = inventory.derive(at_least(rate=None), *node(*ports)).shortage
            assert (shortage.have if shortage else None) == short

    def test_spares_are_blamed_only_where_too_few_others_are_up(self) -> None:
        cards = [
            port(device=f"m{n}{f}", bdf=f"0000:1{n}:00.{f}", netdev=f"e{n}{f}", **(DOWN if f else {}))
            for n in range(4)
            for f in (0, 1)
        ]
        for count, blamed in ((4, 4), (8, 8)):
            expected = inventory.derive(at_least(count, rate=None), *node(*cards))
            assert expected.shortage is None
            assert sum(expected.of(one) is not None for one in cards) == blamed

    def test_another_link_layer_does_not_count(self) -> None:
        ports = tuple(rail(index, layer="InfiniBand") for index in range(RAILS))
        expected = inventory.derive(at_least(), *node(*ports))
        assert expected.shortage is not None
        assert expected.shortage.have == 0

    def test_no_port_at_all_is_a_shortage(self) -> None:
        expected = inventory.derive(at_least(layer=None, rate=None), *node())
        assert expected.shortage is not None
        assert expected.shortage.of == "ports"

    def test_a_count_without_a_rate_asks_for_none(self) -> None:
        ports = (rail(0, rate=2.5), rail(1, rate=BLIND))
        expected = inventory.derive(at_least(2, rate=None), *node(*ports))
        assert expected.shortage is None
        assert expected.of(ports[1]) == "profile rails (at least 2 ports)"

    def test_virtual_functions_do_not_count(self) -> None:
        ports = tuple(map(rail, range(RAILS)))
        expected = inventory.derive(at_least(), *node(*ports, virtual_function=True))
        assert expected.shortage is not None


class TestKinds:
    """Without a profile, one good port of a kind shows what the others can do."""

    @pytest.mark.parametrize("down", range(9))
    def test_each_rail_is_wanted_however_many_are_down(self, down: int) -> None:
        ports = (*(rail(index, **DOWN) for index in range(down)), *map(rail, range(down, RAILS)))
        expected = inventory.derive(NO_PROFILE, *node(*ports))
        assert set(wanted(expected, ports).values()) == {f"one of 8 rails, {RAILS - down} of them up"}
        assert not any(map(expected.is_firm, ports))

    def test_slower_hardware_is_the_front_end(self) -> None:
        ports = (*map(rail, range(RAILS)), front_end(), front_end(9), front_end(10))
        assert inventory.derive(NO_PROFILE, *node(*ports)).of(ports[-1]) is None

    def test_rails_are_the_fastest_kind_also_where_all_of_them_are_down(self) -> None:
        """What slot and card carry, 400 Gb/s, is more than the front end runs at."""
        up: dict[str, Any] = {"state": "4: ACTIVE", "physical": "5: LinkUp", "rate": 100.0}
        ports = (*(rail(index, **DOWN) for index in range(RAILS)), front_end(**up), front_end(9, **up))
        expected = inventory.derive(NO_PROFILE, *node(*ports))
        assert [expected.of(one) is not None for one in ports] == [True] * RAILS + [False] * 2

    @pytest.mark.parametrize(
        ("rates", "best"),
        [((400.0, 200.0), 400.0), ((200.0, 400.0, 200.0, 200.0), 400.0), ((200.0, 200.0), 200.0), ((200.0,), None)],
    )
    def test_the_best_rate_of_the_kind(self, rates: tuple[float, ...], best: float | None) -> None:
        ports = (*(rail(index, rate=rate) for index, rate in enumerate(rates)),)
        expected = inventory.derive(NO_PROFILE, *node(*ports))
        assert {value_of(expected.rate(one)) for one in ports} == {best}
        down = (*ports, rail(8, **DOWN))
        assert value_of(inventory.derive(NO_PROFILE, *node(*down)).rate(down[-1])) == (best or rates[0])

    def test_one_whose_link_layer_cannot_be_read_is_like_its_card(self) -> None:
        odd = rail(7, layer=BLIND, like=f"{CX7} MT_0000000838", **DOWN)
        ports = (*map(rail, range(7)), odd)
        expected = inventory.derive(NO_PROFILE, *node(*ports))
        assert expected.of(odd) == "one of 8 rails, 7 of them up"
        assert len(expected.kinds.by_kind) == 1
        mixed = (*ports, *(rail(n, layer="InfiniBand") for n in (8, 9, 10)))
        assert len(inventory.derive(NO_PROFILE, *node(*mixed)).kinds.by_kind) == 3

    def test_legs_that_share_a_bond_are_not_wanted_for_themselves(self) -> None:
        ports = (*map(rail, range(5)), rail(5, **DOWN), rail(6, netdev=None, bdf="0000:70:00.0", **DOWN), rail(7))
        legs = [link(name=f"eth{index}", bdf=at(index), master="bond0") for index in (4, 5)]
        hidden = link(name="ens7", bdf="0000:70:00.0", master="bond0")
        single = link(name="eth7", bdf=at(7), master="bond1")
        others = [link(name=f"eth{index}", bdf=at(index)) for index in range(4)]
        listing = node(*ports)
        expected = inventory.derive(NO_PROFILE, *listing, links(*others, *legs, hidden, single, addresses=None))
        assert [expected.of(one) is not None for one in ports] == [True] * 4 + [False] * 3 + [True]
        assert expected.of_bond(ports[5]) is not None
        assert inventory.derive(NO_PROFILE, *listing).of(ports[5]) is not None

    def test_virtual_functions_have_no_say_and_nobody_wants_them(self) -> None:
        ports = (*map(rail, range(7)), rail(7, **DOWN))
        expected = inventory.derive(NO_PROFILE, *node(*ports, virtual_function=True))
        assert set(wanted(expected, ports).values()) == {None}


def value_of(wish: Expectancy[float] | None) -> float | None:
    return None if wish is None else wish.value


def test_nothing_seen_at_all_is_everything_missing() -> None:
    expected = inventory.derive(captured(2), None, None)
    assert missing(expected) == [f"mlx5_0/1 at {at(0)}", f"mlx5_1/1 at {at(1)}"]


RAIL = st.fixed_dictionaries(
    {
        "state": st.sampled_from(["4: ACTIVE", "1: DOWN", "2: INIT", BLIND]),
        "rate": st.sampled_from([400.0, 200.0, 25.0, BLIND]),
        "layer": st.sampled_from(["Ethernet", "InfiniBand", BLIND]),
        "like": st.sampled_from([f"{CX7} MT_0000000838 Ethernet", f"{CX7} MT_1 Ethernet", f"{CX6} MT_2 InfiniBand"]),
    }
)
PROFILES = st.sampled_from([NO_PROFILE, at_least(4), at_least(2, None, None), captured(6), captured(8)])


@settings(deadline=None)
@given(rails=st.lists(RAIL, min_size=4, max_size=8), profile=PROFILES, order=st.randoms(use_true_random=False))
def test_renaming_every_device_changes_nothing_of_who_is_wanted(
    rails: list[dict[str, Any]], profile: Profile, order: Any
) -> None:
    """Also where names are exchanged: at least half of the addresses fit, so names are for messages only."""
    ports = tuple(rail(index, **one) for index, one in enumerate(rails))
    names = [f"mlx5_{index}" for index in range(12)]
    order.shuffle(names)
    renamed = tuple(changed(one, device=name, netdev=f"net-{name}") for one, name in zip(ports, names, strict=False))
    before, after = inventory.derive(profile, *node(*ports)), inventory.derive(profile, *node(*renamed))
    assert [before.of(one) for one in ports] == [after.of(one) for one in renamed]
    assert [value_of(before.rate(one)) for one in ports] == [value_of(after.rate(one)) for one in renamed]
    assert (before.shortage, missing(before)) == (after.shortage, missing(after))
