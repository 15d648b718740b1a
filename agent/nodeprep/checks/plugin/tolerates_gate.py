"""Does every pod here that serves a device plugin, a driver or the network of pods tolerate nodeprep's taints?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Annotated

from nodeprep.facts.kubernetes.cluster import Cluster, Owner, Pod, Toleration
from nodeprep.facts.network.cni import Cni
from nodeprep.facts.network.cni_runtime import BINARIES, DIRECTORY
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict, raw
from nodeprep.values import Value

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
EXISTS = "Exists"
DAEMON_SET = "DaemonSet"
# Constants of the kubelet (pkg/apis/deviceplugin/v1beta1, pkg/kubelet/config): a plugin's socket lies in one of them.
PLUGINS = ("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins_registry")
# Where containers put drivers: the roots of NVIDIA's GPU and network operators, and the modules of the kernel. Many a
# pod writes elsewhere below /run or /usr, so a directory above them is none, except the operators' own.
DRIVERS = ("/run/nvidia/driver", "/run/mellanox/drivers", "/lib/modules", "/usr/lib/modules")
OPERATORS = ("/run/nvidia", "/run/mellanox")
ALIAS, RUN = "/var/run/", "/run/"  # a link in every distribution
ROOT = PurePosixPath("/")
# What the controller itself gives a DaemonSet's pods (pkg/controller/daemon/util, AddOrUpdateDaemonPodTolerations).
PRESSURES = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
DAEMONSET_TOLERATIONS = {(f"node.kubernetes.io/{one}", NO_SCHEDULE) for one in PRESSURES}
DAEMONSET_TOLERATIONS |= {(f"node.kubernetes.io/{one}", NO_EXECUTE) for one in ("not-ready", "unreachable")}
GIVEN_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)
TOLERATIONS = "/spec/template/spec/tolerations"


class Want(Value):
    """The taints in force. The configuration states them under `gate`, never here: see docs/configuration.md."""

    unhealthy_taint: Annotated[str, "the taint of a node that is not ready"] = "nodeprep.io/unhealthy"
    bootstrap_taint: Annotated[str, "that of a new node, always NoSchedule"] = "nodeprep.io/bootstrap"
    effect: Annotated[
        str,
        "of the first. PreferNoSchedule keeps no DaemonSet's pod away, so it needs no toleration.",
    ] = NO_SCHEDULE

    @property
    def taints(self) -> tuple[str, ...]:
        """The keys of those that keep pods away."""
        unhealthy = (self.unhealthy_taint,) if self.effect == NO_SCHEDULE else ()
        return (*unhealthy, self.bootstrap_taint)


def judge(seen: Seen) -> Iterator[Verdict]:
    places = tuple(map(PurePosixPath, (*PLUGINS, *networks(seen.get(Cni)))))
    for pod in seen[Cluster].pods:
        served = "" if pod.finished or pod.deleted else serves(pod, places)  # one that is deleted may stay for days
        if served:
            yield verdict(pod, served, seen[Want])


def networks(cni: Cni | None) -> Iterator[str]:
    """Where the runtime of this node looks for network configurations and plugins; the usual places if unknown."""
    said = raw(cni) if cni else {}
    directory, binaries = said.get("directory"), said.get("paths")
    yield directory if isinstance(directory, str) and directory else DIRECTORY
    yield from binaries if isinstance(binaries, tuple) and binaries else BINARIES


def serves(pod: Pod, places: tuple[PurePosixPath, ...]) -> str:
    """The host's path by which a pod can put something into one of the places, or "".

    Who only reads there serves nothing, and who mounts the whole root is an administrator's pod: plugins name a place.
    """
    for path in map(PurePosixPath, pod.writes):
        if path != ROOT and any(path == place or path in place.parents or place in path.parents for place in places):
            return str(path)
    return next((path for path in pod.writes if is_of_driver(path)), "")


def is_of_driver(path: str) -> bool:
    """Whether who writes there can put a driver there."""
    real = path.replace(ALIAS, RUN, 1) if path.startswith(ALIAS) else path
    return real in OPERATORS or any(real == place or real.startswith(f"{place}/") for place in DRIVERS)


def verdict(pod: Pod, served: str, want: Want) -> Verdict:
    subject = Subject(pod.where, None, pod.where)
    shows = f"{pod.where} may write to {served}"
    if pod.owner is None or pod.owner.kind == "Node":
        message = f"{shows}; no controller makes it anew, so a taint keeps nothing away"
        return Verdict(subject, Status.OK, "NoController", message)
    if pod.owner.kind != DAEMON_SET:
        message = f"{shows}; it is of {pod.owner.kind} {pod.owner.name}, and only a DaemonSet owes this very node a pod"
        return Verdict(subject, Status.OK, "NoDaemonSet", message)
    subject = Subject(pod.where, None, f"{pod.namespace}/{pod.owner.name}")
    if not (missing := not_tolerated(pod, want)):
        return Verdict(subject, Status.OK, "Tolerates", f"{shows} and tolerates {' and '.join(want.taints)}")
    lifted = lifts_taint(missing, want)
    message = (
        f"{shows} and does not tolerate {' and '.join(map(named, missing))}: under it DaemonSet {pod.owner.name} never "
        f"makes it anew{', so no taint is set' if lifted else ''}. Its pods want {tolerations(missing)}: "
        f"{command(pod, pod.owner, missing)}"
    )
    return Verdict(subject, Status.WARN, "NotTolerated" if lifted else "BootstrapNotTolerated", message)


def not_tolerated(pod: Pod, want: Want) -> tuple[str, ...]:
    """The keys of the taints in force that would keep a DaemonSet from recreating this pod."""
    return tuple(key for key in want.taints if not any(one.tolerates(key, NO_SCHEDULE) for one in pod.tolerations))


def lifts_taint(missing: Iterable[str], want: Want) -> bool:
    """Whether no taint is set beside a pod that serves something and does not tolerate these."""
    return want.unhealthy_taint in missing  # the kubelet, node pool or autoscaler sets the other one


def named(key: str) -> str:
    """A taint that keeps pods away, as kubectl writes it."""
    return f"{key}:{NO_SCHEDULE}"


def tolerations(missing: Iterable[str]) -> str:
    """What a pod needs, as YAML."""
    return f"tolerations: [{', '.join(f'{{key: {key}, operator: {EXISTS}}}' for key in missing)}]"


def command(pod: Pod, owner: Owner, missing: Iterable[str]) -> str:
    """What adds them to a DaemonSet."""
    wanted = [{"key": key, "operator": EXISTS} for key in missing]
    patch: list[dict[str, object]] = [{"op": "add", "path": f"{TOLERATIONS}/-", "value": one} for one in wanted]
    if not any(is_of_template(one, pod) for one in pod.tolerations):
        patch = [{"op": "add", "path": TOLERATIONS, "value": wanted}]
    group = owner.api.rpartition("/")[0]
    kind = "daemonset" if group == "apps" else f"daemonset.{group}"
    words = json.dumps(patch, separators=(",", ":"))
    return f"kubectl -n {pod.namespace} patch {kind} {owner.name} --type json -p '{words}'"


def is_of_template(toleration: Toleration, pod: Pod) -> bool:
    """Whether a toleration stands in the DaemonSet itself: then its list is there to be added to."""
    given = DAEMONSET_TOLERATIONS | {GIVEN_ON_HOST_NETWORK} if pod.host_network else DAEMONSET_TOLERATIONS
    return toleration.operator != EXISTS or (toleration.key, toleration.effect) not in given


CHECK = Check(
    id="plugin.tolerates-gate",
    question="Does every pod here that serves a device plugin, a driver or the network of pods tolerate nodeprep's "
    "taints?",
    why="Under a taint that it does not tolerate a DaemonSet never recreates its pod: the plugin that the node lacks "
    "stays away because the node lacks it. Our own taint is not set while it would keep such a pod away.",
    fix="Paste the tolerations that the message names; where Helm or an operator owns the DaemonSet, set them there "
    "(docs/plugins.md). Then wait until its pods are recreated.",
    reasons=(
        Reason("NoController", Status.OK),
        Reason("NoDaemonSet", Status.OK),
        Reason("Tolerates", Status.OK),
        Reason("NotTolerated", Status.WARN),
        Reason("BootstrapNotTolerated", Status.WARN),
    ),
    source="Kubernetes api/core/v1/toleration.go, pkg/controller/daemon; k8s-rdma-shared-dev-plugin deployment; NVIDIA "
    "GPU Operator and Network Operator (driver containers)",
    severity=Severity.WARN,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Cluster,),
    uses=(Cni,),
    want=Want,
    judge=judge,
)
