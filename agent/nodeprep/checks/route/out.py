"""Would the kernel send what pods of this node send, and by the right interface?"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

from nodeprep.checks.route.refusal import refusal
from nodeprep.checks.route.whose import nobody_says
from nodeprep.facts.cluster import Cluster
from nodeprep.facts.eni_tables import FIRST, FROM_POD, LAST, EniTables, eni_tables
from nodeprep.facts.imds import Imds
from nodeprep.facts.links import Links
from nodeprep.facts.routes import Answer, Routes
from nodeprep.facts.sysctls import Sysctls
from nodeprep.facts.terway import Terway
from nodeprep.model import (
    NODE,
    Check,
    Damping,
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

SHOWN = 3  # pods in one message


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a pod's packets do not leave as they should."""

    answer: Answer
    reason: str
    words: str
    remedy: Remedy | None


def judge(seen: Seen) -> Iterator[Verdict]:
    terway = seen.get(Terway)
    ours = terway is not None and terway.present
    shared = ours and terway is not None and not terway.is_exclusive
    enis, isolated = eni_tables(seen), not ours and is_isolated(seen)
    found: dict[Subject, list[Trouble | None]] = {}
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
        yield nobody_says(dark)


def is_isolated(seen: Seen) -> bool:
    """Whether this node's network may have no way out by design: of a cloud's node route.default says what it lacks."""
    imds = seen.get(Imds)
    return not seen[Routes].default_routes and (imds is None or raw(imds)["instance"] is None)


def is_cut_off(answer: Answer, seen: Seen) -> bool:
    return bool(answer.errno) and refusal(answer, seen[Routes], seen.get(Sysctls)).reason == "NoRoute"


def refused(answer: Answer, seen: Seen, *, ours: bool) -> Trouble:
    cause = refusal(answer, seen[Routes], seen.get(Sysctls))
    remedy = None
    if ours and cause.key:  # the playbook sets what Terway needs; another CNI may want otherwise
        remedy = Remedy("sysctl_terway", {"key": cause.key, "value": "1" if cause.reason == "ForwardingOff" else "0"})
    return Trouble(answer, cause.reason, cause.words, remedy)


def elsewhere(answer: Answer, enis: EniTables) -> Trouble | None:
    """Where a pod of a shared ENI leaves by another interface than that ENI; by what its rule or the books say."""
    table, restart = enis.table_of(answer.pod), Remedy("terway_restart")
    link = enis.link_of(answer.pod)
    if link is None and table is not None:
        link = enis.link_of_table(table)
    if link is not None:
        if answer.oif == link.name:
            return None
        words = f"leaves by {answer.oif} (table {answer.table}) and not by its ENI's {link.name}"
        return Trouble(answer, "OtherInterface", words, restart)
    if table is None or table == answer.table or not FIRST <= table <= LAST:
        return None
    words = f"leaves by {answer.oif} (table {answer.table}), though rule {FROM_POD} names table {table}"
    return Trouble(answer, "OtherTable", words, restart)


def verdict(subject: Subject, troubles: list[Trouble], pods: int) -> Verdict:
    at = f"{subject.name}: " if subject.place else ""
    if not troubles:
        return Verdict(subject, Status.OK, "WayOut", f"{at}packets of {pods} pods would leave as they should")
    first = troubles[0]
    alike = [one for one in troubles if one.words == first.words]
    others = [one for one in troubles if one.words != first.words]
    names = ", ".join(one.answer.pod for one in alike[:SHOWN])
    more = f" and {len(alike) - SHOWN} more" if len(alike) > SHOWN else ""
    message = f"{at}pod {names}{more}: {first.words}"
    if others:
        message += f"; pod {others[0].answer.pod}: {others[0].words}"
    message += f". Ask the kernel again: {first.answer.question}"
    observed = f"{len(troubles)} of {pods} pods"
    return Verdict(subject, Status.FAIL, first.reason, message, first.remedy, observed, "none")


CHECK = Check(
    id="route.out",
    question="Would the kernel send what pods of this node send, and by the right interface?",
    why="Rules, routes, filters and forwarding decide together: only the kernel's own answer shows what comes of them.",
    fix="By the cause that it names: take the rule away, set the sysctl, or restart the pod of the CNI.",
    source="Linux RTM_GETROUTE (net/ipv4/route.c inet_rtm_getroute); Terway plugin/datapath/policy_route_linux.go",
    severity=Severity.GATE,
    stage=Stage.NODE,
    damping=Damping.BOOKS,
    needs=(Routes,),
    uses=(Terway, Links, Imds, Cluster, Sysctls),
    after=("route.rules", "route.tables", "route.default", "sysctl.forward"),
    remedies=("terway_restart", "sysctl_terway"),
    judge=judge,
)
