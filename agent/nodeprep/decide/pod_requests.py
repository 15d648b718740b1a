"""Which pods of this node ask for a device, by a consistent list of the API server: those that a remedy must not meet.

A pod that is bound and not started yet has no process, so no other source of the idle proof sees it. Which device it
gets nobody knows before the kubelet gave it one. And many a job asks for GPUs alone and opens the node's RDMA devices
through a mount. So any device counts, but for what is surely of another kind. A pod that has not started and will be
on the host's network, is privileged or has /dev counts without asking for any. Once it runs, its processes show it.
A network by Multus counts for as long as the pod does: an interface on top of a port is in no process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodeprep.decide.remedy_header import Idle
from nodeprep.facts.kubernetes import device_books
from nodeprep.facts.kubernetes.cluster import MULTUS, Pod
from nodeprep.model import CannotLook

NAMED_LIMIT = 3  # pods in a message
DAEMON_SET = "DaemonSet"  # its pods serve the node, and some of them wait for our gate before they start
ASKING = (Idle.NETDEV, Idle.FUNCTION, Idle.RDMA)  # what a pod may be given a part of


def hindrance(pods: Iterable[Pod], idle: Idle) -> str:
    """Which unfinished pods ask for what must be idle, "" for none."""
    if idle not in ASKING:
        return ""
    found = list(dict.fromkeys(_asking(pods, idle)))
    more = f" and {len(found) - NAMED_LIMIT} more" if len(found) > NAMED_LIMIT else ""
    return f"in use by {', '.join(found[:NAMED_LIMIT])}{more}: it waits until they end" if found else ""


def _asking(pods: Iterable[Pod], idle: Idle) -> Iterator[str]:
    for pod in pods:
        try:
            asked = () if pod.finished else tuple(_resources(pod, idle))
        except CannotLook as cannot:
            asked = (f"something: {cannot}",)
        if asked:
            yield f"pod {_where(pod)} ({', '.join(asked)})"


def _resources(pod: Pod, idle: Idle) -> Iterator[str]:
    """The resources of a pod that may be of what must be idle. A claim may be of anything."""
    if pod.claims:
        yield "a resource claim"
    is_of_node = pod.owner is not None and pod.owner.kind == DAEMON_SET
    if MULTUS in pod.annotations and not is_of_node:
        yield "networks by Multus"
    for resource, count in sorted(pod.requests.items()):
        if count > 0 and not _is_of_others(resource, idle):
            yield f"{count} {resource}"
    if pod.phase == "Pending" and not is_of_node:
        if pod.host_network:
            yield "the host's network, not started yet"
        yield from (f"{how}, not started yet" for how in pod.devices)


def _is_of_others(resource: str, idle: Idle) -> bool:
    """An ENI is an interface, and no RDMA device: each pod of a Terway node asks for one."""
    return idle is Idle.RDMA and resource in device_books.WRITTEN_BY_CONTROLLERS


def _where(pod: Pod) -> str:
    try:
        return pod.where
    except CannotLook:
        return "of an unreadable name"
