"""Rules, routes and the kernel's decisions as they are: in a network namespace of our own, with `ip` beside us."""

from __future__ import annotations

import errno
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from nodeprep.door_values import RoutingRule
from nodeprep.doors.netlink import routing
from nodeprep.doors.netlink.routing import KernelRoute, Packet, RouteLookup
from nodeprep.values import asdict
from tests.doors.netlink_kernel import foreign, kernel, nla, u32
from tests.rigs.unshared import seen_in

AGENT = Path(routing.__file__).parents[3]
LOOK = f"""
import json, subprocess, sys
sys.path.insert(0, {str(AGENT)!r})
from nodeprep.doors.netlink import routing
from nodeprep.doors.netlink.routing import Packet
from nodeprep.values import asdict

def ip(*question):
    return json.loads(subprocess.run(("ip", "-json", *question), check=True, capture_output=True).stdout or "[]")

def sh(line):
    subprocess.run(line, shell=True, check=True)

rules = {{family: ip(f"-{{family}}", "-d", "-N", "rule") for family in "46"}}
routes = ip("-4", "-d", "-N", "route", "show", "table", "all")
tables = routing.read()
index = {{device.name: number for number, device in tables.devices.items()}}
out = Packet("10.1.0.134", "8.8.8.8", index["cali1"])
back = Packet("10.1.0.254", "10.1.0.134", index["rail0"])
ways = {{}}

def ask(name, setup="true", undo="true"):
    sh(setup)
    ways[name] = [asdict(way) for way in routing.ask([out, back])]
    sh(undo)

ask("as it should be")
ask("marked")
ways["marked"] = [asdict(way) for way in routing.ask([out._replace(mark=16)])]
ask("no forwarding", "sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1")
ask("strict", "sysctl -qw net.ipv4.conf.all.rp_filter=1", "sysctl -qw net.ipv4.conf.all.rp_filter=0")
for action in ("prohibit", "blackhole", "unreachable"):
    ask(action, f"ip rule add pref 100 from 10.1.0.134 {{action}}", "ip rule del pref 100")
ask("no rule", "ip rule del pref 2048")
ask("no route", "ip route del default")
beside = [asdict(one) for one in routing.read().neighbours]
sh("ip link del cni0")
bridgeless = [asdict(one) for one in routing.read().neighbours]
ways["no interface"] = [asdict(way) for way in routing.ask([out._replace(iif=4242)])]
print(json.dumps({{
    "ours": asdict(tables),
    "index": index,
    "beside": beside,
    "bridgeless": bridgeless,
    "ways": ways,
    "rules": rules,
    "routes": routes,
}}))
"""
SETUP = """set -e
ip link set lo up
ip link add rail0 type veth peer name switch0
ip link add rail1 type veth peer name switch1
ip link add cali1 type veth peer name pod1
ip link add cni0 type bridge
for link in rail0 switch0 rail1 switch1 cali1 pod1; do ip link set $link up; done
ip address add 10.1.0.1/24 dev rail0
ip address add fd00::1/64 dev rail0 nodad
ip route add default via 10.1.0.254 dev rail0 metric 7
ip route add default via 10.1.0.253 dev rail1 onlink table 1003
ip route add default via 10.1.0.252 dev rail0 table 4242
ip route add 10.1.0.134 dev cali1
ip route add 10.9.0.0/16 nexthop via 10.1.0.2 dev rail0 nexthop via 10.1.0.3 dev rail1 onlink
ip route add 10.10.0.0/16 via inet6 fe80::1 dev rail0
ip route add blackhole 10.11.0.0/16
ip route add prohibit 10.12.0.0/16
ip route add unreachable default metric 9999
ip -6 route add default via fd00::fe dev rail0
ip neighbour add 10.1.0.77 lladdr 02:00:00:00:00:77 dev rail0 nud permanent
ip rule add pref 512 to 10.1.0.134 lookup main
ip rule add pref 2048 from 10.1.0.134 lookup 1003
ip rule add pref 600 fwmark 16 lookup 4242
ip rule add pref 601 not from 10.1.0.0/16 iif rail1 oif rail0 lookup 77
ip rule add pref 602 from 10.99.0.0/16 prohibit
ip -6 rule add pref 700 from fd00::/64 lookup 1003
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0
for link in default rail0 rail1 cali1; do sysctl -qw net.ipv4.conf.$link.rp_filter=0; done
until ip link show rail0 | grep -q 'state UP'; do sleep 0.05; done
"""


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    """What we say and what ip says of the same namespace."""
    return seen_in(SETUP, LOOK)


