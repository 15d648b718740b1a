"""Does erdma-controller's agent run on this node?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.kubernetes.cluster import Cluster, ErdmaRecord, KubeNode, Pod
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

ERIS = "EriQuantity"  # of the ECS instance type


def judge(seen: Seen) -> Iterator[Verdict]:
    record, node = raw(seen[Cluster])["erdma"], raw(seen[Cluster])["node"]
    concerned = has_devices(record) or (isinstance(node, KubeNode) and bool(node.limit(ERIS)))
    if isinstance(raw(seen[Cluster])["pods"], Unreadable) and not concerned:
        return  # no ERI and no instance type that has any: another cloud's pods
    agents = [pod for pod in seen[Cluster].pods if pod.is_erdma_agent and not pod.deleted]
    yield from seen.each(agents, verdict, lambda pod: Subject(pod.where, None, pod.where))
    # A record that may not be read says nothing of an agent; erdma.cr says that it could not look.
    if not agents and has_devices(record):
        message = (
            "erdma-controller keeps a record of ERIs for this node and no alibabacloud-erdma-agent pod is here: "
            "nothing registers aliyun/erdma; kubectl -n kube-system get daemonset alibabacloud-erdma-agent"
        )
        yield Verdict(NODE, Status.WARN, "NoAgent", message, None, "none", "a pod")


def has_devices(record: object) -> bool:
    return isinstance(record, ErdmaRecord) and bool(record.devices)


def verdict(pod: Pod) -> Verdict:
    subject = Subject(pod.where, None, pod.where)
    if pod.ready:
        return Verdict(subject, Status.OK, "Ready", f"{pod.where} is Ready", None, "Ready", "Ready")
    stuck = [f"{one.name} is {one.state}"[:80] for one in pod.containers if not one.ready]
    states = ", ".join(stuck) or "no container yet"
    message = f"{pod.where} is {pod.phase} and not Ready ({states}): kubectl describe pod, kubectl logs"
    restart = Remedy("plugin_restart", {"pod": pod.where})
    about = {"namespace": pod.namespace, "pod": pod.name}
    return Verdict(subject, Status.WARN, "NotReady", message, restart, pod.phase, "Ready", args=about)


CHECK = Check(
    id="erdma.agent",
    question="Does erdma-controller's agent run on this node?",
    why="The agent installs the driver, brings ERIs up and registers aliyun/erdma; without it a new job gets none.",
    fix="kubectl -n kube-system get daemonset alibabacloud-erdma-agent.",
    reasons=(
        Reason(
            "NoAgent",
            Status.WARN,
            "See the DaemonSet's selector and the node's taints: kubectl -n kube-system get daemonset "
            "alibabacloud-erdma-agent -o yaml.",
        ),
        Reason("Ready", Status.OK),
        Reason(
            "NotReady",
            Status.WARN,
            "kubectl -n {namespace} logs {pod}, then restart it (kubectl -n {namespace} delete pod {pod}).",
        ),
    ),
    source="alibabacloud-erdma-controller deploy (DaemonSet alibabacloud-erdma-agent, label tier=agent)",
    severity=Severity.WARN,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Cluster,),
    remedies=("plugin_restart",),
    judge=judge,
)
