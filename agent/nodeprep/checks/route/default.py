"""Has this node the one default route that its network needs?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.imds import Imds, Instance
from nodeprep.facts.links import Link, Links
from nodeprep.facts.routes import Route, Routes
from nodeprep.facts.terway import Terway
from nodeprep.model import NODE, Check, Damping, Seen, Severity, Stage, Status, Verdict, raw


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
    """A host that runs no pods may do without, by design."""
    terway, imds = seen.get(Terway), seen.get(Imds)
    if terway is not None and terway.present:
        who = "Terway finds the node's own address by it"
    elif imds is not None and raw(imds)["instance"] is not None:  # unreadable too: that often follows from this
        who = "an ECS instance has one"
    elif seen[Routes].out:
        who = f"{len(seen[Routes].out)} pods run here"
    else:
        return
    message = f"no IPv4 default route in table main; {who}: see ip route, then what configures the network (journalctl)"
    yield Verdict(NODE, Status.FAIL, "NoDefault", message, observed="none", expected="one default route")


def on_ecs(first: list[Route], instance: Instance, seen: Seen) -> Verdict:
    primary = primary_of(instance, seen.get(Links))
    gateway = gateway_of(instance)
    device, whose = primary.name if primary else "", f"the primary ENI {instance.primary_mac} by the instance metadata"
    wants = " ".join(["default", *(["via", gateway] if gateway else []), *(["dev", device] if device else [])])
    shows = f"{shown(first)}; {wants} is wanted, {whose}"

    def verdict(status: Status, reason: str, message: str) -> Verdict:
        return Verdict(NODE, status, reason, message, observed=shown(first), expected=wants)

    if len(first) > 1:
        message = f"{len(first)} default routes of the same metric: {shows}; take the others away (ip route del)"
        return verdict(Status.FAIL, "SeveralDefaults", message)
    if device and first[0].oif != device:
        message = f"{shows}; a DHCP client on a secondary ENI does this: see ip route, eni.os-manager"
        return verdict(Status.FAIL, "OtherInterface", message)
    if gateway and first[0].via != gateway:
        return verdict(Status.FAIL, "OtherGateway", f"{shows}; see ip route, and who configures {first[0].oif}")
    return verdict(Status.OK, "Default", shown(first))


def primary_of(instance: Instance, links: Links | None) -> Link | None:
    """None where there is no such link: eni.missing-link says so."""
    found = links.links if links else ()
    return next((link for link in found if link.physical and link.own_mac == instance.primary_mac), None)


def gateway_of(instance: Instance) -> str:
    return instance.primary.gateway if instance.primary else ""


def shown(found: list[Route]) -> str:
    return ", ".join(str(route) for route in found[:3])


CHECK = Check(
    id="route.default",
    question="Has this node the one default route that its network needs?",
    why="kubelet and CNI plugins take the node's address from it; with none, or a wrong one, the node is cut off.",
    fix="ip route replace default via GATEWAY dev PRIMARY; then keep DHCP clients off the secondary interfaces.",
    source="Terway plugin/driver/utils GetHostIP (no ipv4 default route); ECS metadata mac, gateway",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    damping=Damping.HARD,
    needs=(Routes,),
    uses=(Imds, Links, Terway),
    after=("eni.primary-name",),
    judge=judge,
)
