"""Is Terway's pod on this node, and Ready?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster, Container, Pod
from nodeprep.model import NODE, Check, Confirmation, Remedy, Seen, Severity, Stage, Status, Verdict

APPS = ("terway-eniip", "terway-eni")  # the DaemonSets: today's, and the one of exclusive ENIs before Terway 1.11
LOGS_COMMAND = "kubectl -n kube-system logs {pod} -c {container} --previous"
# What terway-init says when it refuses this node, each with its reason and what helps; a restart helps none of them.
REFUSALS = {
    "unsupport kernel version": ("KernelTooOld", "it wants 5.10 or newer: a newer image for the node"),
    "ipvlan is unsupported": ("IpvlanUnsupported", "drain the node, then set eniip_virtual_type to veth or datapathv2"),
    "failed process input": ("ConfigurationRefused", "mend the ConfigMap kube-system/eni-config (terway.config)"),
    "exclusive eni mode changed": ("ModeChanged", "put the node's label back, or make the node anew (terway.mode)"),
    "mount failed": ("MountFailed", "mount a bpf file system on /sys/fs/bpf (terway.bpffs)"),
}


def judge(seen: Seen) -> Iterator[Verdict]:
    if not seen[Terway].present or seen[Cluster].node.ignored_by_terway:
        return
    pods = [pod for pod in seen[Cluster].pods if pod.labels.get("app") in APPS and not pod.deleted and not pod.finished]
    yield verdict(pods, seen[Cluster].node.name)


def verdict(pods: list[Pod], node: str) -> Verdict:
    if not pods:
        message = f"no pod of DaemonSet terway-eniip on {node}: kubectl -n kube-system describe daemonset terway-eniip"
        return Verdict(NODE, Status.FAIL, "NoPod", message, observed="none", expected="a Ready pod")
    ready = next((pod for pod in pods if pod.ready), None)
    if ready is not None:
        return Verdict(NODE, Status.OK, "Ready", f"{ready.where} is Ready", observed="Ready")
    pod = pods[0]
    init = next((one for one in pod.containers if one.init and not completed(one)), None)
    if init is not None:
        return refused(pod, init)
    dead = next((one for one in pod.containers if not one.init and not one.ready), None)
    where = f"{dead.name} is {dead.state}, {dead.restarts} restarts" if dead else f"phase {pod.phase}"
    see = LOGS_COMMAND.format(pod=pod.name, container=dead.name if dead else "terway")
    message = f"{pod.where} is not Ready: {where}; see {see}"
    # One that waits is started again by the kubelet, or cannot be: only one that runs and does nothing can be helped.
    runs = dead is not None and dead.state == "running"
    return Verdict(
        NODE, Status.FAIL, "NotReady", message, Remedy("terway_restart") if runs else None, where, "a Ready pod"
    )


def completed(init: Container) -> bool:
    return init.ready or init.state == "terminated: Completed"


def refused(pod: Pod, init: Container) -> Verdict:
    """The verdict on a pod whose init container has not done its work: by what it said, if it is one of the known."""
    reason, helps = next(
        (told for words, told in REFUSALS.items() if words in init.message),
        ("InitNotDone", f"see {LOGS_COMMAND.format(pod=pod.name, container=init.name)}"),
    )
    said = f", said {init.message.strip()[-200:]!r}" if init.message.strip() else ""
    message = f"{pod.where}: {init.name} is {init.state}, {init.restarts} restarts{said}; {helps}"
    return Verdict(NODE, Status.FAIL, reason, message, observed=init.state, expected="terminated: Completed")


CHECK = Check(
    id="terway.pod",
    question="Is Terway's pod on this node, and Ready?",
    why="It gives pods their addresses: without it new pods hang in ContainerCreating, and policy routes are not kept.",
    fix="By the reason: a refusal of terway-init needs its cause mended; a daemon that runs dead needs a restart.",
    source="Terway terway-chart, hack/init.sh, cmd/terway-cli and its troubleshooting guide (words of terway-init)",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Terway, Cluster),
    remedies=("terway_restart",),
    judge=judge,
)
