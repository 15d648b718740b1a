"""route.reverse-path: what comes from the node's network must reach the pods."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from nodeprep.checks.route.reverse_path import CHECK
from nodeprep.door_values import RoutingRule
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.routes import Routes
from nodeprep.facts.network.sysctls import Sysctls
from tests.cluster_values import cluster, pod
from tests.cni_values import terway
from tests.route_values import POD, answer, back, refused, route, routes, rule, rules_of, sysctls, to_pod
from tests.values import changed, link, links, say, verdicts

ALL = sysctls({"net.ipv4.conf.all.rp_filter": 1})
ETH0 = sysctls({"net.ipv4.conf.eth0.rp_filter": 1})
LOOSE = sysctls({"net.ipv4.conf.all.rp_filter": 2, "net.ipv4.conf.eth0.rp_filter": 1})
REMEDY = "sysctl_terway(key=net.ipv4.conf.{}.rp_filter, value=0)"


def stopped(code: int, out: int | None = None, **different: object) -> Routes:
    told = {"out": (refused(out) if out else answer(),), "back": (back(oif="", errno=code),)}
    return routes(**(told | different))


def refuses(action: str) -> RoutingRule:
    """A rule that refuses what is for the pod."""
    return rule(priority=100, source="", destination=f"{POD}/32", action=action)


ROWS: list[tuple[Routes, Sysctls, str]] = [
    (routes(), sysctls(), "ok WayBack"),
    (routes(), ALL, "ok WayBack"),  # the kernel's answer counts
    (routes(back=()), sysctls(), "absent Nothing"),
    (stopped(errno.EXDEV), ALL, f"fail StrictFilter {REMEDY.format('all')}"),
    (stopped(errno.EINVAL), ALL, f"fail StrictFilter {REMEDY.format('all')}"),
    (stopped(errno.EINVAL), ETH0, f"fail StrictFilter {REMEDY.format('eth0')}"),
    (stopped(errno.EINVAL), LOOSE, "fail Refused"),
    (stopped(errno.ENODEV), sysctls(), "absent Nothing"),
    (stopped(errno.ENETUNREACH), sysctls(), "fail NoRoute"),
    (
        stopped(errno.EHOSTUNREACH),
        sysctls({"net.ipv4.conf.eth0.forwarding": 0}),
        "fail ForwardingOff sysctl_terway(key=net.ipv4.conf.eth0.forwarding, value=1)",
    ),
    (stopped(errno.EACCES, rules=(refuses("prohibit"),)), sysctls(), "fail Prohibited"),
    (stopped(errno.ENETUNREACH, rules=(refuses("unreachable"),)), sysctls(), "fail Unreachable"),
    (stopped(errno.EINVAL, rules=(refuses("blackhole"),)), sysctls(), "fail Blackholed"),
    # What route.out says already is not said twice, but a filter is a fault of its own.
    (stopped(errno.EHOSTUNREACH, out=errno.EHOSTUNREACH), sysctls(), "absent Nothing"),
    (stopped(errno.EINVAL, out=errno.EACCES), sysctls(), "absent Nothing"),
    (stopped(errno.EINVAL, out=errno.EACCES), ALL, f"fail StrictFilter {REMEDY.format('all')}"),
]


@pytest.mark.parametrize(("seen", "settings", "says"), ROWS)
def test_says(seen: Routes, settings: Sysctls, says: str) -> None:
    assert say(CHECK, seen, settings, terway()) == says
    assert say(CHECK, seen, settings, terway(present=False)) == says.partition(" sysctl_terway")[0]


HERE = links(
    link(name="eth0", index=2), link(name="eth1", index=6), link(name="cali1", index=9, kind="veth", physical=False)
)
AWAY = route(destination=f"{POD}/32", via="", oif="eth0")
HOST_ROUTES: list[tuple[dict[str, Any], Cluster | None, str]] = [
    # rules and routes, what Kubernetes says, says
    ({}, None, "ok WayBack"),
    ({}, cluster(), "ok WayBack"),
    ({"routes": (route(),)}, cluster(), "fail NoRouteToPod terway_restart()"),
    ({"routes": (route(),)}, cluster(pods=(pod(phase="Pending"),)), "absent Nothing"),
    ({"routes": (route(),)}, cluster(pods=(pod(deleted=True),)), "absent Nothing"),
    ({"routes": (route(),)}, cluster(pods=(pod(host_network=True),)), "absent Nothing"),
    ({"routes": (route(),)}, cluster(pods=()), "absent Nothing"),  # left over: route.rules
    ({"routes": (route(),)}, None, "warn RulesWithoutRoute"),
    ({"routes": (route(),), "rules": rules_of()[:1]}, None, "absent Nothing"),
    ({"routes": (route(),), "rules": rules_of()[1:]}, cluster(), "absent Nothing"),  # route.rules
    ({"routes": (refuses("192.168.0.13"), route(destination=f"{POD}/32", table=100))}, None, "warn RulesWithoutRoute"),
    ({"routes": (AWAY,)}, None, "fail NoRouteToPod terway_restart()"),
    ({"routes": (AWAY,)}, cluster(pods=()), "fail NoRouteToPod terway_restart()"),
    ({"routes": (AWAY, to_pod())}, None, "fail NoRouteToPod terway_restart()"),
    ({"routes": (to_pod(), changed(AWAY, metric=9))}, None, "absent Nothing"),
    ({"routes": (changed(AWAY, kind="blackhole", oif=""),)}, None, "fail NoRouteToPod terway_restart()"),
    ({"routes": (to_pod(oif="ipvl_6"),)}, None, "absent Nothing"),
]


@pytest.mark.parametrize(("what", "books", "says"), HOST_ROUTES)
def test_a_pod_whose_host_route_is_broken(what: dict[str, Any], books: Cluster | None, says: str) -> None:
    told = routes(**({"out": (), "back": ()} | what) if what else {})
    known = [books] if books else []
    assert say(CHECK, told, sysctls(), HERE, terway(), *known) == says
    if what:  # those rules are Terway's
        assert say(CHECK, told, sysctls(), HERE, terway(present=False), *known) == "absent Nothing"


def test_a_broken_host_route_comes_before_pods_that_are_heard() -> None:
    other = back(pod="192.168.0.135", destination="192.168.0.135")
    assert say(CHECK, routes(routes=(route(),), out=(), back=(other,)), sysctls(), HERE, terway(), cluster()) == (
        "fail NoRouteToPod terway_restart()"
    )


def test_messages_of_host_routes() -> None:
    (gone,) = verdicts(CHECK, routes(routes=(AWAY,), out=(), back=()), HERE, terway())
    assert gone.message == (
        "192.168.0.134 has route 192.168.0.134/32 dev eth0, and rules 512 and 2048: what is for it never gets there; "
        "Terway adds the route anew when its pod starts, if the pod's veth is up: see ip route get 192.168.0.134, "
        "ip link"
    )
    many = [one for number in range(5) for one in rules_of(f"192.168.0.{number}")]
    (left,) = verdicts(CHECK, routes(rules=many, routes=(route(),), out=(), back=()), HERE, terway())
    assert left.message == (
        "192.168.0.0 has no route in table main, 192.168.0.1 has no route in table main, 192.168.0.2 has no route in "
        "table main and 2 more, and rules 512 and 2048: nothing reaches the pod, or it is gone and they are left over: "
        "see whether a pod has that address (kubectl get pods -A -o wide)"
    )


def test_pods_that_are_heard_count() -> None:
    other = back(pod="192.168.0.135", destination="192.168.0.135")
    told = routes(out=(refused(errno.EACCES), answer(pod="192.168.0.135")), back=(back(errno=errno.EINVAL), other))
    (verdict,) = verdicts(CHECK, told, sysctls())
    assert (verdict.reason, verdict.message) == (
        "WayBack",
        "packets from 192.168.0.253 by eth0 would reach 1 pods",
    )


def test_message() -> None:
    two = (back(oif="", errno=errno.EXDEV), back(oif="", errno=errno.EXDEV, pod="192.168.0.135"))
    (verdict,) = verdicts(CHECK, routes(back=two), ALL, terway())
    assert verdict.observed == "2 of 2 pods"
    assert verdict.message == (
        "from 192.168.0.253 by eth0 to pod 192.168.0.134 and 1 more: the strict reverse-path filter "
        "(net.ipv4.conf.all.rp_filter=1) drops what comes in by eth0 (EXDEV); NodePort and node-to-pod traffic takes "
        "this way: loose (2) or none (0) is wanted. Ask the kernel again: ip route get 192.168.0.134 from "
        "192.168.0.253 iif eth0"
    )
