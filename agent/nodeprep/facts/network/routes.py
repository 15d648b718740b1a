"""Where the kernel sends packets: rules and routes of all tables, and its own answers to what it would do."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, NamedTuple

from nodeprep.door_values import RoutingRule
from nodeprep.model import Fact, Shown, Topic, Unreadable, shown

if TYPE_CHECKING:
    from nodeprep.doors.netlink.routing import RouteLookup, RoutingTables
    from nodeprep.doors.node_host import Host

MAIN = 254  # RT_TABLE_MAIN (include/uapi/linux/rtnetlink.h)
# Stands for all outside addresses: only the default route covers it. Nothing is sent to it.
OUTSIDE_ADDRESS = "8.8.8.8"
PODS_LIMIT = (
    256  # as many as are asked about: the most that a kubelet runs is 110, GKE's and EKS's limits are below 256
)
# Bridges that CNI plugins put pods on: bridge's and flannel's default, kubenet, kube-router, weave.
BRIDGES = ("cni0", "cbr0", "kube-bridge", "weave")
GONE_STATES = ("FAILED", "INCOMPLETE", "NONE")  # a neighbour that does not answer


@shown
class Route(Shown):
    """A route. `destination` is a prefix, "default" for all; `oif` is the name of the interface, "" for none.

    `kind` is the kernel's word: "unicast", "local", "blackhole", "prohibit", "unreachable" and so on.
    One with several next hops is as many routes here.
    """

    family: str
    table: int
    destination: str
    via: str
    oif: str
    metric: int
    scope: str
    kind: str
    onlink: bool

    def __str__(self) -> str:
        """As `ip route` shows it."""
        words = [self.destination] if self.kind == "unicast" else [self.kind, self.destination]
        words += ["via", self.via] if self.via else []
        words += ["dev", self.oif] if self.oif else []
        words += ["metric", str(self.metric)] if self.metric else []
        return " ".join(words)


@shown
class RouteAnswer(Shown):
    """What the kernel would do with a packet (RTM_GETROUTE): an interface and a gateway, or an errno.

    The packet comes in by `iif` from `source` for `destination`; `pod` is the pod's address that it is about.
    `table` is the table that decided, `kind` the kind of route; None and "" with an errno.
    """

    pod: str
    iif: str
    source: str
    destination: str
    oif: str
    via: str
    errno: int | None
    table: int | None = None
    kind: str = "unicast"

    @property
    def question(self) -> str:
        """The command that asks the kernel the same."""
        return f"ip route get {self.destination} from {self.source} iif {self.iif}"


@shown
class Routes(Shown):
    """`out` are the ways out of pods, `back` the ways from the node's network to pods; IPv4 only.

    Of more than 10,000 `routes`, those by a gateway to other networks are left out: a router learns 100,000 of them.
    """

    at: float
    rules: tuple[RoutingRule, ...]
    routes: tuple[Route, ...]
    out: tuple[RouteAnswer, ...]
    back: tuple[RouteAnswer, ...]

    def table(self, number: int) -> tuple[Route, ...]:
        return tuple(route for route in self.routes if route.table == number)

    @property
    def default_routes(self) -> tuple[Route, ...]:
        """IPv4 default routes of the main table, the one that is used first."""
        found = [
            route
            for route in self.table(MAIN)
            if route.family == "inet" and route.destination == "default" and route.kind == "unicast"
        ]
        return tuple(sorted(found, key=lambda route: route.metric))

    def from_pod(self, address: str, priority: int) -> tuple[RoutingRule, ...]:
        """Rules of this priority for packets from this address."""
        return tuple(rule for rule in self.rules if rule.priority == priority and rule.source == f"{address}/32")

    def to_pod(self, address: str, priority: int) -> tuple[RoutingRule, ...]:
        return tuple(rule for rule in self.rules if rule.priority == priority and rule.destination == f"{address}/32")


class RouteQuestion(NamedTuple):
    """A packet that the kernel is asked about: for which pod, and the interface, by index, that it comes in by."""

    pod: str
    source: str
    destination: str
    iif: int


def observe(host: Host) -> Routes | Unreadable:
    told = host.route_tables()
    if isinstance(told, Unreadable):
        return told
    pods = list(pods_of(told, host.physical_kinds))[:PODS_LIMIT]
    out = [RouteQuestion(pod, pod, OUTSIDE_ADDRESS, index) for pod, index in pods]
    back = [RouteQuestion(pod, peer, pod, index) for peer, index in peers_of(told) for pod, _ in pods]
    ways = host.ways([(one.source, one.destination, one.iif) for one in (*out, *back)])
    if isinstance(ways, Unreadable):
        return ways
    answers = tuple(_answer(told, question, way) for question, way in zip((*out, *back), ways, strict=True))
    return Routes(
        at=host.now(),
        rules=told.rules,
        routes=tuple(
            Route(
                family=route.family,
                table=route.table,
                destination=route.destination,
                via=route.via,
                oif=_name(told, route.oif),
                metric=route.metric,
                scope=route.scope,
                kind=route.kind,
                onlink=route.onlink,
            )
            for route in told.routes
        ),
        out=answers[: len(out)],
        back=answers[len(out) :],
    )


def pods_of(told: RoutingTables, physical: frozenset[str | None]) -> Iterator[tuple[str, int]]:
    """Addresses of pods on this node and the interfaces they send by, without Kubernetes.

    Terway, Calico, Cilium and the plugins of EKS and GKE keep a host route to each pod's veth; others have a bridge.
    A node that is a container itself has a veth for its NIC, and perhaps a host route to its gateway: not a pod.
    """
    gateways = {(one.via, one.oif) for one in told.routes if one.via}
    for route in told.routes:
        if route.family != "inet" or route.table != MAIN or route.kind != "unicast" or route.via:
            continue
        if route.destination == "default":  # by a bridge that holds the node's own NIC
            continue
        device = told.devices.get(route.oif)
        if device is None or device.kind in physical:
            continue
        address = route.destination.removesuffix("/32")
        if device.kind == "veth" and address != route.destination and (address, route.oif) not in gateways:
            yield address, route.oif
        elif device.kind == "bridge" and device.name in BRIDGES:
            yield from _on_bridge(told, route.destination, route.oif)


def _on_bridge(told: RoutingTables, subnet: str, index: int) -> Iterator[tuple[str, int]]:
    """One pod of a bridge stands for all: they share its subnet's rules. Without a neighbour it is a free address."""
    net = IPv4Network(subnet, strict=False)
    ours = {one.address for one in told.addresses}
    there = [one.address for one in told.neighbours if one.index == index and one.state not in GONE_STATES]
    pods = [one for one in there if ":" not in one and IPv4Address(one) in net]
    spare = (str(one) for one in net.hosts() if str(one) not in ours)
    pod = pods[0] if pods else next(spare, None)
    if pod is not None:
        yield pod, index