def rules(said: dict[str, Any]) -> dict[tuple[str, int], RoutingRule]:
    return {(one["family"], one["priority"]): RoutingRule(**one) for one in said["ours"]["rules"]}


def routes(said: dict[str, Any]) -> list[KernelRoute]:
    return [KernelRoute(**one) for one in said["ours"]["routes"]]


def test_kinds_of_interfaces(said: dict[str, Any]) -> None:
    kinds = {one["name"]: one["kind"] for one in said["ours"]["devices"].values()}
    assert (kinds["lo"], kinds["cali1"], kinds["cni0"]) == (None, "veth", "bridge")


def test_neighbours_count_where_there_is_a_bridge(said: dict[str, Any]) -> None:
    assert "10.1.0.77" in {one["address"] for one in said["ours"]["neighbours"]}
    assert "10.1.0.77" in {one["address"] for one in said["beside"]}
    assert said["bridgeless"] == []


PLAIN = RoutingRule("inet", 0, "", "", "", "", None, 255, "lookup", inverted=False)
POD = "10.1.0.134/32"
RULES = [
    PLAIN,  # its priority, 0, is not sent
    RoutingRule("inet", 512, "", POD, "", "", None, 254, "lookup", inverted=False),
    RoutingRule("inet", 600, "", "", "", "", 16, 4242, "lookup", inverted=False),
    RoutingRule("inet", 601, "10.1.0.0/16", "", "rail1", "rail0", None, 77, "lookup", inverted=True),
    RoutingRule("inet", 602, "10.99.0.0/16", "", "", "", None, 0, "prohibit", inverted=False),
    RoutingRule("inet", 2048, POD, "", "", "", None, 1003, "lookup", inverted=False),
    RoutingRule("inet6", 0, "", "", "", "", None, 255, "lookup", inverted=False),
    RoutingRule("inet6", 700, "fd00::/64", "", "", "", None, 1003, "lookup", inverted=False),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.family} {rule.priority}")
def test_a_rule(said: dict[str, Any], rule: RoutingRule) -> None:
    assert rules(said)[rule.family, rule.priority] == rule


def test_ip_sees_as_many_rules(said: dict[str, Any]) -> None:
    theirs = {(family, one["priority"]) for family in "46" for one in said["rules"][family]}
    ours = {("4" if family == "inet" else "6", priority) for family, priority in rules(said)}
    assert ours == theirs


def test_routes_of_every_sort(said: dict[str, Any]) -> None:
    index, found = said["index"], routes(said)

    def route(**different: Any) -> KernelRoute:
        usual: dict[str, Any] = {"family": "inet", "table": 254, "destination": "default", "via": "", "oif": 0}
        usual |= {"metric": 0, "scope": "global", "kind": "unicast", "onlink": False}
        return KernelRoute(**(usual | different))

    rail0, rail1 = index["rail0"], index["rail1"]
    for wanted in (
        route(via="10.1.0.254", oif=rail0, metric=7),
        route(via="10.1.0.253", oif=rail1, table=1003, onlink=True),
        route(via="10.1.0.252", oif=rail0, table=4242),
        route(destination=POD, oif=index["cali1"], scope="link"),
        route(destination="10.9.0.0/16", via="10.1.0.2", oif=rail0),
        route(destination="10.9.0.0/16", via="10.1.0.3", oif=rail1, onlink=True),
        route(destination="10.10.0.0/16", via="fe80::1", oif=rail0),
        route(destination="10.11.0.0/16", kind="blackhole"),
        route(destination="10.12.0.0/16", kind="prohibit"),
        route(kind="unreachable", metric=9999),
        route(family="inet6", via="fd00::fe", oif=rail0, metric=1024),
        route(destination="10.1.0.1/32", oif=rail0, table=255, scope="host", kind="local"),
    ):
        assert wanted in found


