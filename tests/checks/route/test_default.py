"""route.default: one, by the primary ENI, where the cloud says so."""

from __future__ import annotations

import errno

import pytest

from nodeprep.checks.route.default import CHECK
from nodeprep.door_values import Instance
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.network.links import Links
from nodeprep.facts.network.routes import Route, Routes
from nodeprep.model import NODE, Unreadable, Why, guarded
from tests.cni_values import terway
from tests.imds_values import NOT_ECS, PRIMARY_MAC, SHARED_MAC, imds, instance, interface
from tests.route_values import refused, route, routes, rule, to_pod
from tests.values import changed, link, links, say, verdicts

ETH0 = link(name="eth0", index=2, permanent_mac=PRIMARY_MAC, mac="02:00:00:00:00:01")
ETH1 = link(name="eth1", index=6, permanent_mac=SHARED_MAC)
HERE = links(ETH0, ETH1)
DEFAULT = route()
BY_ETH1 = route(oif="eth1")
SILENT = Imds(0.0, guarded(Unreadable(Why.TIMEOUT, "http://100.100.100.200")), None)
NO_TERWAY = terway(present=False)
MUTE = (refused(errno.ENETUNREACH),)

ECS = [
    # routes of table main              says
    ((DEFAULT,), "ok Default"),
    ((DEFAULT, route(table=100, oif="eth1")), "ok Default"),
    ((route(metric=100),), "ok Default"),
    ((route(metric=200, oif="eth1"), DEFAULT), "ok Default"),  # an ERI has one of its own, and it comes second
    ((route(metric=100), route(oif="eth1")), "fail OtherInterface"),
    ((BY_ETH1,), "fail OtherInterface"),
    ((DEFAULT, BY_ETH1), "fail SeveralDefaults"),
    ((route(via="192.168.0.1"),), "fail OtherGateway"),
    ((route(kind="blackhole", oif="", via=""),), "fail NoDefault"),
    ((route(family="inet6", via="fe80::1"),), "fail NoDefault"),
    ((route(table=1006),), "fail NoDefault"),
    ((), "fail NoDefault"),
]


@pytest.mark.parametrize(("found", "says"), ECS)
def test_says_on_ecs(found: tuple[Route, ...], says: str) -> None:
    assert say(CHECK, routes(routes=found, out=(), back=()), imds(), HERE, terway()) == says


# Without Terway somebody may mean another way.
MILDER = {"fail OtherInterface": "warn OtherInterface", "fail OtherGateway": "warn OtherGateway"}


@pytest.mark.parametrize(("found", "says"), ECS)
def test_says_on_ecs_with_another_cni(found: tuple[Route, ...], says: str) -> None:
    milder = MILDER.get(says, says)
    assert say(CHECK, routes(routes=found, out=(), back=()), imds(), HERE, NO_TERWAY) == milder


ELSE = route(table=100, oif="eth1")
ALL_ELSE = rule(priority=100, source="", table=100)
OTHER_WAYS: list[tuple[Routes, str]] = [
    # no default route in table main, but                     says of ECS without Terway
    (routes(rules=(ALL_ELSE,), routes=(ELSE,), out=()), "ok OtherWay"),
    (routes(rules=(rule(priority=100, source="", mark=1, table=100),), routes=(ELSE,), out=()), "ok OtherWay"),
    (routes(rules=(rule(priority=100, table=100),), routes=(ELSE,), out=()), "fail NoDefault"),  # for one address
    (routes(rules=(ALL_ELSE,), routes=(), out=()), "fail NoDefault"),
    (routes(rules=(ALL_ELSE,), routes=(route(table=100, kind="blackhole"),), out=()), "fail NoDefault"),
    (routes(rules=(ALL_ELSE,), routes=(route(table=100, family="inet6"),), out=()), "fail NoDefault"),
    (routes(rules=(ALL_ELSE,), routes=(route(table=100, destination="10.0.0.0/8"),), out=()), "fail NoDefault"),
    (routes(rules=(rule(source="", table=100, family="inet6"),), routes=(ELSE,), out=()), "fail NoDefault"),
    (routes(rules=(rule(source="", table=100, action="prohibit"),), routes=(ELSE,), out=()), "fail NoDefault"),
    (routes(rules=(), routes=()), "ok OtherWay"),  # the pod has an answer
    (routes(rules=(), routes=(), out=(refused(errno.ENETUNREACH),)), "fail NoDefault"),
]


@pytest.mark.parametrize(("found", "says"), OTHER_WAYS)
def test_a_default_route_in_another_table(found: Routes, says: str) -> None:
    assert say(CHECK, found, imds(), HERE, NO_TERWAY) == says
    assert say(CHECK, found, imds(), HERE, terway()) == "fail NoDefault"  # which looks into table main


