"""Is Terway's pod on this node, and Ready?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster, Container, Pod
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict

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
    pods = [pod for pod in seen[Cluster].pods if pod.is_of_terway and not pod.deleted and not pod.finished]
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
    # The kubelet restarts a waiting container, or cannot. A restart only helps one that runs and does nothing.
    about = {"pod": pod.name, "container": dead.name if dead else "terway"}
    runs = dead is not None and dead.state == "running"
    message = f"{pod.where} is not Ready: {where}; see {LOGS_COMMAND.format_map(about)}"
    restart = Remedy("terway_restart") if runs else None
    return Verdict(NODE, Status.FAIL, "NotReady", message, restart, where, "a Ready pod", args=about)


def completed(init: Container) -> bool:
    return init.ready or init.state == "terminated: Completed"


def refused(pod: Pod, init: Container) -> Verdict:
    """The verdict on a pod whose init container has not done its work: by what it said, if it is one of the known."""
    about = {"pod": pod.name, "container": init.name}
    reason, helps = next(
        (told for words, told in REFUSALS.items() if words in init.message),
        ("InitNotDone", f"see {LOGS_COMMAND.format_map(about)}"),
    )
    said = f", said {init.message.strip()[-200:]!r}" if init.message.strip() else ""
    message = f"{pod.where}: {init.name} is {init.state}, {init.restarts} restarts{said}; {helps}"
    return Verdict(NODE, Status.FAIL, reason, message, None, init.state, "terminated: Completed", args=about)


CHECK = Check(
    id="terway.pod",
    question="Is Terway's pod on this node, and Ready?",
    why="It gives pods their addresses: without it new pods hang in ContainerCreating, and policy routes are not kept.",
    fix="kubectl -n kube-system describe pod, of this node's pod of terway-eniip, then its logs.",
    reasons=(
        Reason(
            "KernelTooOld",
            Status.FAIL,
            "Replace the node by one with an image whose kernel is 5.10 or newer; a restart does not help.",
        ),
        Reason(
            "IpvlanUnsupported",
            Status.FAIL,
            "Drain the node, then set eniip_virtual_type to veth or datapathv2 in the ConfigMap "
            "kube-system/eni-config.",
        ),
        Reason(
            "ConfigurationRefused",
            Status.FAIL,
            "Mend the ConfigMap kube-system/eni-config (terway.config), then kubectl -n kube-system delete pod {pod}.",
        ),
        Reason("ModeChanged", Status.FAIL, "Put the node's label back, or recreate the node (terway.mode)."),
        Reason(
            "MountFailed",
            Status.FAIL,
            "mount bpffs /sys/fs/bpf -t bpf, then kubectl -n kube-system delete pod {pod}.",
        ),
        Reason(
            "NoPod",
            Status.FAIL,
            "kubectl -n kube-system describe daemonset terway-eniip: its selector, its tolerations, its events.",
        ),
        Reason("Ready", Status.OK),
        Reason(
            "NotReady",
            Status.FAIL,
            "kubectl -n kube-system logs {pod} -c {container} --previous; a daemon that runs dead needs a restart: "
            "kubectl -n kube-system delete pod {pod}.",
        ),
        Reason(
            "InitNotDone",
            Status.FAIL,
            "kubectl -n kube-system logs {pod} -c {container} --previous; a refusal of terway-init needs its cause "
            "mended.",
        ),
    ),
    source="Terway terway-chart, hack/init.sh, cmd/terway-cli and its troubleshooting guide (words of terway-init)",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Terway, Cluster),
    remedies=("terway_restart",),
    judge=judge,
)
