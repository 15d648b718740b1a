"""Which pods hold devices of this node?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.checks.plugin import advertised
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.kubernetes.device_books import Book
from nodeprep.facts.kubernetes.device_plugins import DevicePlugins
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import (
    CannotLook,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Unreadable,
    Verdict,
    raw,
)

CLAIMS = Subject("resource-claims", None, "resource claims")
PODS_LISTED = 8


def judge(seen: Seen) -> Iterator[Verdict]:
    kubelet = seen[Kubelet]
    if not kubelet.present:
        return
    found = advertised.books(seen, ())
    pods: object = raw(kubelet)["pods"]
    if isinstance(pods, Unreadable) and all(book.holders is None for book in found):
        raise CannotLook(pods)
    yield from map(verdict, found)
    yield from claims(kubelet, advertised.known(seen, Cluster))


def verdict(book: Book) -> Verdict:
    held = sum(one.count for one in book.holders or ())
    reason = "InUse" if held else "Idle"
    return Verdict(advertised.subject(book), Status.OK, reason, book.line, None, str(held))


def claims(kubelet: Kubelet, cluster: Cluster | None) -> Iterator[Verdict]:
    """Devices of dynamic resource allocation: no plugin counts them, so their pods are named alone.

    A kubelet lists claims only behind a feature gate (KubeletPodResourcesDynamicResources). Kubernetes names them in
    each pod.
    """
    listed: object = raw(kubelet)["pods"]
    named: object = raw(cluster)["pods"] if cluster is not None else ()
    found: set[str] = set()
    if isinstance(listed, tuple):
        found |= {pod.where for pod in listed if any(one.claims for one in pod.containers)}
    if isinstance(named, tuple):
        found |= {pod.where for pod in named if pod.claims and not pod.finished}
    if found:
        names = ", ".join(sorted(found)[:PODS_LISTED]) + (", ..." if len(found) > PODS_LISTED else "")
        holds = "pod holds" if len(found) == 1 else "pods hold"
        message = f"{len(found)} {holds} devices by resource claims: {names}"
        yield Verdict(CLAIMS, Status.OK, "Claimed", message, None, str(len(found)))


CHECK = Check(
    id="plugin.in-use",
    question="Which pods hold devices of this node?",
    why="Who mends a device must know whose job it ends.",
    fix="kubectl get pods -A -o wide",
    reasons=(
        Reason("InUse", Status.OK),
        Reason("Idle", Status.OK),
        Reason("Claimed", Status.OK),
    ),
    source="k8s.io/kubelet pkg/apis/podresources/v1 (List); kubernetes#119423: it also lists pods that have ended",
    severity=Severity.INFO,
    stage=Stage.NODE,
    confirmation=Confirmation.SLOW,
    needs=(Kubelet,),
    uses=(AllocatableDevices, DevicePlugins, Cluster, Pci, Rdma),
    judge=judge,
)
