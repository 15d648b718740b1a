"""Does the kernel let packets from the node's network reach the pods?"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from nodeprep.checks.route import refusal
from nodeprep.facts.alibaba import eni_tables
from nodeprep.facts.alibaba.eni_tables import FROM_POD, TO_POD
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster, Pod
from nodeprep.facts.network.links import Links
from nodeprep.facts.network.routes import Route, RouteAnswer, Routes
from nodeprep.facts.network.sysctls import Sysctls
from nodeprep.model import (
    NODE,
    CannotLook,
    Check,
    Confirmation,
    Reason,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    raw,
)

FILTER = "StrictFilter"
PODS_IN_MESSAGE = 3  # pods in one message


def judge(seen: Seen) -> Iterator[Verdict]:
    routes, sysctls = seen[Routes], seen.explaining(Sysctls)
    mute = {answer.pod for answer in routes.out if answer.errno}  # route.out says why
    asked = [answer for answer in routes.back if answer.errno != errno.ENODEV]
    causes = {answer: refusal.refusal(answer, routes, sysctls) for answer in asked if answer.errno}
    stopped = [one for one, cause in causes.items() if one.pod not in mute or cause.reason == FILTER]
    heard = [answer for answer in asked if answer.pod not in mute]
    if stopped:
        yield verdict(stopped, seen)
    elif (lost := without_way(seen)) is not None:
        yield lost
    elif heard:
        message = f"packets from {heard[0].source} by {heard[0].iif} would reach {len(heard)} pods"
        yield Verdict(NODE, Status.OK, "WayBack", message)


def verdict(stopped: list[RouteAnswer], seen: Seen) -> Verdict:
    first, terway = stopped[0], seen.explaining(Terway)
    cause = refusal.refusal(first, seen[Routes], seen.explaining(Sysctls))
    remedy = None
    if cause.key and terway is not None and terway.present:
        remedy = Remedy("sysctl_terway", {"key": cause.key, "value": "0" if cause.reason == FILTER else "1"})
    more = f" and {len(stopped) - 1} more" if len(stopped) > 1 else ""
    message = f"from {first.source} by {first.iif} to pod {first.pod}{more}: {cause.words}"
    if cause.reason == FILTER:
        message += "; NodePort and node-to-pod traffic takes this way: loose (2) or none (0) is wanted"
    message += f". Ask the kernel again: {first.question}"
    observed = f"{len(stopped)} of {len(seen[Routes].back)} pods"
    return Verdict(NODE, Status.FAIL, cause.reason, message, remedy, observed, "none", args={"key": cause.key})


def without_way(seen: Seen) -> Verdict | None:
    """Pods of Terway's whose host route is gone or leads away: only their rules show them."""
    terway, cluster = seen.get(Terway), seen.get(Cluster)
    if terway is None or not terway.present:
        return None
    found = list(eni_tables.astray(seen[Routes], seen.get(Links)))
    known = raw(cluster)["pods"] if cluster else ()
    listed_pods: tuple[Pod, ...] = () if isinstance(known, Unreadable) else known
    pods = (one for one in listed_pods if not one.deleted and not one.host_network)
    running = {address for one in pods if one.phase == "Running" for address in one.addresses}
    lost = [(address, route) for address, route in found if route or address in running]
    if lost:
        restart = Remedy("terway_restart")
        message = (
            f"{listed(lost)}, and rules {TO_POD} and {FROM_POD}: what is for it never gets there; Terway adds the "
            f"route anew when its pod starts, if the pod's veth is up: see ip route get {lost[0][0]}, ip link"
        )
        return Verdict(NODE, Status.FAIL, "NoRouteToPod", message, restart, f"{len(lost)} pods", "none")
    if found and isinstance(known, Unreadable):
        raise CannotLook(known)
    if found and cluster is None:  # with Kubernetes, route.rules reports what is left over
        message = (
            f"{listed(found)}, and rules {TO_POD} and {FROM_POD}: nothing reaches the pod, or it is gone and they are "
            "left over: see whether a pod has that address (kubectl get pods -A -o wide)"
        )
        return Verdict(NODE, Status.WARN, "RulesWithoutRoute", message, None, f"{len(found)} addresses", "none")
    return None


def listed(found: list[tuple[str, Route | None]]) -> str:
    words = (f"{address} has {f'route {route}' if route else 'no route in table main'}" for address, route in found)
    more = len(found) - PODS_IN_MESSAGE
    return ", ".join(list(words)[:PODS_IN_MESSAGE]) + (f" and {more} more" if more > 0 else "")


CHECK = Check(
    id="route.reverse-path",
    question="Does the kernel let packets from the node's network reach the pods?",
    why="Policy routes make the way back another one: a strict reverse-path filter drops NodePort traffic in silence.",
    fix="Take away the rule or route that the message names (ip rule, ip route show table all).",
    reasons=(
        Reason("WayBack", Status.OK),
        Reason(
            "NoRouteToPod",
            Status.FAIL,
            "ip link set the pod's veth up, then restart this node's Terway pod: it adds the route again.",
        ),
        Reason(
            "RulesWithoutRoute",
            Status.WARN,
            "kubectl get pods -A -o wide: if no pod has that address, restart this node's Terway pod; if one has, "
            "delete the pod.",
        ),
        Reason("Prohibited", Status.FAIL),
        Reason("Unreachable", Status.FAIL),
        Reason("Blackholed", Status.FAIL),
        Reason(
            "NoRoute",
            Status.FAIL,
            "ip rule, ip route show table all; restart the pod of the CNI: it writes its routes again.",
        ),
        Reason(
            "Refused",
            Status.FAIL,
            "ip rule, ip route show table all; restart the pod of the CNI: it writes its rules and routes again.",
        ),
        Reason("StrictFilter", Status.FAIL, "sysctl -w {key}=0, and the same in /etc/sysctl.d."),
        Reason("ForwardingOff", Status.FAIL, "sysctl -w {key}=1, and the same in /etc/sysctl.d."),
    ),
    source="Linux net/ipv4/fib_frontend.c __fib_validate_source; Documentation/networking/ip-sysctl.rst rp_filter",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Routes,),
    uses=(Sysctls, Terway, Links, Cluster),
    after=("sysctl.rp-filter",),
    remedies=("sysctl_terway", "terway_restart"),
    judge=judge,
)
