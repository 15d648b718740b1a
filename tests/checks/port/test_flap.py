"""port.flap: what happened to a link between two looks."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.flap import CHECK, Want
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Link
from nodeprep.facts.rdma.counters import Counters, PortCounters
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Unreadable, Why
from tests.values import link, links, port, rdma, say, verdicts, wanted

PORT = port()
WANTED = wanted(PORT, "profile rails")
SILENT = Unreadable(Why.TIMEOUT, "netlink route")


def counters(value: int | None, *, device: str = "mlx5_3", saturated: bool = False) -> Counters:
    values = () if value is None else (("link_downed", value),)
    stuck = ("link_downed",) if saturated else ()
    return Counters(0.0, (PortCounters(device, 1, PORT.bdf, values, (), stuck),))


def of_links(then: tuple[Link, ...], now: tuple[Link, ...], wants: Expected = WANTED, **options: Any) -> str:
    return say(CHECK, rdma(PORT), wants, links(*now), before=(rdma(PORT), wants, links(*then)), **options)


def of_counters(then: Counters, now: Counters, *more: object) -> str:
    return say(CHECK, rdma(PORT), WANTED, now, *more, before=(rdma(PORT), WANTED, then, *more))


CARRIER = [
    # lost carriers: then, now  says
    (4, 4, "ok Steady"),
    (4, 5, "warn LinkLost"),
    (4, 6, "warn LinkLost"),
    (4, 7, "fail Flapping"),
    (4, 3, "absent Nothing"),  # the driver was bound anew
    (None, 3, "absent Nothing"),
    (4, None, "absent Nothing"),
]


@pytest.mark.parametrize(("then", "now", "says"), CARRIER)
def test_says_of_carriers(then: int | None, now: int | None, says: str) -> None:
    assert of_links((link(downs=then),), (link(downs=now),)) == says


def test_the_operator_says_how_often_is_a_fault() -> None:
    assert of_links((link(downs=0),), (link(downs=2),), want=Want(fail_at=2)) == "fail Flapping"
    assert of_links((link(downs=0),), (link(downs=1),), want=Want(fail_at=2)) == "warn LinkLost"


def test_a_port_that_nobody_wants_may_flap() -> None:
    assert of_links((link(downs=0),), (link(downs=9),), wanted(PORT, None)) == "ok NotNeeded"


@pytest.mark.parametrize(("then", "now"), [(True, False), (False, True), (False, False)])
def test_what_an_administrator_did_is_no_flap(then: bool, now: bool) -> None:
    assert of_links((link(up=then, downs=0),), (link(up=now, downs=5),)) == "absent Nothing"


def test_an_interface_is_found_again_by_function_whatever_it_is_called() -> None:
    assert (
        of_links((link(name="eth7", downs=0), link(bdf="0000:5d:00.0", downs=3)), (link(downs=3),)) == "fail Flapping"
    )


def test_a_new_interface_of_the_old_name_starts_afresh() -> None:
    assert of_links((link(index=4, downs=0),), (link(index=9, downs=3),)) == "absent Nothing"
    assert of_links((link(bdf="0000:5d:00.0", downs=0),), (link(downs=3),)) == "absent Nothing"


def bond(downs: int, leg: int, other: int) -> tuple[Link, ...]:
    return (
        link(kind="bond", bdf="", index=9, downs=downs),
        link(name="leg0", index=5, master="eth2", downs=leg),
        link(name="leg1", index=6, master="eth2", bdf="0000:5c:00.1", downs=other),
    )


def test_a_leg_of_a_bond_counts_for_the_port() -> None:
    assert of_links(bond(0, 0, 0), bond(0, 0, 3)) == "fail Flapping"
    assert of_links(bond(0, 7, 0), bond(1, 7, 0)) == "warn LinkLost"
    assert of_links(bond(0, 7, 0), bond(0, 7, 0)) == "ok Steady"


DOWNED = [
    (4, 4, "ok Steady"),
    (4, 5, "warn LinkLost"),
    (4, 7, "fail Flapping"),
    (255, 3, "absent Nothing"),
    (None, 3, "absent Nothing"),
    (3, None, "absent Nothing"),
]


@pytest.mark.parametrize(("then", "now", "says"), DOWNED)
def test_says_of_link_downed(then: int | None, now: int | None, says: str) -> None:
    assert of_counters(counters(then), counters(now, device="renamed")) == says


def test_a_counter_at_its_maximum_tells_nothing() -> None:
    assert of_counters(counters(255, saturated=True), counters(255, saturated=True)) == "absent Nothing"
    assert of_counters(counters(253), counters(255, saturated=True)) == "warn LinkLost"


def test_link_downed_is_not_counted_while_the_netdev_is_set_down() -> None:
    assert of_counters(counters(0), counters(5), links(link(up=False, downs=0))) == "absent Nothing"
    assert of_counters(counters(0), counters(5), links(link(downs=0))) == "fail Flapping"


def test_an_ipoib_interface_that_is_set_down_hides_no_flap() -> None:
    rail = port(layer="InfiniBand", netdev="ib0")
    down = links(link(name="ib0", up=False, operstate="down", downs=0))
    before = (rdma(rail), WANTED, counters(0), down)
    assert say(CHECK, rdma(rail), WANTED, counters(5), down, before=before) == "fail Flapping"


@pytest.mark.parametrize(("then", "now"), [(True, False), (False, True)])
def test_nor_if_it_was_down_in_one_look_only(then: bool, now: bool) -> None:
    before = (rdma(PORT), WANTED, counters(0), links(link(up=then, downs=0)))
    seen = (rdma(PORT), WANTED, counters(5), links(link(up=now, downs=0)))
    assert say(CHECK, *seen, before=before) == "absent Nothing"


def test_what_only_one_look_shows_is_not_compared() -> None:
    bare, full = (rdma(PORT), WANTED), (rdma(PORT), WANTED, counters(5), links(link(downs=5)))
    assert say(CHECK, *full, before=bare) == "absent Nothing"
    assert say(CHECK, *bare, before=full) == "absent Nothing"
    nothing = (*bare, Counters(0.0, ()), links())
    assert say(CHECK, *full, before=nothing) == "absent Nothing"
    assert say(CHECK, *nothing, before=full) == "absent Nothing"


def test_an_event_that_both_count_is_one() -> None:
    then = (rdma(PORT), WANTED, links(link(downs=0)), counters(0))
    assert say(CHECK, rdma(PORT), WANTED, links(link(downs=2)), counters(2), before=then) == "warn LinkLost"
    assert say(CHECK, rdma(PORT), WANTED, links(link(downs=2)), counters(3), before=then) == "fail Flapping"


def test_a_port_without_netdev_and_counters_is_no_question() -> None:
    bare = port(netdev=None)
    assert say(CHECK, rdma(bare), WANTED, links(link()), before=(rdma(bare), WANTED, links(link()))) == "absent Nothing"


def test_a_look_that_failed_is_no_pass() -> None:
    now = (rdma(PORT), WANTED, links(link(downs=3)))
    unread = links(link(downs=SILENT))
    assert say(CHECK, *now, before=(rdma(PORT), WANTED, unread)) == "unknown CannotLook"


def test_compares_two_looks_only() -> None:
    assert CHECK.rates
    assert say(CHECK, rdma(PORT), WANTED, links(link(downs=9))) == "absent Nothing"


def test_message_counts_and_says_who_wants_it_steady() -> None:
    then = (rdma(PORT), WANTED, links(link(downs=0)))
    (verdict,) = verdicts(CHECK, rdma(PORT), WANTED, links(link(downs=4)), before=then, seconds=12.4)
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0 lost its link 4 times in 12 s; a steady link is wanted by profile rails: "
        "cable, transceiver or switch port (dmesg, ethtool -m); fewer than 3 times are wanted by default (fail-at)"
    )
    assert (verdict.observed, verdict.expected) == ("4", "0")


COMES_UP = [
    # the port before, when the look before was    says
    ({}, 1000.0, "fail Flapping"),
    ({"state": "1: DOWN", "physical": "2: Polling"}, 1000.0, "warn LinkLost"),
    ({"physical": "4: PortConfigurationTraining"}, 1000.0, "warn LinkLost"),
    ({}, 20.0, "warn LinkLost"),
    ({"state": SILENT}, 1000.0, "fail Flapping"),
]


@pytest.mark.parametrize(("then", "at", "says"), COMES_UP)
def test_a_link_that_comes_up_or_a_node_that_boots_convicts_nobody(then: dict[str, Any], at: float, says: str) -> None:
    before = (Rdma(at, (), (port(**then),)), WANTED, counters(0))
    assert say(CHECK, rdma(PORT), WANTED, counters(9), before=before, seconds=60.0) == says