def test_ip_sees_the_same_routes(said: dict[str, Any]) -> None:
    """But for the one with two next hops, which is two of ours. Those of IPv6 come by themselves, when they please."""
    assert len([one for one in routes(said) if one.family == "inet"]) == len(said["routes"]) + 1


WAYS: list[tuple[str, list[tuple[str, str] | int]]] = [
    # what was changed, what becomes of a packet out of the pod, and of one back to it
    ("as it should be", [("rail1", "10.1.0.253"), ("cali1", "")]),
    ("marked", [("rail0", "10.1.0.252")]),
    ("no forwarding", [errno.EHOSTUNREACH, errno.EHOSTUNREACH]),
    ("prohibit", [errno.EACCES]),
    ("blackhole", [errno.EINVAL]),
    ("unreachable", [errno.ENETUNREACH]),
    ("no rule", [("rail0", "10.1.0.254"), ("cali1", "")]),
    ("no interface", [errno.ENODEV]),
]


@pytest.mark.parametrize(("name", "wanted"), WAYS)
def test_what_the_kernel_would_do(said: dict[str, Any], name: str, wanted: list[tuple[str, str] | int]) -> None:
    index = {number: link for link, number in said["index"].items()}
    ways = [RouteLookup(**one) for one in said["ways"][name]]
    assert [way.errno or (index[way.oif], way.via) for way in ways][: len(wanted)] == wanted


def test_the_way_back_through_a_strict_filter(said: dict[str, Any]) -> None:
    """EXDEV, or EINVAL in newer kernels; what leaves the pod by its own ENI passes."""
    out, back = (RouteLookup(**one) for one in said["ways"]["strict"])
    assert out.errno is None
    assert back.errno in (errno.EXDEV, errno.EINVAL)


def test_the_table_that_decided(said: dict[str, Any]) -> None:
    out, back = (RouteLookup(**one) for one in said["ways"]["as it should be"])
    assert (out.table, back.table, out.kind) == (1003, 254, "unicast")


RTM_GETROUTE, RTM_GETRULE = 26, 34


def rtmsg(family: int = socket.AF_INET, bits: int = 0, kind: int = 1) -> bytes:
    return struct.pack("=8BI", family, bits, 0, 0, 254, 0, 0, kind, 0)


def read(route: bytes = b"", rule: bytes = b"") -> tuple[tuple[RoutingRule, ...], tuple[KernelRoute, ...]]:
    """What is read of a kernel with this route and this rule."""

    def answer(kind: int, _: bytes) -> list[bytes]:
        return [body for body in ({RTM_GETROUTE: route, RTM_GETRULE: rule}[kind],) if body]

    with kernel(answer) as (asking, _):
        return routing.rules(asking), routing.routes(asking)


def hop(length: int, *inside: bytes) -> bytes:
    return struct.pack("=HBBi", length, 0, 0, 7) + b"".join(inside)


GATEWAY = nla(5, socket.inet_aton("10.1.0.2"))
BROKEN = [
    ("an address of three bytes", rtmsg(bits=24) + nla(1, b"\x0a\x01\x00")),
    ("no address", rtmsg(bits=24)),
    ("a next hop cut short", rtmsg() + nla(9, b"\x08\x00\x00")),
    ("a next hop longer than all", rtmsg() + nla(9, hop(64, GATEWAY))),
    ("a next hop of no length", rtmsg() + nla(9, hop(0, GATEWAY))),
    ("an attribute longer than its next hop", rtmsg() + nla(9, hop(16, struct.pack("=HHI", 64, 5, 0)))),
    ("a gateway of no family", rtmsg() + nla(18, b"\x02")),
]


