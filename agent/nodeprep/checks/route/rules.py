"""Has every pod on a shared ENI both of Terway's rules, and does no rule outlive its pod?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.checks.route import whose
from nodeprep.facts.alibaba import eni_tables
from nodeprep.facts.alibaba.eni_tables import FIRST, FROM_POD, LAST, TO_POD, EniTables
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import OWN_ENI, Cluster, Pod
from nodeprep.facts.network.links import Links
from nodeprep.facts.network.routes import MAIN, Routes
from nodeprep.model import (
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
)

# Set by Terway's webhook on pods that get an ENI of their own: those have no rules.
OWN_RESOURCES = ("aliyun/eni", "aliyun/member-eni")
RULES_IN_MESSAGE = 3  # of a kind in one message


def judge(seen: Seen) -> Iterator[Verdict]:
    node, terway = seen[Cluster].node, seen[Terway]
    if not terway.present or node.ignored_by_terway or node.is_exclusive or terway.is_exclusive:
        return
    enis = eni_tables.eni_tables(seen)
    missing: dict[Subject, list[str]] = {}
    right: dict[Subject, int] = {}
    dark: dict[str, Unreadable] = {}
    for pod in filter(is_shared, seen[Cluster].pods):
        for address in (one for one in pod.addresses if ":" not in one):
            lacks = trouble(address, enis)
            subject = enis.subject(address, enis.table_of(address))
            if lacks:
                missing.setdefault(subject, []).append(f"{pod.where[:60]} ({address}): {lacks}")
            elif cannot := enis.cannot_tell(address):
                dark[address] = cannot
            else:
                right[subject] = right.get(subject, 0) + 1
    left = leftovers(seen[Cluster], enis)
    for subject in dict.fromkeys((*missing, *left, *right)):
        yield verdict(subject, missing.get(subject, []), left.get(subject, []), right.get(subject, 0))
    if dark:
        yield whose.nobody_says(dark)


def is_shared(pod: Pod) -> bool:
    """Whether it runs on an address of a shared ENI."""
    own = pod.annotations.get(OWN_ENI) == "true" or any(pod.requests.get(one) for one in OWN_RESOURCES)
    return pod.phase == "Running" and not (pod.host_network or pod.deleted or own)


def trouble(address: str, enis: EniTables) -> str:
    """What is wrong with the rules of a pod's address, "" if nothing is."""
    inward, outward = enis.routes.to_pod(address, TO_POD), enis.routes.from_pod(address, FROM_POD)
    link = enis.link_of(address)
    table = FIRST + link.index if link and link.index is not None else None
    if not outward:
        return f"no rule {FROM_POD}: from {address} lookup {table or '1000+ifindex'}; its packets leave by table main"
    found = outward[0].table
    if found != table if table is not None else not FIRST <= found <= LAST:
        return f"rule {outward[0]} and not lookup {table or '1000+ifindex'}"
    if not any(rule.table == MAIN for rule in inward):
        return f"no rule {TO_POD}: to {address} lookup main; packets to it leave the node again"
    return ""


def leftovers(cluster: Cluster, enis: EniTables) -> dict[Subject, list[str]]:
    """Addresses with rules of Terway's that no pod of this node has."""
    pods = {address for pod in cluster.pods for address in pod.addresses}
    found: dict[str, int | None] = {}
    for rule in enis.routes.rules:
        prefix = rule.source if rule.priority == FROM_POD else rule.destination if rule.priority == TO_POD else ""
        address = prefix.removesuffix("/32")
        if rule.family == "inet" and address != prefix and address not in pods:
            found[address] = found.get(address) or (rule.table if rule.priority == FROM_POD else None)
    left: dict[Subject, list[str]] = {}
    for address, table in found.items():
        left.setdefault(enis.subject(address, table), []).append(address)
    return left


def verdict(subject: Subject, missing: list[str], left: list[str], right: int) -> Verdict:
    restart = Remedy("terway_restart")
    at = subject.name if subject.place else "pods whose ENI is not known"
    if missing:
        message = f"{at}: {listed(missing)}; Terway adds them anew when its pod starts, see ip rule"
        return Verdict(subject, Status.FAIL, "RuleMissing", message, restart, f"{len(missing)} pods without", "none")
    if left:
        message = (
            f"{at}: rules for {listed(left)} and no pod here has that address; the next pod that gets it is misled"
        )
        return Verdict(subject, Status.WARN, "RuleLeftOver", message, restart, f"{len(left)} addresses", "none")
    return Verdict(subject, Status.OK, "Rules", f"{at}: rules {TO_POD} and {FROM_POD} of {right} pods are there")


def listed(words: list[str]) -> str:
    more = len(words) - RULES_IN_MESSAGE
    return ", ".join(words[:RULES_IN_MESSAGE]) + (f" and {more} more" if more > 0 else "")


CHECK = Check(
    id="route.rules",
    question="Has every pod on a shared ENI both of Terway's rules, and does no rule outlive its pod?",
    why="Without its rule a pod's packets leave by eth0, and the vSwitch drops what has its address: it hangs.",
    fix="Restart this node's Terway pod; if networkd took the rules away: ManageForeignRoutingPolicyRules=no.",
    reasons=(
        Reason("RuleMissing", Status.FAIL),
        Reason(
            "RuleLeftOver",
            Status.WARN,
            "Restart this node's Terway pod; ip rule shows what is left, ip rule del takes it away.",
        ),
        Reason("Rules", Status.OK),
    ),
    source="Terway plugin/datapath/policy_route_linux.go (512, 2048), daemon ruleSync",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Routes, Cluster, Terway),
    uses=(Links, Imds),
    after=("imds.identity",),
    remedies=("terway_restart",),
    judge=judge,
)
