"""Has this node the one default route that its network needs?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.door_values import Instance
from nodeprep.facts.alibaba import eni_tables
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.network.routes import MAIN, Route, Routes
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Unreadable,
    Verdict,
    raw,
)

UPPER_DEVICE_KINDS = ("bridge", "bond", "team")
UPPER_DEVICE_LEVELS = 3  # a bridge on a bond is two


def judge(seen: Seen) -> Iterator[Verdict]:
    defaults = seen[Routes].default_routes
    if not defaults:
        yield from without(seen)
        return
    first = [route for route in defaults if route.metric == defaults[0].metric]
    imds = seen.get(Imds)
    instance = imds.instance if imds else None
    if instance is None:  # several next hops are what leaf and spine networks are made of
        yield Verdict(NODE, Status.OK, "Default", f"{shown(first)}", observed=shown(first))
        return
    yield on_ecs(first, instance, seen)


def without(seen: Seen) -> Iterator[Verdict]:
    """A host without pods may have no default route by design; a host with pods too, if its network is isolated."""
    routes, imds, status = seen[Routes], seen.get(Imds), Status.FAIL
    if is_terway(seen):
        who = "Terway finds the node's own address by it"
    elif has_other_way(routes):
        message = "no IPv4 default route in table main, and another table or route leads out: see ip rule"
        yield Verdict(NODE, Status.OK, "OtherWay", message, observed="none in table main")
        return
    elif imds is not None and raw(imds)["instance"] is not None:  # unreadable counts too
        who = "an ECS instance has one"
    elif routes.out:
        who, status = f"{len(routes.out)} pods run here", Status.WARN
    else:
        return
    message = f"no IPv4 default route in table main; {who}: see ip route, then what configures the network (journalctl)"
    about = subject(raw(imds)["instance"] if imds else None, seen)
    yield Verdict(about, status, "NoDefault", message, observed="none", expected="one default route")


def is_terway(seen: Seen) -> bool:
    terway = seen.get(Terway)
    return terway is not None and terway.present


def has_other_way(routes: Routes) -> bool:
    """Whether pods get out without it, or a rule for packets from anywhere names a table with a default route."""
    defaults = [one for one in routes.routes if one.destination == "default" and one.kind == "unicast"]
    led = {one.table for one in defaults if one.family == "inet" and one.table != MAIN}
    rules = (one for one in routes.rules if one.family == "inet" and one.action == "lookup" and not one.source)
    return any(rule.table in led for rule in rules) or any(answer.errno is None for answer in routes.out)


def on_ecs(first: list[Route], instance: Instance, seen: Seen) -> Verdict:
    primary = primary_of(instance, seen.get(Links))
    gateway = gateway_of(instance)
    device = way_of(primary, seen) if primary else ""
    whose = f"the primary ENI {instance.primary_mac} by the instance metadata"
    wants = " ".join(["default", *(["via", gateway] if gateway else []), *(["dev", device] if device else [])])
    shows = f"{shown(first)}; {wants} is wanted, {whose}"

    def verdict(status: Status, reason: str, message: str) -> Verdict:
        return Verdict(subject(instance, seen), status, reason, message, observed=shown(first), expected=wants)

    # With another network than Terway this may be intended: an overlay, an own NAT gateway.
    other = Status.FAIL if is_terway(seen) else Status.WARN
    if len(first) > 1:
        message = f"{len(first)} default routes of the same metric: {shows}; take the others away (ip route del)"
        return verdict(Status.FAIL, "SeveralDefaults", message)
    if device and first[0].oif != device:
        message = f"{shows}; a DHCP client on a secondary ENI does this: see ip route, eni.os-manager"
        return verdict(other, "OtherInterface", message)
    if gateway and first[0].via != gateway:
        return verdict(other, "OtherGateway", f"{shows}; see ip route, and who configures {first[0].oif}")
    return verdict(Status.OK, "Default", shown(first))


def primary_of(instance: Instance, links: Links | None) -> Link | None:
    """None where the link is missing: eni.missing-link says so."""
    found = links.links if links else ()
    return next((link for link in found if link.physical and link.own_mac == instance.primary_mac), None)


def way_of(primary: Link, seen: Seen) -> str:
    """The interface that carries its addresses: the uppermost bridge or bond above it, "" where that is not known."""
    links, link = seen.get(Links), primary
    if links is None or is_terway(seen):
        return link.name
    for _ in range(UPPER_DEVICE_LEVELS):
        above = links.named(link.master)
        if above is None:
            return "" if link.master else link.name
        if above.kind not in UPPER_DEVICE_KINDS:  # Open vSwitch, VRF: another interface of theirs has the addresses
            return ""
        link = above
    return ""


def subject(instance: Instance | Unreadable | None, seen: Seen) -> Subject:
    """The primary ENI, where it is known: what is wrong there takes the default route with it."""
    primary = primary_of(instance, seen.explaining(Links)) if isinstance(instance, Instance) else None
    return eni_tables.of(primary) if primary else NODE


def gateway_of(instance: Instance) -> str:
    return instance.primary.gateway if instance.primary else ""


def shown(found: list[Route]) -> str:
    return ", ".join(str(route) for route in found[:3])


CHECK = Check(
    id="route.default",
    question="Has this node the one default route that its network needs?",
    why="kubelet and CNI plugins take the node's address from it; with none, or a wrong one, the node is cut off.",
    fix="ip route replace {expected}; then keep DHCP clients off the secondary interfaces.",
    reasons=(
        Reason("Default", Status.OK),
        Reason("OtherWay", Status.OK),
        Reason("NoDefault", Status.FAIL, "ip route replace default via GATEWAY dev PRIMARY, then journalctl -b."),
        Reason("NoDefault", Status.WARN, "ip route replace default via GATEWAY dev PRIMARY, then journalctl -b."),
        Reason(
            "SeveralDefaults",
            Status.FAIL,
            "Keep {expected}, ip route del the others; then keep DHCP clients off the secondary interfaces.",
        ),
        Reason("OtherInterface", Status.FAIL),
        Reason("OtherInterface", Status.WARN),
        Reason("OtherGateway", Status.FAIL),
        Reason("OtherGateway", Status.WARN),
    ),
    source="Terway plugin/driver/utils GetHostIP (no ipv4 default route); ECS metadata mac, gateway",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Routes,),
    uses=(Imds, Links, Terway),
    after=("eni.primary-name", "eni.up"),
    judge=judge,
)
