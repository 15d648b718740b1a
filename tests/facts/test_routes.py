"""Routes: which pods a node has, and what the kernel is asked about them; without Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nodeprep.door_values import RoutingRule
from nodeprep.doors.netlink import routing as door
from nodeprep.doors.netlink.interfaces import AddressInfo, LinkInfo, NeighbourInfo
from nodeprep.doors.netlink.routing import RouteLookup, RoutingTables
from nodeprep.doors.node_host import Host
from nodeprep.facts.network import routes as routes_facts
from nodeprep.facts.network.routes import FACT, PODS_LIMIT, Route, RouteAnswer, Routes
from nodeprep.model import Unreadable, Why
from tests.route_values import route, rule


def device(index: int, name: str, kind: str | None) -> LinkInfo:
    unsaid = (name for name in LinkInfo.__struct_fields__ if name not in ("index", "name", "kind"))
    return LinkInfo(index=index, name=name, kind=kind, **dict.fromkeys(unsaid))  # type: ignore[arg-type]


DEVICES = {
    number: device(number, name, kind)
    for number, name, kind in (
        (1, "lo", None),
        (2, "eth0", None),
        (3, "cali1", "veth"),
        (4, "cni0", "bridge"),
        (5, "docker0", "bridge"),
        (6, "wg0", "wireguard"),
    )
}
ETH0, CALI, CNI, DOCKER, WG = 2, 3, 4, 5, 6


class Told(Host):
    """A host whose kernel has these tables, and remembers what it is asked."""

    def __init__(
        self,
        tables: RoutingTables | Unreadable,
        answer: Unreadable | None = None,
        kinds: frozenset[str | None] | None = None,
    ) -> None:
        super().__init__(physical_kinds=kinds or frozenset({None}))
        self.tables = tables
        self.answer = answer
        self.asked: list[tuple[str, str, int]] = []

    def route_tables(self) -> RoutingTables | Unreadable:
        return self.tables

    def ways(self, packets: Sequence[tuple[str, str, int]]) -> tuple[RouteLookup, ...] | Unreadable:
        self.asked = list(packets)
        return self.answer or tuple(RouteLookup(ETH0, "10.1.0.254", 254, "unicast", None) for _ in packets)


def to(destination: str, oif: int, **different: Any) -> door.KernelRoute:
    usual: dict[str, Any] = {"family": "inet", "table": 254, "destination": destination, "via": "", "oif": oif}
    return door.KernelRoute(**(usual | {"metric": 0, "scope": "link", "kind": "unicast", "onlink": False} | different))


def tables(*routes: door.KernelRoute, neighbours: tuple[NeighbourInfo, ...] = (), **different: Any) -> RoutingTables:
    addresses = (
        AddressInfo(ETH0, "inet", "10.1.0.1", 24, "global", False),
        AddressInfo(CNI, "inet", "10.2.0.1", 24, "", False),
    )
    usual: dict[str, Any] = {"devices": DEVICES, "addresses": addresses, "neighbours": neighbours, "rules": ()}
    return RoutingTables(**(usual | {"routes": routes} | different))


DEFAULT = to("default", ETH0, via="10.1.0.254", scope="global")
POD = to("10.1.0.134/32", CALI)

PODS: list[tuple[tuple[door.KernelRoute, ...], list[tuple[str, int]]]] = [
    ((POD,), [("10.1.0.134", CALI)]),  # Terway, Calico, Cilium, EKS, GKE
    ((POD, to("10.1.0.135/32", CALI)), [("10.1.0.134", CALI), ("10.1.0.135", CALI)]),
    ((to("10.1.0.0/24", CALI),), []),
    ((to("10.1.0.134/32", CALI, via="10.1.0.1"),), []),
    ((to("10.1.0.134/32", CALI, table=1006),), []),
    ((to("10.1.0.134/32", CALI, kind="local"),), []),
    ((to("fd00::9/128", CALI, family="inet6"),), []),
    ((to("10.1.0.134/32", ETH0),), []),
    ((to("10.1.0.254/32", CALI), to("10.9.0.0/16", CALI, via="10.1.0.254")), []),  # a gateway, where the NIC is a veth
    ((POD, to("10.9.0.0/16", ETH0, via="10.1.0.134")), [("10.1.0.134", CALI)]),
    ((to("10.1.0.134/32", WG),), []),  # a tunnel's far end
    ((to("10.1.0.134/32", 99),), []),
    ((to("10.2.0.0/24", CNI),), [("10.2.0.2", CNI)]),  # the first address that is not ours
    ((to("172.17.0.0/16", DOCKER),), []),
    ((to("10.2.0.1/32", CNI),), []),  # no address but ours
]


@pytest.mark.parametrize(("routes", "found"), PODS)
def test_pods(routes: tuple[door.KernelRoute, ...], found: list[tuple[str, int]]) -> None:
    host = Told(tables(*routes))
    seen = routes_facts.observe(host)
    assert isinstance(seen, Routes)
    assert host.asked == [(pod, "8.8.8.8", index) for pod, index in found]
    assert seen.back == ()  # no default route: nobody to come from


def test_a_default_route_by_a_bridge_is_no_subnet_of_pods() -> None:
    host = Told(tables(to("default", CNI), to("10.2.0.0/24", CNI)))
    seen = routes_facts.observe(host)
    assert isinstance(seen, Routes)
    assert [answer.pod for answer in seen.out] == ["10.2.0.2"]


NEIGHBOURS: list[tuple[tuple[NeighbourInfo, ...], str]] = [
    ((), "10.2.0.2"),
    ((NeighbourInfo(CNI, "10.2.0.9", "02:00:00:00:00:09", "STALE"),), "10.2.0.9"),
    ((NeighbourInfo(CNI, "10.2.0.9", None, "FAILED"),), "10.2.0.2"),
    ((NeighbourInfo(ETH0, "10.2.0.9", None, "REACHABLE"),), "10.2.0.2"),
    ((NeighbourInfo(CNI, "fe80::9", None, "REACHABLE"),), "10.2.0.2"),
    ((NeighbourInfo(CNI, "10.9.0.9", None, "REACHABLE"),), "10.2.0.2"),
]


@pytest.mark.parametrize(("neighbours", "pod"), NEIGHBOURS)
def test_one_neighbour_stands_for_the_pods_of_a_bridge(neighbours: tuple[NeighbourInfo, ...], pod: str) -> None:
    host = Told(tables(to("10.2.0.0/24", CNI), neighbours=neighbours))
    routes_facts.observe(host)
    assert host.asked == [(pod, "8.8.8.8", CNI)]


BACK: list[tuple[tuple[door.KernelRoute, ...], list[tuple[str, str, int]]]] = [
    ((DEFAULT,), [("10.1.0.254", "10.1.0.134", ETH0)]),
    ((to("default", ETH0, via="10.1.0.9", metric=9), DEFAULT), [("10.1.0.254", "10.1.0.134", ETH0)]),
    ((to("default", ETH0),), [("10.1.0.2", "10.1.0.134", ETH0)]),  # no gateway: a neighbour of ours
    ((to("default", ETH0, via="fe80::1"),), [("10.1.0.2", "10.1.0.134", ETH0)]),
    ((to("default", WG),), []),  # no address there
    ((to("default", 0, kind="unreachable"),), []),
    ((to("default", ETH0, via="fd00::1", family="inet6"),), []),
    ((to("default", ETH0, via="10.1.0.254", table=1006),), []),
    ((), []),
]


@pytest.mark.parametrize(("routes", "asked"), BACK)
def test_the_way_back(routes: tuple[door.KernelRoute, ...], asked: list[tuple[str, str, int]]) -> None:
    host = Told(tables(POD, *routes))
    routes_facts.observe(host)
    assert host.asked[1:] == asked


def test_what_stands_for_nics_in_a_rig_has_no_pods() -> None:
    host = Told(tables(POD), kinds=frozenset({None, "veth"}))
    routes_facts.observe(host)
    assert host.asked == []


def test_no_more_pods_than_a_node_has() -> None:
    host = Told(tables(DEFAULT, *(to(f"10.3.{number // 250}.{number % 250}/32", CALI) for number in range(1000))))
    seen = routes_facts.observe(host)
    assert isinstance(seen, Routes)
    assert (len(seen.out), len(seen.back), len(host.asked)) == (PODS_LIMIT, PODS_LIMIT, 2 * PODS_LIMIT)


def test_each_value_is_in_its_place() -> None:
    rules = (RoutingRule("inet", 2048, "10.1.0.134/32", "", "cali1", "eth1", 16, 1006, "lookup", inverted=True),)
    elsewhere = to("default", 99, via="10.1.0.253", table=1006, metric=7, scope="global", onlink=True)
    seen = routes_facts.observe(Told(tables(POD, elsewhere, rules=rules)))
    assert isinstance(seen, Routes)
    assert seen.rules == (
        RoutingRule("inet", 2048, "10.1.0.134/32", "", "cali1", "eth1", 16, 1006, "lookup", inverted=True),
    )
    assert seen.table(1006) == (
        Route("inet", 1006, "default", "10.1.0.253", "99", 7, "global", "unicast", onlink=True),
    )
    assert seen.out == (RouteAnswer("10.1.0.134", "cali1", "10.1.0.134", "8.8.8.8", "eth0", "10.1.0.254", None, 254),)


REFUSED = Unreadable(Why.DENIED, "netlink route", 1)


def test_a_kernel_that_refuses() -> None:
    assert routes_facts.observe(Told(REFUSED)) == REFUSED
    assert routes_facts.observe(Told(tables(POD), REFUSED)) == REFUSED


def test_a_dead_tree_has_none() -> None:
    assert FACT.live


def test_this_machines_own() -> None:
    seen = routes_facts.observe(Host())
    assert isinstance(seen, Routes)
    assert any(one.table == 255 and one.priority == 0 for one in seen.rules)
    assert any(one.oif == "lo" and one.kind == "local" for one in seen.table(255))


WORDS = [
    (rule(), "2048: from 192.168.0.134/32 lookup 1006"),
    (rule(source="", destination="10.0.0.0/8", table=254), "2048: from all to 10.0.0.0/8 lookup 254"),
    (rule(action="prohibit", inverted=True), "2048: not from 192.168.0.134/32 prohibit"),
    (rule(mark=16, iif="a", oif="b"), "2048: from 192.168.0.134/32 fwmark 0x10 iif a oif b lookup 1006"),
    (route(), "default via 192.168.0.253 dev eth0"),
    (route(metric=100, via=""), "default dev eth0 metric 100"),
    (route(kind="blackhole", via="", oif=""), "blackhole default"),
]


@pytest.mark.parametrize(("thing", "words"), WORDS)
def test_as_ip_shows_it(thing: RoutingRule | Route, words: str) -> None:
    assert str(thing) == words