def peers_of(told: RoutingTables) -> Iterator[tuple[str, int]]:
    """An address of the node's network, and the interface its packets come in by: the one of the default route."""
    found = [one for one in told.routes if one.family == "inet" and one.table == MAIN and one.kind == "unicast"]
    defaults = sorted((one for one in found if one.destination == "default" and one.oif), key=lambda one: one.metric)
    if not defaults:
        return
    first = defaults[0]
    own = [one for one in told.addresses if one.index == first.oif and one.family == "inet"]
    if first.via and ":" not in first.via:
        yield first.via, first.oif
        return
    beside = (str(host) for one in own for host in IPv4Network(f"{one.address}/{one.prefixlen}", strict=False).hosts())
    peer = next((one for one in beside if all(one != mine.address for mine in own)), None)
    if peer is not None:
        yield peer, first.oif


def _answer(told: RoutingTables, question: RouteQuestion, way: RouteLookup) -> RouteAnswer:
    return RouteAnswer(
        pod=question.pod,
        iif=_name(told, question.iif),
        source=question.source,
        destination=question.destination,
        oif=_name(told, way.oif),
        via=way.via,
        errno=way.errno,
        table=way.table,
        kind=way.kind,
    )


def _name(told: RoutingTables, index: int) -> str:
    """An interface's name, its index where it is in another network namespace."""
    device = told.devices.get(index)
    return device.name if device else str(index) if index else ""


FACT = Fact(
    Routes,
    observe,
    woken_by=frozenset({Topic.LINK}),
    every_heard=60.0,
    live=True,
    doors=("nodeprep.doors.netlink.routing",),
)
