"""port.netdev: there, up, and on the same card."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.netdev import CHECK
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Link, Links
from nodeprep.job_profile import PortWant
from nodeprep.model import Unreadable, Why
from tests.values import beside, by_kind, changed, device, expected, link, links, port, rdma, say, verdicts

KEY = "0000:5c:00.0/1"
NAMED = expected(firm={KEY: PortWant(netdev="eth2")})
PLAIN = expected(firm={KEY: PortWant()})
ALIKE = expected(rails={KEY: "7 of 8 alike"})
CUT = Unreadable(Why.MALFORMED, "/sys/class/net/eth2/operstate")
FLAGS = Unreadable(Why.MISSING, "/sys/class/net/eth2/flags")
DOWN = {"state": "1: DOWN"}

STATES = [
    # port  netdev                                    says
    ({}, {}, "ok Netdev"),
    ({}, {"operstate": "unknown"}, "ok Netdev"),
    ({}, {"operstate": "down", "up": False}, "fail NetdevDown link_up(interface=eth2)"),
    ({}, {"operstate": "down", "up": True}, "fail NetdevNotRunning"),
    ({}, {"operstate": "down", "up": FLAGS}, "fail NetdevNotRunning"),  # nobody is accused
    ({}, {"operstate": "up", "up": FLAGS}, "ok Netdev"),
    ({}, {"operstate": CUT, "up": False}, "fail NetdevDown"),
    ({}, {"operstate": "unknown", "carrier": None, "up": False}, "fail NetdevDown link_up(interface=eth2)"),
    ({}, {"operstate": "lowerlayerdown"}, "fail NetdevNotRunning"),
    ({}, {"operstate": "dormant"}, "fail NetdevNotRunning"),
    ({}, {"operstate": CUT}, "unknown CannotLook"),
    (DOWN, {"operstate": "down", "up": False}, "ok Netdev"),
    ({}, {"bdf": "0000:5d:00.0"}, "fail OtherFunction"),
    (DOWN, {"bdf": "0000:5d:00.0"}, "fail OtherFunction"),
    ({}, {"bdf": "0000:5d:00.0", "master": "bond0"}, "ok Netdev"),  # RoCE LAG: either leg may carry it
    ({}, {"bdf": ""}, "ok Netdev"),
]


@pytest.mark.parametrize(("what", "netdev", "says"), STATES)
def test_says_by_state(what: dict[str, Any], netdev: dict[str, Any], says: str) -> None:
    assert say(CHECK, rdma(port(**what)), NAMED, links(link(**netdev))) == says


CONCERNS = [
    ({}, PLAIN, "fail NetdevNotRunning"),
    ({}, ALIKE, "fail NetdevNotRunning"),
    ({}, expected(counted={KEY: "profile"}), "fail NetdevNotRunning"),
    ({}, expected(), "absent Nothing"),
    ({}, expected(firm={KEY: PortWant(netdev="eth2", required=False)}), "absent Nothing"),
    ({"layer": "InfiniBand"}, PLAIN, "absent Nothing"),
    ({"layer": "InfiniBand"}, NAMED, "fail NetdevNotRunning"),
    ({"layer": CUT}, PLAIN, "fail NetdevNotRunning"),  # its entry of RoCE v2 says that it is Ethernet
    ({"layer": CUT, "gids": ()}, PLAIN, "unknown CannotLook"),
    ({"layer": CUT}, expected(), "absent Nothing"),
]


@pytest.mark.parametrize(("what", "wants", "says"), CONCERNS)
def test_says_by_who_asks(what: dict[str, Any], wants: Expected, says: str) -> None:
    assert say(CHECK, rdma(port(**what)), wants, links(link(operstate="down"))) == says


OTHER = port(device="mlx5_4", bdf="0000:5d:00.0", netdev="eth3")
LIVE, DEAD = links(link(name="eth3", bdf="0000:5d:00.0")), links(link(name="eth3", bdf="0000:5d:00.0"), addresses=None)
EMPTY = links(addresses=None)
GONE = [
    # port                                     asked  links  says
    ({"netdev": None}, PLAIN, LIVE, "ok NetdevElsewhere"),  # a container's namespace has it
    ({"netdev": "eth2"}, NAMED, LIVE, "ok NetdevElsewhere"),
    ({"netdev": None} | DOWN, PLAIN, LIVE, "fail NoNetdev"),
    ({"netdev": None, "layer": "InfiniBand"}, NAMED, LIVE, "fail NoNetdev"),
    ({"netdev": None}, NAMED, DEAD, "fail NoNetdev"),
    ({"netdev": None}, NAMED, EMPTY, "absent Nothing"),
    ({"netdev": None}, PLAIN, DEAD, "fail NoNetdev"),
    ({"netdev": "eth2"}, ALIKE, DEAD, "fail NoNetdev"),
    ({"netdev": None}, PLAIN, EMPTY, "absent Nothing"),  # a tree that records no netdev of any port
    ({"netdev": "eth2"}, ALIKE, EMPTY, "absent Nothing"),
]


@pytest.mark.parametrize(("what", "wants", "seen", "says"), GONE)
def test_says_where_there_is_none(what: dict[str, Any], wants: Expected, seen: Links, says: str) -> None:
    assert say(CHECK, rdma(port(**what), OTHER), wants, seen) == says


def test_other_fabrics_prove_nothing_of_what_a_tree_records() -> None:
    storage = port(device="mlx5_4", bdf="0000:5d:00.0", netdev="eth3", layer="InfiniBand")
    blind = port(device="mlx5_4", bdf="0000:5d:00.0", netdev="eth3", layer=CUT)
    for other in (storage, blind):
        assert say(CHECK, rdma(port(netdev=None), other), PLAIN, DEAD) == "absent Nothing"


def test_where_the_tree_shows_no_name_the_one_on_the_function_counts() -> None:
    assert say(CHECK, rdma(port(netdev=None)), PLAIN, links(link(operstate="down", up=False))) == (
        "fail NetdevDown link_up(interface=eth2)"
    )


def test_an_excluded_netdev_is_not_a_missing_one() -> None:
    assert say(CHECK, rdma(port()), PLAIN, links(hidden=("eth2",), addresses=None)) == "unknown CannotLook"
    assert say(CHECK, rdma(port()), PLAIN, links(link(), hidden=("eth7",), addresses=None)) == "ok Netdev"


def test_messages() -> None:
    (down,) = verdicts(CHECK, rdma(port()), ALIKE, links(link(operstate="down", up=False)))
    assert down.message == (
        "netdev eth2 of mlx5_3/1 at 0000:5c:00.0 was set down here while the port is ACTIVE; "
        "it is wanted up by 7 of 8 alike"
    )
    (unknown,) = verdicts(CHECK, rdma(port()), ALIKE, links(link(operstate="down", up=FLAGS)))
    assert unknown.message.endswith("wanted up by 7 of 8 alike: ip link show eth2 (flag UP), dmesg")
    (gone,) = verdicts(CHECK, rdma(port(netdev=None), OTHER), NAMED, DEAD)
    assert gone.message == (
        "mlx5_3/1 at 0000:5c:00.0 has no netdev here (eth2); wanted by profile test: "
        "see whether its driver made one (dmesg, ip -d link)"
    )
    (other,) = verdicts(CHECK, rdma(port()), NAMED, links(link(bdf="0000:5d:00.0")))
    assert other.message == (
        "netdev eth2 of mlx5_3/1 at 0000:5c:00.0 is on another function, 0000:5d:00.0; see ls -l /sys/class/net"
    )


def test_the_netdev_of_an_elastic_rdma_interface_is_another_functions() -> None:
    beside = links(link(bdf="0000:5d:00.0"))
    assert say(CHECK, rdma(port(), devices=(device(id="1ded:107f"),)), PLAIN, beside) == "ok Netdev"
    assert say(CHECK, rdma(port(), devices=(device(),)), PLAIN, beside) == "fail OtherFunction"


LEFT, RIGHT = link(), link(name="eth3", bdf="0000:5c:00.1")
SECOND = [
    # netdev of the second port of a card whose first is good   says of the second
    ((LEFT, changed(RIGHT, operstate="down")), "warn NetdevNotRunning"),
    ((LEFT, changed(RIGHT, operstate="down", up=False)), "warn NetdevDown link_up(interface=eth3)"),
    ((LEFT, RIGHT), "ok Netdev"),
]


@pytest.mark.parametrize(("found", "says"), SECOND)
def test_the_other_port_of_the_card_stands_in(found: tuple[Link, ...], says: str) -> None:
    seen, netdevs = rdma(port(), beside()), links(*found, addresses=None)
    assert say(CHECK, seen, by_kind(seen, netdevs), netdevs) == f"ok Netdev; {says}"


def test_a_second_port_without_an_address_only_warns_of_its_netdev() -> None:
    seen = rdma(port(), beside(gids=()))
    far = links(LEFT, changed(RIGHT, bdf="0000:5d:00.0"), addresses=None)
    assert say(CHECK, seen, by_kind(seen, far), far) == "ok Netdev; warn OtherFunction"
    none = links(LEFT, addresses=None)
    assert say(CHECK, seen, by_kind(seen, none), none) == "ok Netdev; warn NoNetdev"


IB = {"layer": "InfiniBand", "lid": "0x1", "sm_lid": "0x1"}
IPOIB = [
    # states of two IPoIB interfaces   says
    (("up", "up"), "absent Nothing"),
    (("up", "down"), "warn IpoibDown"),
    (("down", "down"), "absent Nothing"),
]


@pytest.mark.parametrize(("states", "says"), IPOIB)
def test_an_ipoib_interface_is_told_where_its_likes_have_theirs_up(states: tuple[str, str], says: str) -> None:
    other = port(device="mlx5_4", bdf="0000:5d:00.0", netdev="eth3", **IB)
    netdevs = links(link(operstate=states[0]), link(name="eth3", bdf="0000:5d:00.0", operstate=states[1]))
    seen = rdma(port(**IB), other)
    assert say(CHECK, seen, by_kind(seen, netdevs), netdevs) == says
