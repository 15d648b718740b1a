"""Does a Lingjun node answer ARP as its network needs?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from nodeprep.facts.alibaba.lingjun import Lingjun
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.sysctls import Sysctls
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict, signs
from nodeprep.values import Value

SETTINGS = ("arp_announce", "arp_ignore")


class Want(Value):
    """Which nodes are asked."""

    always: Annotated[
        bool,
        "also those that neither their label nor a topology file shows to be Lingjun nodes; false. The profile "
        "rdma-lingjun is for no others.",
    ] = False


def judge(seen: Seen) -> Iterator[Verdict]:
    if seen[Want].always or is_lingjun(seen):
        yield verdict(seen[Sysctls])


def is_lingjun(seen: Seen) -> bool:
    lingjun, terway = seen.get(Lingjun), seen.get(Terway)
    if lingjun is not None and lingjun.topologies:
        return True
    if terway is None or not terway.present:  # every Lingjun node has it; no other need answer for Kubernetes
        return False
    cluster = seen.get(Cluster)
    return cluster is not None and cluster.node.is_lingjun


def verdict(sysctls: Sysctls) -> Verdict:
    keys = [f"net.ipv4.conf.all.{setting}" for setting in SETTINGS]
    if restricted := signs(*(partial(now, sysctls, key) for key in keys)):
        return restricted
    for key in keys:
        line = sysctls.at_boot(key)
        if line is not None and line.value != "0":
            message = f"{line.where} sets {line.key} = {line.value[:20]} at the next boot; Terway wants 0, as it is now"
            return Verdict(NODE, Status.WARN, "ArpRestrictedAtBoot", message, remedy(key), line.value[:20], "0")
    return Verdict(NODE, Status.OK, "Arp", f"{' and '.join(keys)} are 0", observed="0", expected="0")


def now(sysctls: Sysctls, key: str) -> Verdict | None:
    value = sysctls.value(key)
    if not value:
        return None
    message = f"{key} is {value}; Terway wants 0 on Lingjun nodes: sysctl -w {key}=0"
    return Verdict(NODE, Status.FAIL, "ArpRestricted", message, remedy(key), str(value), "0")


def remedy(key: str) -> Remedy:
    return Remedy("sysctl_lingjun", {"key": key, "value": "0"})


CHECK = Check(
    id="sysctl.arp",
    question="Does a Lingjun node answer ARP as its network needs?",
    why="With arp_ignore or arp_announce set, the interfaces of a Lingjun node stay silent for addresses of pods.",
    fix="sysctl -w {key}=0, and the same in /etc/sysctl.d.",
    reasons=(
        Reason("ArpRestricted", Status.FAIL),
        Reason(
            "ArpRestrictedAtBoot",
            Status.WARN,
            "Set {key} = 0 in a file of /etc/sysctl.d that sorts after the one that sets it now.",
        ),
        Reason("Arp", Status.OK),
    ),
    source="Terway docs/linjun.md (net.ipv4.conf.all.arp_announce=0, arp_ignore=0)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Sysctls,),
    uses=(Lingjun, Terway, Cluster),
    remedies=("sysctl_lingjun",),
    judge=judge,
    want=Want,
)
