"""route.out: the kernel's own answer for every pod, and the cause of an errno."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from nodeprep.checks.route.out import CHECK
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.network.links import Links
from nodeprep.facts.network.routes import RouteAnswer, Routes
from nodeprep.facts.network.sysctls import Sysctls
from nodeprep.model import Seen, Unreadable, Why, guarded
from nodeprep.shown import NO_ACCESS
from tests.cluster_values import cluster
from tests.cni_values import terway
from tests.imds_values import NOT_ECS, SHARED_MAC, imds
from tests.route_values import POD, answer, refused, route, routes, rule, rules_of, sysctls, to_pod, way
from tests.values import link, links, say, verdicts

ETH0 = link(name="eth0", index=2, permanent_mac="00:16:3e:00:00:01")
ETH1 = link(name="eth1", index=6, permanent_mac=SHARED_MAC)
HERE = links(ETH0, ETH1)
TERWAY, OTHER, EXCLUSIVE = terway(), terway(present=False), terway(capabilities={"cni_exclusive_eni": "eniOnly"})
BY_ETH0 = answer(oif="eth0", table=254)
UNRULED: dict[str, Any] = {"rules": (), "out": (BY_ETH0,)}

DENIED, NOBODY_ASKED = Unreadable(Why.DENIED, "nodes"), Unreadable(Why.MISSING, "nodes", detail=NO_ACCESS)
SILENT = imds(guarded(Unreadable(Why.TIMEOUT, "http://100.100.100.200")))

WAYS: list[tuple[dict[str, Any], tuple[object, ...], str]] = [
    # routes   other facts   says
    ({}, (TERWAY, HERE), "ok WayOut"),
    ({"out": (BY_ETH0,)}, (TERWAY, HERE), "fail OtherInterface terway_restart()"),
    ({"out": (BY_ETH0,)}, (EXCLUSIVE, HERE), "ok WayOut"),
    ({"out": (BY_ETH0,)}, (OTHER, HERE), "ok WayOut"),
    ({"out": (BY_ETH0,)}, (), "ok WayOut"),
    (UNRULED, (TERWAY, HERE), "ok WayOut"),  # nobody says which ENI it is
    (UNRULED, (TERWAY, HERE, imds()), "fail OtherInterface terway_restart()"),
    (UNRULED, (TERWAY, HERE, cluster()), "fail OtherInterface terway_restart()"),
    (UNRULED, (TERWAY, HERE, NOT_ECS), "ok WayOut"),
    ({"rules": rules_of(table=1009), "out": (BY_ETH0,)}, (TERWAY, HERE), "fail OtherTable terway_restart()"),
    ({"rules": rules_of(table=1009), "out": (answer(table=1009),)}, (TERWAY, HERE), "ok WayOut"),
    ({"rules": rules_of(table=100), "out": (BY_ETH0,)}, (TERWAY, HERE), "ok WayOut"),  # somebody's own
    # Who does not know which ENI it is cannot say that it leaves by that one.
    (UNRULED, (TERWAY, HERE, SILENT), "unknown CannotLook"),
    ({}, (TERWAY, HERE, SILENT), "unknown CannotLook"),  # the rule may be the wrong one
    ({}, (TERWAY, HERE, imds(), cluster(terway=DENIED)), "ok WayOut"),  # one book is enough
    ({}, (TERWAY, HERE, SILENT, cluster()), "ok WayOut"),
    (UNRULED, (TERWAY, HERE, NOT_ECS, cluster(terway=DENIED)), "unknown CannotLook"),
    ({}, (TERWAY, HERE, NOT_ECS, cluster(terway=NOBODY_ASKED)), "ok WayOut"),
    ({"out": (BY_ETH0,)}, (TERWAY, HERE, SILENT), "fail OtherInterface terway_restart()"),
    ({"out": (refused(errno.EACCES),)}, (TERWAY, HERE, SILENT), "fail Refused"),
    ({"out": (BY_ETH0,)}, (EXCLUSIVE, HERE, SILENT), "ok WayOut"),
    ({"out": (BY_ETH0,)}, (OTHER, HERE, SILENT), "ok WayOut"),
    ({"out": (refused(errno.ENODEV),)}, (TERWAY, HERE), "absent Nothing"),
    ({"out": ()}, (TERWAY, HERE), "absent Nothing"),
]


@pytest.mark.parametrize(("what", "others", "says"), WAYS)
def test_says_by_the_way(what: dict[str, Any], others: tuple[object, ...], says: str) -> None:
    assert say(CHECK, routes(**what), *others) == says


def refusing(code: int, **different: Any) -> Routes:
    return routes(**({"out": (refused(code),)} | different))


PROHIBIT = rule(priority=100, table=0, action="prohibit")
STRICT = sysctls({"net.ipv4.conf.all.rp_filter": 1})
STRICT_HERE = sysctls({"net.ipv4.conf.cali1.rp_filter": 1})
LOOSE = sysctls({"net.ipv4.conf.all.rp_filter": 2, "net.ipv4.conf.cali1.rp_filter": 1})
CLOSED = sysctls({"net.ipv4.ip_forward": 0, "net.ipv4.conf.cali1.forwarding": 0})
CLOSED_HERE = sysctls({"net.ipv4.conf.cali1.forwarding": 0})
ON, OFF = "sysctl_terway(key={}, value=1)", "sysctl_terway(key={}, value=0)"
ON_ALL, ON_HERE = ON.format("net.ipv4.ip_forward"), ON.format("net.ipv4.conf.cali1.forwarding")
EVERY, OWN = "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.cali1.rp_filter"

CAUSES: list[tuple[Routes, Sysctls, str]] = [
    (refusing(errno.EACCES, rules=(PROHIBIT,)), sysctls(), "fail Prohibited"),
    (refusing(errno.EACCES, routes=(route(kind="prohibit", oif=""),)), sysctls(), "fail Prohibited"),
    (refusing(errno.EACCES), sysctls(), "fail Refused"),
    (refusing(errno.ENETUNREACH, rules=(rule(action="unreachable"),)), sysctls(), "fail Unreachable"),
    (refusing(errno.ENETUNREACH), sysctls(), "fail NoRoute"),
    (refusing(errno.EHOSTUNREACH, routes=(way(kind="unreachable"),)), sysctls(), "fail Unreachable"),
    # A way for another packet, or for another family, is not the cause.
    (refusing(errno.EHOSTUNREACH, routes=(way(kind="unreachable"),)), CLOSED, f"fail ForwardingOff {ON_ALL}"),
    (refusing(errno.EHOSTUNREACH, routes=(way(kind="unreachable"),)), CLOSED_HERE, f"fail ForwardingOff {ON_HERE}"),
    (
        refusing(errno.EHOSTUNREACH, routes=(way(kind="unreachable", family="inet6"),)),
        CLOSED,
        f"fail ForwardingOff {ON_ALL}",
    ),
    (refusing(errno.EACCES, routes=(way(kind="prohibit", family="inet6"),)), sysctls(), "fail Refused"),
    (refusing(errno.EACCES, routes=(way(kind="prohibit", table=1007),)), sysctls(), "fail Refused"),
    (refusing(errno.EACCES, routes=(way(kind="prohibit"),)), sysctls(), "fail Prohibited"),
    (refusing(errno.EHOSTUNREACH), CLOSED, f"fail ForwardingOff {ON.format('net.ipv4.ip_forward')}"),
    (refusing(errno.EHOSTUNREACH), CLOSED_HERE, f"fail ForwardingOff {ON.format('net.ipv4.conf.cali1.forwarding')}"),
    (refusing(errno.EXDEV), STRICT, f"fail StrictFilter {OFF.format(EVERY)}"),
    (refusing(errno.EXDEV), sysctls(), f"fail StrictFilter {OFF.format(OWN)}"),
    (refusing(errno.EINVAL), STRICT, f"fail StrictFilter {OFF.format(EVERY)}"),
    (refusing(errno.EINVAL), STRICT_HERE, f"fail StrictFilter {OFF.format(OWN)}"),
    (refusing(errno.EINVAL), LOOSE, "fail Refused"),
    (refusing(errno.EINVAL), sysctls(), "fail Refused"),
    (refusing(errno.EINVAL, rules=(rule(action="blackhole"),)), STRICT, "fail Blackholed"),
    (refusing(errno.EINVAL, routes=(way(kind="blackhole"),)), STRICT, "fail Blackholed"),
    (refusing(9999), sysctls(), "fail Refused"),
]


@pytest.mark.parametrize(("seen", "settings", "says"), CAUSES)
def test_says_by_errno(seen: Routes, settings: Sysctls, says: str) -> None:
    assert say(CHECK, seen, TERWAY, HERE, settings) == says
    assert say(CHECK, seen, OTHER, HERE, settings) == says.partition(" sysctl_terway")[0]


ISOLATED: list[tuple[Routes, tuple[object, ...], str]] = [
    # no default route at all: the network may be meant so
    (refusing(errno.ENETUNREACH, routes=(to_pod(),)), (OTHER, NOT_ECS), "absent Nothing"),
    (refusing(errno.ENETUNREACH, routes=(to_pod(),)), (), "absent Nothing"),
    (refusing(errno.ENETUNREACH, routes=(to_pod(),)), (OTHER, imds()), "fail NoRoute"),
    (refusing(errno.ENETUNREACH, routes=(to_pod(),)), (TERWAY, HERE, NOT_ECS), "fail NoRoute"),
    (refusing(errno.ENETUNREACH, routes=(route(),)), (OTHER, NOT_ECS), "fail NoRoute"),
    (refusing(errno.EHOSTUNREACH, routes=(to_pod(),)), (OTHER, NOT_ECS, CLOSED), "fail ForwardingOff"),
    (refusing(errno.ENETUNREACH, rules=(rule(action="unreachable"),), routes=()), (OTHER, NOT_ECS), "fail Unreachable"),
    (routes(routes=(to_pod(),), out=(refused(errno.ENETUNREACH), answer())), (OTHER, NOT_ECS), "ok WayOut"),
]


@pytest.mark.parametrize(("seen", "others", "says"), ISOLATED)
def test_an_isolated_network(seen: Routes, others: tuple[object, ...], says: str) -> None:
    assert say(CHECK, seen, *others) == says


ABOUT: list[tuple[dict[str, Any], str]] = [
    # a prohibit rule that   is the cause
    ({}, "Prohibited"),
    ({"source": ""}, "Prohibited"),
    ({"source": "192.168.0.0/24"}, "Prohibited"),
    ({"destination": "8.0.0.0/8"}, "Prohibited"),
    ({"iif": "cali1"}, "Prohibited"),
    ({"source": "10.0.0.0/8", "inverted": True}, "Prohibited"),
    ({"inverted": True}, "Refused"),
    ({"source": "192.168.0.135/32"}, "Refused"),
    ({"destination": "10.0.0.0/8"}, "Refused"),
    ({"iif": "cali2"}, "Refused"),
    ({"oif": "eth1"}, "Refused"),
    ({"mark": 16}, "Refused"),
    ({"family": "inet6", "source": ""}, "Refused"),
]


@pytest.mark.parametrize(("what", "reason"), ABOUT)
def test_a_rule_is_the_cause_only_if_it_is_about_the_packet(what: dict[str, Any], reason: str) -> None:
    one = rule(**({"priority": 100, "action": "prohibit"} | what))
    assert say(CHECK, refusing(errno.EACCES, rules=(one,)), OTHER) == f"fail {reason}"


def test_without_sysctls_the_likely_setting_is_named() -> None:
    assert say(CHECK, refusing(errno.EHOSTUNREACH), TERWAY, HERE) == (
        f"fail ForwardingOff {ON.format('net.ipv4.ip_forward')}"
    )
    assert say(CHECK, refusing(errno.EINVAL), TERWAY, HERE) == f"fail StrictFilter {OFF.format(EVERY)}"


def pods(*answers: RouteAnswer) -> Routes:
    rules = [one for found in answers for one in rules_of(found.pod)]
    return routes(rules=(*rules, PROHIBIT), out=answers)


def test_pods_of_an_eni_are_one_subject() -> None:
    others = [answer(pod=f"192.168.0.{number}", source=f"192.168.0.{number}", oif="eth0") for number in range(5)]
    (verdict,) = verdicts(CHECK, pods(refused(errno.EACCES), answer(pod="192.168.0.9"), *others), TERWAY, HERE)
    assert (verdict.subject.place, verdict.reason, verdict.observed) == (SHARED_MAC, "Prohibited", "6 of 7 pods")
    assert verdict.message == (
        "eth1 (00:16:3e:aa:bb:01): pod 192.168.0.134: rule 100: from 192.168.0.134/32 prohibit refuses it (EACCES); "
        "see ip rule; pod 192.168.0.0: leaves by eth0 (table None) and not by its ENI's eth1. Ask the kernel again: ip "
        "route get 8.8.8.8 from 192.168.0.134 iif cali1"
    )
    (alike,) = verdicts(CHECK, pods(*others), TERWAY, HERE)
    assert alike.message.startswith(
        "eth1 (00:16:3e:aa:bb:01): pod 192.168.0.0, 192.168.0.1, 192.168.0.2 and 2 more: leaves by eth0"
    )


def test_who_belongs_to_nobody_hides_every_eni() -> None:
    """A fault that was believed of an ENI is not passed over while its pod cannot be told from another's."""
    seen = routes(rules=(), out=(BY_ETH0, answer(pod="192.168.7.7", source="192.168.7.7", oif="eth0", table=254)))
    (dark,) = verdicts(CHECK, seen, TERWAY, HERE, SILENT)
    assert (dark.subject.place, dark.message) == (
        "",
        f"ENI of pod {POD} and 1 more: could not look at http://100.100.100.200: timeout",
    )
    seen = routes(out=(answer(table=1006),))
    without_links = {Routes: seen, Terway: TERWAY, Imds: imds(), Links: Unreadable(Why.IO_ERROR, "netlink")}
    (lost,) = CHECK.judge(Seen(without_links))
    assert lost.message == f"ENI of pod {POD}: could not look at netlink: io-error"


def test_without_terway_the_node_is_the_subject() -> None:
    (verdict,) = verdicts(CHECK, refusing(errno.ENETUNREACH, routes=(route(), to_pod())), OTHER, HERE)
    assert verdict.subject.place == ""
    assert verdict.message == (
        f"pod {POD}: no route leads there (ENETUNREACH); see ip rule, ip route show table all. Ask the kernel again: "
        f"ip route get 8.8.8.8 from {POD} iif cali1"
    )
