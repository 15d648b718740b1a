"""route.tables: the number tells the ENI, the routes must lead there."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.route.tables import CHECK
from nodeprep.door_values import RoutingRule
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.network.routes import Route
from nodeprep.model import Unreadable, Why, guarded
from tests.cni_values import terway
from tests.imds_values import NOT_ECS, SHARED_MAC, imds, instance, interface, shared
from tests.route_values import route, routes, rule, rules_of, way
from tests.values import link, links, say, verdicts

ETH0 = link(name="eth0", index=2, permanent_mac="00:16:3e:00:00:01")
ETH1 = link(name="eth1", index=6, permanent_mac=SHARED_MAC)
ETH2 = link(name="eth2", index=7, permanent_mac="00:16:3e:aa:bb:02")
LO = link(name="lo", index=1, permanent_mac=None, mac="00:00:00:00:00:00", physical=False)
BLIND: Any = guarded(Unreadable(Why.TIMEOUT, "http://100.100.100.200"))
HERE = links(LO, ETH0, ETH1, ETH2)

ROWS: list[tuple[tuple[RoutingRule, ...], tuple[Route, ...], str]] = [
    # rules, routes besides the main table's, says
    (rules_of(), (way(),), "ok Table"),
    (rules_of(), (way(), way(family="inet6", via="fe80::1")), "ok Table"),
    (rules_of(), (way(), way(destination="10.0.0.0/8", oif="eth2")), "ok Table"),
    ((), (way(),), "ok Table"),
    ((), (), "absent Nothing"),
    (rules_of(), (), "fail EmptyTable terway_restart()"),
    (rules_of(), (way(destination="10.0.0.0/8"),), "fail EmptyTable terway_restart()"),
    (rules_of(), (way(kind="blackhole"),), "fail EmptyTable terway_restart()"),
    (rules_of(), (way(family="inet6", via="fe80::1"),), "fail EmptyTable terway_restart()"),
    (rules_of(), (way(oif="eth2"),), "fail OtherInterface terway_restart()"),
    (rules_of(), (way(), way(oif="eth2", metric=10)), "fail OtherInterface terway_restart()"),
    (rules_of(), (way(), way(family="inet6", via="fe80::1", oif="eth2")), "fail OtherInterface terway_restart()"),
    ((), (way(table=1002, oif="eth2", onlink=False),), "fail OtherInterface terway_restart()"),  # the manual's way
    (rules_of(), (way(onlink=False),), "warn NotOnlink"),
    (rules_of(table=1009), (), "fail NoInterface terway_restart()"),
    (rules_of(table=1009), (way(table=1009),), "warn ForeignTable"),
    ((), (way(table=1009),), "warn ForeignTable"),
    ((), (way(table=1009, destination="10.0.0.0/8"),), "warn ForeignTable"),
    ((), (way(table=1001, onlink=False),), "warn ForeignTable"),  # the manual's number for eth1; 1 is the loopback
    ((), (way(table=1000), way(table=1999)), "warn ForeignTable"),
    ((), (way(table=999), way(table=2000), way(table=100)), "absent Nothing"),
    ((rule(priority=100, table=1009),), (), "absent Nothing"),  # nobody's of Terway
    ((rule(action="prohibit", table=1009),), (), "absent Nothing"),
    # Of what is nobody's table there is one verdict, the worst.
    (rules_of("192.168.7.7", 1009), (way(table=1010),), "fail NoInterface terway_restart()"),
    (rules_of("192.168.7.7", 1010), (way(table=1009),), "fail NoInterface terway_restart()"),
]


@pytest.mark.parametrize(("rules", "found", "says"), ROWS)
def test_says(rules: tuple[RoutingRule, ...], found: tuple[Route, ...], says: str) -> None:
    assert say(CHECK, routes(rules=rules, routes=(route(), *found)), HERE, terway()) == says


def test_only_terway_numbers_tables_so() -> None:
    assert say(CHECK, routes(routes=(way(oif="eth2"),)), HERE, terway(present=False)) == "absent Nothing"


GATEWAYS: list[tuple[tuple[Route, ...], Imds, str]] = [
    ((way(),), imds(), "ok Table"),
    ((way(via="192.168.0.1"),), imds(), "fail OtherGateway terway_restart()"),
    ((way(via="192.168.0.1", onlink=False),), imds(), "fail OtherGateway terway_restart()"),
    ((way(via="192.168.0.1", metric=9), way()), imds(), "ok Table"),
    ((way(via="192.168.0.1"), way(metric=9)), imds(), "fail OtherGateway terway_restart()"),
    ((way(), way(family="inet6", via="fe80::1")), imds(), "ok Table"),
    ((way(via=""),), imds(), "ok Table"),
    ((way(via="192.168.0.1"),), imds(instance(interface())), "ok Table"),  # not among them
    ((way(via="192.168.0.1"),), imds(instance(interface(), shared(gateway=""))), "ok Table"),
    ((way(via="192.168.0.1"),), imds(instance(interface(), shared(gateway=BLIND))), "unknown CannotLook"),
    ((way(),), imds(BLIND), "unknown CannotLook"),  # it may be another one's gateway
    ((way(oif="eth2"),), imds(BLIND), "fail OtherInterface terway_restart()"),
    ((way(), way(table=1009)), imds(BLIND), "unknown CannotLook; warn ForeignTable"),
    ((way(via="192.168.0.1"),), NOT_ECS, "ok Table"),
]


@pytest.mark.parametrize(("found", "told", "says"), GATEWAYS)
def test_the_gateway_is_the_metadatas(found: tuple[Route, ...], told: Imds, says: str) -> None:
    assert say(CHECK, routes(routes=found), HERE, terway(), told) == says


def test_the_subject_is_the_eni() -> None:
    (empty,) = verdicts(CHECK, routes(routes=()), HERE, terway())
    assert (empty.subject.place, empty.subject.name) == (SHARED_MAC, "eth1 (00:16:3e:aa:bb:01)")
    gone = routes(rules=rules_of(table=1009), routes=())
    assert verdicts(CHECK, gone, HERE, terway(), imds())[0].subject.place == SHARED_MAC
    assert verdicts(CHECK, gone, HERE, terway())[0].subject.place == ""


def test_of_an_eni_the_worst_is_told() -> None:
    rules = (*rules_of(), *rules_of("192.168.0.135", 1009))
    (gone,) = verdicts(CHECK, routes(rules=rules), HERE, terway(), imds())
    assert (gone.subject.place, gone.reason) == (SHARED_MAC, "NoInterface")


def test_each_eni_has_a_verdict() -> None:
    found = (way(), way(table=1007, oif="eth1"), way(table=1002, oif="eth0"))
    assert say(CHECK, routes(routes=found), HERE, terway()) == (
        "ok Table; ok Table; fail OtherInterface terway_restart()"
    )


def test_messages() -> None:
    (empty,) = verdicts(CHECK, routes(rules=[*rules_of(), *rules_of("192.168.0.135")], routes=()), HERE, terway())
    assert empty.message == (
        "table 1006 is the one of eth1 (ifindex 6), and has no default route: packets of 192.168.0.134, 192.168.0.135 "
        "leave by table main; see ip route show table 1006"
    )
    (other,) = verdicts(CHECK, routes(rules=(), routes=(way(table=1002, oif="eth2"),)), HERE, terway())
    assert other.message == (
        "table 1002 is the one of eth0 (ifindex 2), and holds default via 192.168.0.253 dev eth2; ECS's manual numbers "
        "tables so by hand (1002 for eth2), where Terway's are 1000 + ifindex: see ip route show table 1002"
    )
    (wrong,) = verdicts(CHECK, routes(routes=(way(via="192.168.0.1"),)), HERE, terway(), imds())
    assert (wrong.observed, wrong.expected) == ("192.168.0.1", "192.168.0.253")
    assert wrong.message == (
        "table 1006 is the one of eth1 (ifindex 6), and holds default via 192.168.0.1 dev eth1; the metadata says "
        "gateway 192.168.0.253: see ip route show table 1006"
    )
    many = [one for number in range(5) for one in rules_of(f"192.168.0.{number}", 1009)]
    (gone,) = verdicts(CHECK, routes(rules=many, routes=()), HERE, terway())
    assert gone.message == (
        "rules name table 1009, which is empty (no interface has ifindex 9: its ENI is gone): packets of 192.168.0.0, "
        "192.168.0.1, 192.168.0.2 and 2 more leave by table main"
    )
