"""route.default: one, by the primary ENI, where the cloud says so."""

from __future__ import annotations

import pytest

from nodeprep.checks.route.default import CHECK
from nodeprep.facts.imds import Imds, Instance
from nodeprep.facts.routes import Route
from nodeprep.model import Unreadable, Why, guarded
from tests.cni_values import terway
from tests.imds_values import NOT_ECS, PRIMARY_MAC, SHARED_MAC, imds, instance, interface
from tests.route_values import route, routes, to_pod
from tests.values import link, links, say, verdicts

ETH0 = link(name="eth0", index=2, permanent_mac=PRIMARY_MAC, mac="02:00:00:00:00:01")
ETH1 = link(name="eth1", index=6, permanent_mac=SHARED_MAC)
HERE = links(ETH0, ETH1)
DEFAULT = route()
BY_ETH1 = route(oif="eth1")
SILENT = Imds(0.0, guarded(Unreadable(Why.TIMEOUT, "http://100.100.100.200")), None)
NO_TERWAY = terway(present=False)

ECS = [
    # routes of table main              says
    ((DEFAULT,), "ok Default"),
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
    assert say(CHECK, routes(routes=found, out=(), back=()), imds(), HERE, NO_TERWAY) == says


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
    assert say(CHECK, routes(routes=(to_pod(),)), NOT_ECS, HERE, NO_TERWAY) == "fail NoDefault"
    assert say(CHECK, routes(routes=(), out=(), back=()), NOT_ECS, HERE, terway()) == "fail NoDefault"


def test_where_the_metadata_cannot_be_read() -> None:
    assert say(CHECK, routes(), SILENT, HERE, NO_TERWAY) == "unknown CannotLook"
    # What makes it unreadable is often this.
    assert say(CHECK, routes(routes=(), out=(), back=()), SILENT, HERE, NO_TERWAY) == "fail NoDefault"


PARTS: list[tuple[Instance, str]] = [
    (instance(primary_mac="00:16:3e:00:00:09"), "ok Default"),  # no such link: eni.primary-name says so
    (instance(interface(gateway="")), "ok Default"),
]


@pytest.mark.parametrize(("found", "says"), PARTS)
def test_says_by_what_the_metadata_tells(found: Instance, says: str) -> None:
    assert say(CHECK, routes(), imds(found), HERE) == says


def test_messages() -> None:
    (gone,) = verdicts(CHECK, routes(routes=()), NOT_ECS, HERE, NO_TERWAY)
    assert gone.message == (
        "no IPv4 default route in table main; 1 pods run here: see ip route, then what configures the network "
        "(journalctl)"
    )
    (other,) = verdicts(CHECK, routes(routes=(route(metric=100), BY_ETH1)), imds(), HERE)
    assert other.message == (
        "default via 192.168.0.253 dev eth1; default via 192.168.0.253 dev eth0 is wanted, the primary ENI "
        "00:16:3e:00:00:01 by the instance metadata; a DHCP client on a secondary ENI does this: see ip route, "
        "eni.os-manager"
    )
    assert (other.observed, other.expected) == (
        "default via 192.168.0.253 dev eth1",
        "default via 192.168.0.253 dev eth0",
    )