@pytest.mark.parametrize(("what", "route"), BROKEN, ids=[what for what, _ in BROKEN])
def test_a_route_that_no_kernel_sends(what: str, route: bytes) -> None:
    with pytest.raises(OSError, match="netlink"):
        read(route)
    assert what


def test_what_a_newer_kernel_may_say() -> None:
    (rule,), (route,) = read(
        rtmsg(kind=99) + u32(4, 7) + nla(18, struct.pack("=H", 28) + b"\x01\x02"),
        struct.pack("=8BI", socket.AF_INET, 0, 0, 0, 7, 0, 0, 42, 0),
    )
    assert (route.kind, route.via, route.destination) == ("99", "01:02", "default")
    assert (rule.action, rule.table) == ("42", 7)


def test_families_that_are_not_ip_and_the_cache_are_left_out() -> None:
    assert read(rtmsg(family=28), struct.pack("=8BI", 28, 0, 0, 0, 7, 0, 0, 1, 0)) == ((), ())
    cached = struct.pack("=8BI", socket.AF_INET, 0, 0, 0, 254, 0, 0, 1, 0x200)
    assert read(cached) == ((), ())


KEPT = [
    # header of a route in a long table, whether it is kept
    ({"bits": 24}, False),
    ({"bits": 24, "family": socket.AF_INET6}, False),
    ({"bits": 0}, True),
    ({"bits": 32}, True),
    ({"bits": 24, "kind": 6}, True),
    ({"bits": 24, "scope": 253}, True),  # the subnet of a bridge
    ({"bits": 24, "table": 252}, True),  # the number is an attribute, Terway's are
]


@pytest.mark.parametrize(("what", "kept"), KEPT)
def test_learned_routes_of_a_long_table_are_left_out(what: dict[str, int], kept: bool) -> None:
    asked = {"family": socket.AF_INET, "bits": 24, "table": 254, "scope": 0, "kind": 1} | what
    head = struct.pack(
        "=8BI", asked["family"], asked["bits"], 0, 0, asked["table"], 0, asked["scope"], asked["kind"], 0
    )
    length = 16 if asked["family"] == socket.AF_INET6 else 4
    one = head + (nla(1, bytes(length)) if asked["bits"] else b"")
    for many, found in ((routing.MANY + 1, kept), (10, True)):
        with kernel(lambda *_, many=many: [one] * many) as (asking, _):
            assert bool(routing.routes(asking)) is found


def test_what_is_asked() -> None:
    with kernel(lambda *_: errno.EACCES) as (asking, played):
        refused = routing.way(asking, Packet("10.1.0.134", "8.8.8.8", 7, 16))
    assert refused == RouteLookup(0, "", None, "", errno.EACCES)
    ((kind, body),) = played.asked
    assert (kind, body[:3]) == (RTM_GETROUTE, bytes((socket.AF_INET, 32, 32)))
    assert struct.unpack_from("=I", body, 8)[0] == 0x1000  # the table that decided is to be named
    assert body[12:] == (
        nla(1, socket.inet_aton("8.8.8.8")) + nla(2, socket.inet_aton("10.1.0.134")) + u32(3, 7) + u32(16, 16)
    )


def test_values_are_plain() -> None:
    read = asdict(routing.read())
    assert read["rules"]
    assert foreign(read) == []


def test_reading_leaves_no_descriptor_behind() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        routing.read()
        routing.ask([Packet("127.0.0.1", "127.0.0.1", 1)])
    assert len(list(Path("/proc/self/fd").iterdir())) == before
