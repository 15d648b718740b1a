"""What the questions about advertised resources have in common: the books, the grace of a kubelet, a plugin's pods."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TypeVar

from nodeprep.checks.plugin import tolerates_gate
from nodeprep.facts.kubernetes import device_books
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.cluster import Cluster, Pod
from nodeprep.facts.kubernetes.device_books import Book, Numbers
from nodeprep.facts.kubernetes.device_plugins import DevicePlugins
from nodeprep.facts.kubernetes.kubelet import GRACE_SECONDS, Kubelet
from nodeprep.facts.kubernetes.resource_slices import MANIFEST, ResourceSlices
from nodeprep.facts.machine import xid
from nodeprep.facts.machine.gpu import GpuDriver, GpuInformation
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import CannotLook, Remedy, Seen, Status, Subject, Unreadable, Verdict, Why, raw

T = TypeVar("T")
PLACES = tuple(map(PurePosixPath, tolerates_gate.PLUGINS))
# Xids after which NVIDIA's plugin goes on calling a GPU healthy (k8s-device-plugin internal/rm/health.go).
SKIPPED_XIDS = (13, 31, 43, 45, 68, 109)
WAIT = "wait-ready"  # our init container (docs/plugins.md)
# What the names of pods that serve these resources have in common, as their makers' manifests call them.
SERVED_BY = {
    device_books.GPU: "nvidia",
    device_books.AMD_GPU: "amd",
    device_books.RDMA: "rdma",
    device_books.ERDMA: "erdma",
    device_books.ENI: "terway",
    device_books.MEMBER_ENI: "terway",
    device_books.EFA: "efa",
}
OTHERS = frozenset((*SERVED_BY.values(), "csi"))  # CSI drivers register in the same directory
NETWORK = ("/etc/cni", "/opt/cni")  # whoever writes there is the pods' network, and no plugin to restart


def books(seen: Seen, names: Iterable[str], numbers: Numbers | None = None) -> tuple[Book, ...]:
    """The books of a look. What cannot be read is not known; a mount that is missing raises CannotLook."""
    kubelet = seen[Kubelet]
    started: object = raw(kubelet)["started"]
    if isinstance(started, Unreadable) and started.is_not_mounted:
        raise CannotLook(started)
    return device_books.books(
        names,
        kubelet=kubelet,
        allocatable=known(seen, AllocatableDevices),
        plugins=known(seen, DevicePlugins),
        cluster=known(seen, Cluster),
        pci=known(seen, Pci),
        rdma=known(seen, Rdma),
        gpus=gpus_by_uuid(seen),
        excluded=excluded_gpus(seen),
        reasons=last_xids(seen),
        numbers=numbers,
        slices=known(seen, ResourceSlices),
    )


def gpus_by_uuid(seen: Seen) -> dict[str, str] | None:
    """The PCI addresses of the GPUs that NVIDIA's driver may use; None if one has no UUID yet, or it cannot be read."""
    found: dict[str, str] = {}
    for gpu in _listed_gpus(seen):
        known_gpu = raw(gpu)
        if known_gpu["excluded"] is True:
            continue
        if not isinstance(known_gpu["uuid"], str):
            return None
        found[known_gpu["uuid"]] = gpu.address
    return found or None


def excluded_gpus(seen: Seen) -> frozenset[str]:
    """The PCI addresses of the GPUs that NVIDIA's driver is told to leave alone."""
    return frozenset(gpu.address for gpu in _listed_gpus(seen) if raw(gpu)["excluded"] is True)


def last_xids(seen: Seen) -> dict[str, str]:
    """What the kernel log said last of each GPU, by PCI address, of what makes its plugin call it unhealthy."""
    log, pci = known(seen, KernelLog), known(seen, Pci)
    if log is None or pci is None:
        return {}
    found: dict[str, str] = {}
    for event in xid.events(log.heard()):
        if event.code is None or event.of_switch or event.code in SKIPPED_XIDS:
            continue
        told = f"Xid {event.code}, {event.line.at:.0f} s after boot"
        found |= {gpu.address: told for gpu in pci.gpus if event.place and event.is_about(gpu.address)}
    return found


