"""sysctl.forward: now, on each interface, and after the next boot."""

from __future__ import annotations

import pytest

from nodeprep.checks.sysctl.forward import CHECK
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.network.cni import Cni
from nodeprep.facts.network.links import Address
from nodeprep.facts.network.routes import Routes
from nodeprep.facts.network.sysctls import Persisted, Sysctls
from nodeprep.model import Unreadable, Why
from tests.cni_values import cni, terway
from tests.route_values import answer, persisted, routes, sysctls
from tests.values import changed, links, say, verdicts

NO_TERWAY = terway(present=False)
REMEDY = "sysctl_terway(key={}, value=1)"
OFF = sysctls({"net.ipv4.ip_forward": 0, "net.ipv4.conf.all.forwarding": 0})


def at(name: str, value: str, line: int = 3, key: str = "net.ipv4.ip_forward") -> Persisted:
    return persisted(key=key, value=value, file=f"/etc/sysctl.d/{name}.conf", line=line)


ALIAS = "net.ipv4.conf.all.forwarding"
ROWS: list[tuple[Sysctls, str]] = [
    (sysctls(), "ok Forwarding"),
    (OFF, f"warn ForwardingOff {REMEDY.format('net.ipv4.ip_forward')}"),
    (
        sysctls({"net.ipv4.conf.cali1.forwarding": 0}),
        f"warn ForwardingOffHere {REMEDY.format('net.ipv4.conf.cali1.forwarding')}",
    ),
    (
        sysctls({"net.ipv4.conf.eth0.forwarding": 0}),
        f"warn ForwardingOffHere {REMEDY.format('net.ipv4.conf.eth0.forwarding')}",
    ),
    (
        sysctls({"net.ipv4.conf.default.forwarding": 0}),
        f"warn ForwardingOffHere {REMEDY.format('net.ipv4.conf.default.forwarding')}",
    ),
    (sysctls({"net.ipv4.conf.docker0.forwarding": 0}), "ok Forwarding"),  # no way of a pod
    (sysctls(persisted=(at("10-a", "1"),)), "ok Forwarding"),
    (sysctls(persisted=(at("10-a", "0"),)), f"warn ForwardingOffAtBoot {REMEDY.format('net.ipv4.ip_forward')}"),
    (
        sysctls(persisted=(at("10-a", "0", key=ALIAS),)),
        f"warn ForwardingOffAtBoot {REMEDY.format('net.ipv4.ip_forward')}",
    ),
    (sysctls(persisted=(at("10-a", "0", key=ALIAS), at("20-b", "1"))), "ok Forwarding"),
    (
        sysctls(persisted=(at("10-a", "1"), at("20-b", "0", key=ALIAS))),
        f"warn ForwardingOffAtBoot {REMEDY.format('net.ipv4.ip_forward')}",
    ),
    (sysctls(persisted=(at("10-a", "0"), at("20-b", "1"))), "ok Forwarding"),
    (changed(sysctls(), persisted=Unreadable(Why.DENIED, "/etc/sysctl.d/x.conf")), "unknown CannotLook"),
    (
        changed(OFF, persisted=Unreadable(Why.DENIED, "/etc/sysctl.d/x.conf")),
        f"warn ForwardingOff {REMEDY.format('net.ipv4.ip_forward')}",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "says"), ROWS)
def test_says(seen: Sysctls, says: str) -> None:
    assert say(CHECK, seen, routes(), terway()) == says
    assert say(CHECK, seen, routes(), NO_TERWAY) == says.partition(" sysctl_terway")[0]


CONCERNED: list[tuple[tuple[object, ...], str]] = [
    ((terway(),), "warn ForwardingOff"),
    ((NO_TERWAY, cni()), "warn ForwardingOff"),
    ((NO_TERWAY, cni(kubelet=False)), "absent Nothing"),
    ((NO_TERWAY, cni(kubelet=False), routes()), "warn ForwardingOff"),
    ((NO_TERWAY, cni(files=())), "absent Nothing"),
    ((NO_TERWAY, cni(files=None)), "absent Nothing"),
    ((NO_TERWAY, cni(files=None), routes()), "warn ForwardingOff"),
    ((NO_TERWAY, cni(files=None), routes(out=())), "absent Nothing"),
    ((), "absent Nothing"),
]


@pytest.mark.parametrize(("others", "says"), CONCERNED)
def test_only_where_pods_are_routed(others: tuple[Terway | Cni | Routes, ...], says: str) -> None:
    assert say(CHECK, OFF, *others).partition(" sysctl_terway")[0] == says


SIX, LOOPBACK, FOUR = (
    Address("eth0", "fd00::1", 64, "global", dynamic=False),
    Address("lo", "127.0.0.1", 8, "host", dynamic=False),
    Address("eth0", "192.168.0.116", 24, "global", dynamic=False),
)
ON6 = {"net.ipv6.conf.all.forwarding": 1}
KEY6 = "net.ipv6.conf.all.forwarding"
OFF4 = {"net.ipv4.ip_forward": 0}
NO_PODS = routes(out=(), back=())
FAMILIES: list[tuple[Sysctls, tuple[Address, ...] | None, Routes, str]] = [
    # settings, addresses, pods, says
    (sysctls(OFF4 | ON6), (SIX, LOOPBACK), NO_PODS, "ok Forwarding"),
    (sysctls(), (SIX, LOOPBACK), NO_PODS, "warn ForwardingOff"),
    (sysctls(ON6, (at("10-a", "0", key=KEY6),)), (SIX, LOOPBACK), NO_PODS, "warn ForwardingOffAtBoot"),
    (sysctls(ON6, (at("10-a", "1", key=KEY6),)), (SIX, LOOPBACK), NO_PODS, "ok Forwarding"),
    (sysctls(OFF4 | ON6), (SIX, FOUR), NO_PODS, "warn ForwardingOff"),
    (sysctls(OFF4 | ON6), (LOOPBACK,), NO_PODS, "warn ForwardingOff"),
    (sysctls(OFF4 | ON6), None, NO_PODS, "warn ForwardingOff"),
    (sysctls(OFF4 | ON6), (SIX, LOOPBACK), routes(), "warn ForwardingOff"),  # pods of IPv4
]


@pytest.mark.parametrize(("seen", "addresses", "told", "says"), FAMILIES)
def test_a_node_of_ipv6_only(seen: Sysctls, addresses: tuple[Address, ...] | None, told: Routes, says: str) -> None:
    assert say(CHECK, seen, told, NO_TERWAY, cni(), links(addresses=addresses)) == says


def test_messages() -> None:
    many = routes(out=[answer(iif=f"cali{number}") for number in range(5)])
    closed = sysctls({f"net.ipv4.conf.cali{number}.forwarding": 0 for number in range(5)})
    (here,) = verdicts(CHECK, closed, many)
    assert here.message == (
        "net.ipv4.conf.cali0.forwarding, net.ipv4.conf.cali1.forwarding, net.ipv4.conf.cali2.forwarding and 2 more is "
        "0; 1 is wanted by the pods that are routed here: sysctl -w net.ipv4.conf.cali0.forwarding=1"
    )
    (boot,) = verdicts(CHECK, sysctls(persisted=(at("10-a", "0"),)), routes())
    assert boot.message == (
        "/etc/sysctl.d/10-a.conf:3 sets net.ipv4.ip_forward = 0 at the next boot; now it is 1, and 1 is wanted "
        "by the pods that are routed here"
    )
