"""Faults of the ways to pods and of gateways, made for real: they are said though no host route tells of the pod."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.netns.test_route_faults import ACCESS, NO_ACCESS, POD, Judged, judged, shell
from tests.rigs.netns_node import GATEWAY, veth

BACK = f"ip route replace {POD}/32 dev {veth(0)} scope link"
LOST = "route.reverse-path fail NoRouteToPod"
UNSURE = "route.reverse-path warn RulesWithoutRoute"
FAULTS = {
    # what is done, what undoes it, what is said with and without Kubernetes
    "no host route": (f"ip route del {POD}/32", BACK, LOST, UNSURE),
    "its veth is down": (f"ip link set {veth(0)} down", f"ip link set {veth(0)} up; {BACK}", LOST, UNSURE),
    "its host route leads to a NIC": (f"ip route replace {POD}/32 dev eth0", BACK, LOST, LOST),
    "its host route drops": (
        f"ip route del {POD}/32; ip route add blackhole {POD}/32",
        f"ip route del {POD}/32; {BACK}",
        LOST,
        LOST,
    ),
    "another gateway in the ENI's table": (
        "ip route replace default via 192.168.0.1 dev eth1 onlink table {table}",
        f"ip route replace default via {GATEWAY} dev eth1 onlink table {{table}}",
        "route.tables fail OtherGateway",
        "route.tables fail OtherGateway",
    ),
    "forwarding off, and a default route for others that refuses": (
        "ip route add unreachable default table 77; sysctl -qw net.ipv4.ip_forward=0",
        "ip route del unreachable default table 77; sysctl -qw net.ipv4.ip_forward=1",
        "route.out fail ForwardingOff",
        "route.out fail ForwardingOff",
    ),
}


@pytest.fixture(scope="module")
def here() -> Iterator[Judged]:
    with judged() as one:
        yield one


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(here: Judged, fault: str) -> None:
    make, undo, known, unknown = FAULTS[fault]
    table = here.node.table(1)
    shell(here.node, make.format(table=table)).check_returncode()
    try:
        with_access = [one for one in here.bad(ACCESS) if not one.startswith("sysctl.")]
        without = [one for one in here.bad(NO_ACCESS) if not one.startswith("sysctl.")]
    finally:
        shell(here.node, undo.format(table=table)).check_returncode()
    assert (with_access, without) == ([known], [unknown])
    assert here.bad(ACCESS) == here.bad(NO_ACCESS) == []


def test_a_default_route_by_a_bridge_hides_nothing(here: Judged) -> None:
    """Its address is none that a subnet begins with."""
    node = here.node
    for words in (("link", "add", "cni0", "type", "bridge"), ("link", "set", "cni0", "up")):
        node.ip(*words)
    try:
        node.ip("route", "add", "default", "dev", "cni0", "metric", "500")
        assert here.bad(ACCESS) == []
    finally:
        node.ip("link", "del", "cni0")
