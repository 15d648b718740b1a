"""Builders for tests of routes and sysctls: a Terway node with two ENIs and one pod. Change one thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeprep.door_values import RoutingRule
from nodeprep.facts.network.routes import Route, RouteAnswer, Routes
from nodeprep.facts.network.sysctls import Persisted, Sysctls

MAIN = 254
GATEWAY = "192.168.0.253"
POD = "192.168.0.134"  # on eth1, whose index is 6
TABLE = 1006


def rule(**different: Any) -> RoutingRule:
    """Terway's rule that sends the pod's packets out by its ENI."""
    usual: dict[str, Any] = {
        "family": "inet",
        "priority": 2048,
        "source": f"{POD}/32",
        "destination": "",
        "iif": "",
        "oif": "",
        "mark": None,
        "table": TABLE,
        "action": "lookup",
    }
    return RoutingRule(**(usual | different))


def rules_of(pod: str = POD, table: int = TABLE) -> tuple[RoutingRule, RoutingRule]:
    """The two rules that Terway keeps for a pod."""
    inward = rule(priority=512, source="", destination=f"{pod}/32", table=MAIN)
    return inward, rule(source=f"{pod}/32", table=table)


def route(**different: Any) -> Route:
    """The default route of the main table."""
    usual: dict[str, Any] = {
        "family": "inet",
        "table": MAIN,
        "destination": "default",
        "via": GATEWAY,
        "oif": "eth0",
        "metric": 0,
        "scope": "global",
        "kind": "unicast",
        "onlink": False,
    }
    return Route(**(usual | different))


def to_pod(pod: str = POD, oif: str = "cali1") -> Route:
    """The host's route to a pod."""
    return route(destination=f"{pod}/32", via="", oif=oif, scope="link")


def way(**different: Any) -> Route:
    """The default route in the table of eth1."""
    return route(**({"table": TABLE, "oif": "eth1", "onlink": True} | different))


def answer(**different: Any) -> RouteAnswer:
    """The way out of the pod, by its ENI."""
    usual: dict[str, Any] = {
        "pod": POD,
        "iif": "cali1",
        "source": POD,
        "destination": "8.8.8.8",
        "oif": "eth1",
        "via": GATEWAY,
        "errno": None,
    }
    return RouteAnswer(**(usual | different))


def refused(errno: int, **different: Any) -> RouteAnswer:
    return answer(**({"oif": "", "via": "", "errno": errno} | different))


def back(**different: Any) -> RouteAnswer:
    """The way from the gateway of eth0 to the pod."""
    usual: dict[str, Any] = {"iif": "eth0", "source": GATEWAY, "destination": POD, "oif": "cali1", "via": ""}
    return answer(**(usual | different))


def routes(**different: Any) -> Routes:
    usual: dict[str, Any] = {
        "at": 0.0,
        "rules": rules_of(),
        "routes": (route(), to_pod(), way()),
        "out": (answer(),),
        "back": (back(),),
    }
    return Routes(**(usual | different))


def sysctls(live: Mapping[str, int] | None = None, persisted: tuple[Persisted, ...] = ()) -> Sysctls:
    """A node that forwards and filters nothing, changed by `live`."""
    usual = {"net.ipv4.ip_forward": 1, "net.ipv6.conf.all.forwarding": 0}
    for name in ("all", "default", "eth0", "eth1", "cali1"):
        conf = f"net.ipv4.conf.{name}"
        usual |= {f"{conf}.forwarding": 1, f"{conf}.rp_filter": 0, f"{conf}.arp_ignore": 0, f"{conf}.arp_announce": 0}
    return Sysctls(0.0, usual | dict(live or {}), persisted)


def persisted(**different: Any) -> Persisted:
    usual: dict[str, Any] = {
        "key": "net.ipv4.conf.*.rp_filter",
        "value": "2",
        "file": "/usr/lib/sysctl.d/50-default.conf",
        "line": 12,
    }
    return Persisted(**(usual | different))