BRIDGE = link(name="br0", index=9, kind="bridge", physical=False)
BOND = link(name="bond0", index=8, kind="bond", physical=False, master="br0")
OVS = link(name="ovs-system", index=9, kind="openvswitch", physical=False)
MASTERS: list[tuple[Links, str, str]] = [
    # above the primary ENI                               default dev   says
    (links(changed(ETH0, master="br0"), BRIDGE), "br0", "ok Default"),
    (links(changed(ETH0, master="bond0"), BOND, BRIDGE), "br0", "ok Default"),
    (links(changed(ETH0, master="br0"), BRIDGE), "eth0", "warn OtherInterface"),
    (links(changed(ETH0, master="ovs-system"), OVS), "br-ex", "ok Default"),
    (links(changed(ETH0, master="gone")), "br-ex", "ok Default"),
    (links(changed(ETH0, master="br0"), changed(BRIDGE, master="br0")), "br0", "ok Default"),
]


@pytest.mark.parametrize(("there", "oif", "says"), MASTERS)
def test_a_primary_eni_under_a_bridge(there: Links, oif: str, says: str) -> None:
    assert say(CHECK, routes(routes=(route(oif=oif),)), imds(), there, NO_TERWAY) == says


def test_terway_wants_the_primary_eni_itself() -> None:
    there = links(changed(ETH0, master="br0"), BRIDGE)
    assert say(CHECK, routes(routes=(route(oif="br0"),)), imds(), there, terway()) == "fail OtherInterface"


ELSEWHERE = [
    ((DEFAULT,), "ok Default"),
    ((BY_ETH1,), "ok Default"),
    ((DEFAULT, BY_ETH1), "ok Default"),  # two leaf switches
]


@pytest.mark.parametrize(("found", "says"), ELSEWHERE)
def test_says_on_other_machines(found: tuple[Route, ...], says: str) -> None:
    assert say(CHECK, routes(routes=found), NOT_ECS, HERE, NO_TERWAY) == says
    assert say(CHECK, routes(routes=found)) == says


def test_a_host_without_pods_may_have_none() -> None:
    assert say(CHECK, routes(routes=(), out=(), back=()), NOT_ECS, HERE, NO_TERWAY) == "absent Nothing"
    assert say(CHECK, routes(routes=(to_pod(),), out=MUTE), NOT_ECS, HERE, NO_TERWAY) == "warn NoDefault"
    assert say(CHECK, routes(routes=(to_pod(),), out=MUTE), HERE) == "warn NoDefault"
    assert say(CHECK, routes(routes=(), out=(), back=()), NOT_ECS, HERE, terway()) == "fail NoDefault"


def test_where_the_metadata_cannot_be_read() -> None:
    assert say(CHECK, routes(), SILENT, HERE, NO_TERWAY) == "unknown CannotLook"
    # What makes it unreadable is often this.
    assert say(CHECK, routes(routes=(), out=(), back=()), SILENT, HERE, NO_TERWAY) == "fail NoDefault"


def test_it_is_about_the_primary_eni_where_that_is_known() -> None:
    for found in ((DEFAULT,), (BY_ETH1,), ()):
        (said,) = verdicts(CHECK, routes(routes=found), imds(), HERE, terway())
        assert said.subject.place == PRIMARY_MAC
    (said,) = verdicts(CHECK, routes(routes=()), imds(), links(ETH1), terway())
    assert said.subject == NODE
    (said,) = verdicts(CHECK, routes(routes=()), SILENT, HERE, terway())
    assert said.subject == NODE


PARTS: list[tuple[Instance, str]] = [
    (instance(primary_mac="00:16:3e:00:00:09"), "ok Default"),  # no such link: eni.primary-name says so
    (instance(interface(gateway="")), "ok Default"),
]


@pytest.mark.parametrize(("found", "says"), PARTS)
def test_says_by_what_the_metadata_tells(found: Instance, says: str) -> None:
    assert say(CHECK, routes(), imds(found), HERE) == says


def test_messages() -> None:
    (gone,) = verdicts(CHECK, routes(routes=(), out=MUTE), NOT_ECS, HERE, NO_TERWAY)
    assert gone.message == (
        "no IPv4 default route in table main; 1 pods run here: see ip route, then what configures the network "
        "(journalctl)"
    )
    (other,) = verdicts(CHECK, routes(routes=(route(metric=100), BY_ETH1)), imds(), HERE, terway())
    assert other.message == (
        "default via 192.168.0.253 dev eth1; default via 192.168.0.253 dev eth0 is wanted, the primary ENI "
        "00:16:3e:00:00:01 by the instance metadata; a DHCP client on a secondary ENI does this: see ip route, "
        "eni.os-manager"
    )
    assert (other.observed, other.expected) == (
        "default via 192.168.0.253 dev eth1",
        "default via 192.168.0.253 dev eth0",
    )
