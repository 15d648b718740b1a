"""Would the kernel send what pods of this node send, and by the right interface?"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from nodeprep.checks.route import refusal, whose
from nodeprep.facts.alibaba import eni_tables
from nodeprep.facts.alibaba.eni_tables import FIRST, FROM_POD, LAST, EniTables
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.links import Links
from nodeprep.facts.network.routes import RouteAnswer, Routes
from nodeprep.facts.network.sysctls import Sysctls
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Unreadable,
    Verdict,
    raw,
)
from nodeprep.values import Value

PODS_IN_MESSAGE = 3  # pods in one message


class WayFault(Value):
    """Why a pod's packets do not leave as they should. `key` is the sysctl to change, "" for none."""

    answer: RouteAnswer
    reason: str
    words: str
    remedy: Remedy | None
    key: str = ""


def judge(seen: Seen) -> Iterator[Verdict]:
    terway = seen.get(Terway)
    ours = terway is not None and terway.present
    shared = ours and terway is not None and not terway.is_exclusive
    enis, isolated = eni_tables.eni_tables(seen), not ours and is_isolated(seen)
    found: dict[Subject, list[WayFault | None]] = {}
    dark: dict[str, Unreadable] = {}
    for answer in seen[Routes].out:
        if answer.errno == errno.ENODEV or (isolated and is_cut_off(answer, seen)):  # it went while we looked
            continue
        subject = enis.subject(answer.pod, enis.table_of(answer.pod)) if ours else NODE
        trouble = refused(answer, seen, ours=ours) if answer.errno else elsewhere(answer, enis) if shared else None
        cannot = enis.cannot_tell(answer.pod) if shared and trouble is None else None
        if cannot is not None:
            dark[answer.pod] = cannot
            continue
        found.setdefault(subject, []).append(trouble)
    for subject, troubles in found.items():
        yield verdict(subject, [one for one in troubles if one is not None], len(troubles))
    if dark:
        yield whose.nobody_says(dark)


def is_isolated(seen: Seen) -> bool:
    """Whether this node's network may have no way out by design: of a cloud's node route.default says what it lacks."""
    imds = seen.get(Imds)
    return not seen[Routes].default_routes and (imds is None or raw(imds)["instance"] is None)


def is_cut_off(answer: RouteAnswer, seen: Seen) -> bool:
    return bool(answer.errno) and refusal.refusal(answer, seen[Routes], seen.explaining(Sysctls)).reason == "NoRoute"


def refused(answer: RouteAnswer, seen: Seen, *, ours: bool) -> WayFault:
    cause = refusal.refusal(answer, seen[Routes], seen.explaining(Sysctls))
    remedy = None
    if ours and cause.key:  # the playbook sets what Terway needs; another CNI may need something else
        remedy = Remedy("sysctl_terway", {"key": cause.key, "value": "1" if cause.reason == "ForwardingOff" else "0"})
    return WayFault(answer, cause.reason, cause.words, remedy, cause.key)


def elsewhere(answer: RouteAnswer, enis: EniTables) -> WayFault | None:
    """Where a pod of a shared ENI leaves by another interface than that ENI; by what its rule or the records say."""
    table, restart = enis.table_of(answer.pod), Remedy("terway_restart")
    link = enis.link_of(answer.pod)
    if link is None and table is not None:
        link = enis.link_of_table(table)
    if link is not None:
        if answer.oif == link.name:
            return None
        words = f"leaves by {answer.oif} (table {answer.table}) and not by its ENI's {link.name}"
        return WayFault(answer, "OtherInterface", words, restart)
    if table is None or table == answer.table or not FIRST <= table <= LAST:
        return None
    words = f"leaves by {answer.oif} (table {answer.table}), though rule {FROM_POD} names table {table}"
    return WayFault(answer, "OtherTable", words, restart)


def verdict(subject: Subject, troubles: list[WayFault], pods: int) -> Verdict:
    at = f"{subject.name}: " if subject.place else ""
    if not troubles:
        return Verdict(subject, Status.OK, "WayOut", f"{at}packets of {pods} pods would leave as they should")
    first = troubles[0]
    alike = [one for one in troubles if one.words == first.words]
    others = [one for one in troubles if one.words != first.words]
    names = ", ".join(one.answer.pod for one in alike[:PODS_IN_MESSAGE])
    more = f" and {len(alike) - PODS_IN_MESSAGE} more" if len(alike) > PODS_IN_MESSAGE else ""
    message = f"{at}pod {names}{more}: {first.words}"
    if others:
        message += f"; pod {others[0].answer.pod}: {others[0].words}"
    message += f". Ask the kernel again: {first.answer.question}"
    observed = f"{len(troubles)} of {pods} pods"
    return Verdict(subject, Status.FAIL, first.reason, message, first.remedy, observed, "none", args={"key": first.key})


CHECK = Check(
    id="route.out",
    question="Would the kernel send what pods of this node send, and by the right interface?",
    why="Rules, routes, filters and forwarding decide together: only the kernel's own answer shows what comes of them.",
    fix="Take away the rule or route that the message names (ip rule, ip route show table all).",
    reasons=(
        Reason("OtherInterface", Status.FAIL, "Restart this node's Terway pod: it writes its rules and routes again."),
        Reason("OtherTable", Status.FAIL, "Restart this node's Terway pod: it writes its rules and routes again."),
        Reason("WayOut", Status.OK),
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
    source="Linux RTM_GETROUTE (net/ipv4/route.c inet_rtm_getroute); Terway plugin/datapath/policy_route_linux.go",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Routes,),
    uses=(Terway, Links, Imds, Cluster, Sysctls),
    after=("route.rules", "route.tables", "route.default", "sysctl.forward"),
    remedies=("terway_restart", "sysctl_terway"),
    judge=judge,
)
