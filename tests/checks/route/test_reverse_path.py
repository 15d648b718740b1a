"""route.reverse-path: what comes from the node's network must reach the pods."""

from __future__ import annotations

import errno

import pytest

from nodeprep.checks.route.reverse_path import CHECK
from nodeprep.facts.routes import Routes
from nodeprep.facts.sysctls import Sysctls
from tests.cni_values import terway
from tests.route_values import POD, answer, back, refused, routes, rule, sysctls
from tests.values import say, verdicts

ALL = sysctls({"net.ipv4.conf.all.rp_filter": 1})
ETH0 = sysctls({"net.ipv4.conf.eth0.rp_filter": 1})
LOOSE = sysctls({"net.ipv4.conf.all.rp_filter": 2, "net.ipv4.conf.eth0.rp_filter": 1})
REMEDY = "sysctl_terway(key=net.ipv4.conf.{}.rp_filter, value=0)"


def stopped(code: int, out: int | None = None, **different: object) -> Routes:
    told = {"out": (refused(out) if out else answer(),), "back": (back(oif="", errno=code),)}
    return routes(**(told | different))


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
    (
        stopped(errno.EACCES, rules=(rule(priority=100, source="", destination=f"{POD}/32", action="prohibit"),)),
        sysctls(),
        "fail Prohibited",
    ),
    # What route.out says already is not said twice, but a filter is a fault of its own.
    (stopped(errno.EHOSTUNREACH, out=errno.EHOSTUNREACH), sysctls(), "absent Nothing"),
    (stopped(errno.EINVAL, out=errno.EACCES), sysctls(), "absent Nothing"),
    (stopped(errno.EINVAL, out=errno.EACCES), ALL, f"fail StrictFilter {REMEDY.format('all')}"),
]


@pytest.mark.parametrize(("seen", "settings", "says"), ROWS)
def test_says(seen: Routes, settings: Sysctls, says: str) -> None:
    assert say(CHECK, seen, settings, terway()) == says
    assert say(CHECK, seen, settings, terway(present=False)) == says.partition(" sysctl_terway")[0]


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
