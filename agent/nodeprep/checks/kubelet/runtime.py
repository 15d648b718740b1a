"""Is the container runtime ready for the kubelet?"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from nodeprep.facts.kubernetes.cluster import READY, Cluster, StatedCondition
from nodeprep.facts.kubernetes.container_runtime import ContainerRuntime
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.model import (
    NODE,
    CannotLook,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    Why,
    raw,
)

WANTED_STATE = "ready"
NOBODY = (errno.ECONNREFUSED, errno.ENOENT)
NETWORK = "NetworkReady"
# What the kubelet's Ready says if the runtime is why (pkg/kubelet/runtime.go, runtimeErrors and networkErrors).
OF_THE_RUNTIME = ("container runtime", "PLEG", "RuntimeReady")


def judge(seen: Seen) -> Iterator[Verdict]:
    if not seen[Kubelet].present:
        return
    runtime = seen.get(ContainerRuntime)
    silence: object = None if runtime is None else raw(runtime)["conditions"]
    if runtime is not None and runtime.asked and not isinstance(silence, Unreadable):
        yield by_itself(runtime)
    elif runtime is not None and isinstance(silence, Unreadable) and is_silent(silence):
        yield without_answer(runtime, silence)
    else:
        yield by_the_node(seen, silence)


def is_silent(silence: Unreadable) -> bool:
    return silence.kind is Why.TIMEOUT or silence.errno in NOBODY


def by_itself(runtime: ContainerRuntime) -> Verdict:
    missing = runtime.missing
    if not missing:
        message = f"{runtime.socket} says that it is ready"
        return Verdict(NODE, Status.OK, "Ready", message, None, WANTED_STATE, WANTED_STATE)
    told = "; ".join(f"{one.type} is false, {one.reason}: {one.message}" for one in missing)
    reason = "NetworkNotReady" if all(one.type == NETWORK for one in missing) else "NotReady"
    message = f"{runtime.socket} says: {told}"
    return Verdict(NODE, Status.WARN, reason, message, None, ", ".join(one.type for one in missing), WANTED_STATE)


def without_answer(runtime: ContainerRuntime, silence: Unreadable) -> Verdict:
    if silence.kind is Why.TIMEOUT:
        message = f"the container runtime takes connections on {runtime.socket} and does not answer: {silence.detail}"
        return Verdict(NODE, Status.WARN, "Hangs", message, None, "no answer", WANTED_STATE)
    message = f"nobody listens on {runtime.socket} ({silence.detail}): the container runtime does not run"
    return Verdict(NODE, Status.WARN, "NotRunning", message, None, silence.detail, WANTED_STATE)


def by_the_node(seen: Seen, silence: object) -> Verdict:
    """What the kubelet tells the API server, where its runtime cannot be asked."""
    cluster = seen.get(Cluster)
    ready = None if cluster is None else cluster.node.ready
    if cluster is None or ready is None or ready.status not in ("True", "False"):
        if isinstance(silence, Unreadable):
            raise CannotLook(silence)
        detail = "no pod of the agent may connect to the runtime's socket, and no Node says whether it is Ready"
        raise CannotLook(Unreadable(Why.MISSING, "container runtime", detail=detail))
    ago = f"{max(0.0, seen[Kubelet].at - cluster.at):.0f} s ago"
    if ready.status == "True":
        message = f"the kubelet said {ago} that the node is {READY}, which its container runtime is for"
        return Verdict(NODE, Status.OK, "ReadyByNode", message, None, WANTED_STATE, WANTED_STATE)
    if not of_the_runtime(ready):
        message = f"the Node was not {READY} {ago}, for another reason: {ready.message}"
        return Verdict(NODE, Status.OK, "OtherReason", message, None, WANTED_STATE, WANTED_STATE)
    message = f"the kubelet said {ago} that its container runtime is not ready: {ready.message}"
    return Verdict(NODE, Status.WARN, "NotReady", message, None, "not ready", WANTED_STATE)


def of_the_runtime(ready: StatedCondition) -> bool:
    return any(word in ready.message for word in OF_THE_RUNTIME)


CHECK = Check(
    id="kubelet.runtime",
    question="Is the container runtime ready for the kubelet?",
    why="The kubelet starts no pod without it, and sets the Node NotReady after half a minute.",
    fix="crictl info; systemctl status containerd; journalctl -u containerd -n 100 (CRI-O: crio)",
    reasons=(
        Reason("Ready", Status.OK),
        Reason("ReadyByNode", Status.OK),
        Reason("OtherReason", Status.OK),
        Reason("NotReady", Status.WARN),
        Reason("NetworkNotReady", Status.WARN, "nodeprep check --only 'cni.*,terway.*'"),
        Reason("Hangs", Status.WARN),
        Reason("NotRunning", Status.WARN),
    ),
    source="k8s.io/cri-api pkg/apis/runtime/v1/api.proto (Status); kubernetes pkg/kubelet/runtime.go",
    severity=Severity.WARN,
    stage=Stage.NODE,
    confirmation=Confirmation.SLOW,
    needs=(Kubelet,),
    uses=(ContainerRuntime, Cluster),
    after=("kubelet.health",),
    judge=judge,
)