def _listed_gpus(seen: Seen) -> tuple[GpuInformation, ...]:
    driver = known(seen, GpuDriver)
    listed = raw(driver)["gpus"] if driver is not None else None
    return listed if isinstance(listed, tuple) else ()


def known(seen: Seen, kind: type[T]) -> T | None:
    """A fact; None where it is not shown or could not be observed."""
    try:
        return seen.get(kind)
    except CannotLook:
        return None


def subject(book: Book) -> Subject:
    return Subject(book.resource, None, book.resource)


def excuse(seen: Seen, book: Book) -> Verdict | None:
    """Why nothing can be held against a plugin that has not registered: it waits at our gate, or the kubelet started.

    Raises CannotLook if nobody knows since when the kubelet runs.
    """
    pods = pods_of(book.resource, seen)
    waiting = pods[0] if pods and all(map(is_held, pods)) else None
    if waiting is not None:
        message = f"{book.line}; {waiting.where} waits in {WAIT} until the devices are ready, and then registers"
        return Verdict(subject(book), Status.OK, "HeldByGate", message)
    kubelet = seen[Kubelet]
    if kubelet.is_starting:
        since = f"the kubelet began {kubelet.age:.0f} s ago"
        message = f"{book.line}; {since}, and plugins have {GRACE_SECONDS:.0f} s to register"
        return Verdict(subject(book), Status.UNKNOWN, "Starting", message)
    return None


def serving_pods(seen: Seen) -> tuple[Pod, ...]:
    """The pods here that may serve a device plugin. A driver's container serves none."""
    cluster = known(seen, Cluster)
    pods = raw(cluster)["pods"] if cluster is not None else ()
    found = [pod for pod in pods if not pod.finished and not pod.deleted] if isinstance(pods, tuple) else []
    served = [(pod, tolerates_gate.serves(pod, PLACES)) for pod in found]
    return tuple(pod for pod, path in served if path and not tolerates_gate.is_of_driver(path))


def pods_of(resource: str, seen: Seen) -> tuple[Pod, ...]:
    """The pods here that may serve this resource: those of its name, else all whose name tells no other resource."""
    every, word = serving_pods(seen), SERVED_BY.get(device_books.family(resource) or resource)
    named = tuple(pod for pod in every if word is not None and word in _names(pod))
    return named or tuple(pod for pod in every if not any(other in _names(pod) for other in OTHERS))


def _names(pod: Pod) -> str:
    return f"{pod.name} {pod.owner.name if pod.owner is not None else ''}"


def is_held(pod: Pod) -> bool:
    """Whether it waits in our init container."""
    return any(one.init and one.name == WAIT and one.state == "running" for one in pod.containers)


def remedy(playbook: str, seen: Seen, resource: str) -> Remedy | None:
    """What is planned for the pod of the plugin, where only one pod here can be it. The pods' network is never it."""
    pods = pods_of(resource, seen)
    return Remedy(playbook, {"pod": pods[0].where}) if len(pods) == 1 and not _is_network(pods[0]) else None


def _is_network(pod: Pod) -> bool:
    return any(place in map(str, (one, *one.parents)) for place in NETWORK for one in map(PurePosixPath, pod.writes))


def about_pods(seen: Seen) -> str:
    """Which pods here may serve the plugin, for a message."""
    if known(seen, Cluster) is None:
        return ""
    names = ", ".join(pod.where for pod in serving_pods(seen)[:4])
    return f"; pods here that serve plugins: {names}" if names else "; no pod here serves a plugin"


def about_slices(seen: Seen, book: Book) -> str:
    """Why it is not known whether a driver of dynamic resource allocation offers these GPUs, for a message."""
    try:
        _ = seen.get(ResourceSlices) if device_books.is_of_gpus(book.resource) else None
    except CannotLook as cannot:
        right = f"; {MANIFEST} gives the right" if cannot.blind.kind is Why.DENIED else ""
        return f"; whether ResourceSlices offer them is not known: {cannot.blind}{right}"
    return ""
