"""Does Terway say that this node has addresses left for pods?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import SUFFICIENT_IP, Cluster
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict
from nodeprep.values import Value


class Want(Value):
    """How long Terway's word holds."""

    heartbeat: Annotated[
        float,
        "seconds after which Terway's last word counts no more. It says one every 5 min; three are missed.",
    ] = 900.0


def judge(seen: Seen) -> Iterator[Verdict]:
    if not seen[Terway].present:
        return
    node, limit = seen[Cluster].node, seen[Want].heartbeat
    condition = next((one for one in node.conditions if one.type == SUFFICIENT_IP), None)
    if condition is None:  # not every Terway writes it
        return
    said = f"{condition.reason}: {condition.message[:200]}"
    minutes = f"{(condition.age or 0) / 60:.0f} min ago"
    if condition.age is not None and condition.age > limit:
        message = (
            f"Terway said {condition.status} ({said}) {minutes} and nothing since; a word within {limit / 60:g} min is "
            f"wanted {seen.wanted_by('heartbeat')}: see whether its pod runs (terway.pod)"
        )
        yield Verdict(NODE, Status.WARN, "Stale", message, None, minutes, f"{limit / 60:g} min")
    elif condition.status == "False":
        message = f"{said} ({minutes}): new pods here get no address. Add a vSwitch with free addresses to eni-config"
        yield Verdict(NODE, Status.FAIL, "InsufficientIP", message, observed=condition.status, expected="True")
    elif condition.status == "True":
        yield Verdict(NODE, Status.OK, "SufficientIP", f"{said} ({minutes})", observed="True")
    else:
        message = f"Terway does not know whether this node has addresses left ({said}, {minutes}): see its log"
        yield Verdict(NODE, Status.WARN, "NotKnown", message, observed=condition.status, expected="True")


CHECK = Check(
    id="terway.ip-sufficient",
    question="Does Terway say that this node has addresses left for pods?",
    why="Without one a pod that is bound here waits in ContainerCreating for ever, and its job with it.",
    fix="See the log of Terway's pod on this node.",
    reasons=(
        Reason(
            "Stale",
            Status.WARN,
            "See terway.pod: nodeprep explain terway.pod; then the log of Terway's pod on this node.",
        ),
        Reason(
            "InsufficientIP",
            Status.FAIL,
            "Add a vSwitch with free addresses to eni-config, or raise the ENI limit.",
        ),
        Reason("SufficientIP", Status.OK),
        Reason("NotKnown", Status.WARN),
    ),
    source="Terway types/k8s.go (SufficientIP, InsufficientIP), its heartbeat of 5 min; three missed are ours",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Terway, Cluster),
    want=Want,
    judge=judge,
)
