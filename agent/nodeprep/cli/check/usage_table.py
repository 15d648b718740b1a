"""Who uses the devices of this node, for `check -o wide`: pods, processes and RDMA contexts; and what is not seen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from nodeprep.cli import page_layout
from nodeprep.cli.check import unread
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import kubelet
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.facts.machine import holders
from nodeprep.facts.machine.holders import NodeHolders
from nodeprep.facts.rdma import rdma_netlink
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.model import Unreadable, raw

HEADER = ("DEVICE", "RESOURCE", "HELD BY")
Row = tuple[str, str, str]


def lines(host: Host, width: int | None) -> list[str]:
    """A row for each device and holder, and a line for each source that cannot be seen. Nothing of a copy."""
    if not host.live:
        return []
    rows: list[Row] = []
    unseen: list[str] = []
    pods, processes = of_pods(kubelet.observe(host)), of_processes(holders.observe(host))
    for found in chain(pods, processes, of_contexts(rdma_netlink.observe(host))):
        if isinstance(found, str):
            unseen.append(f"not seen: {found}; take its devices for used")
        else:
            rows.append(found)
    told = page_layout.columns([HEADER, *rows], width) if rows else ["no device is seen in use"]
    return ["", *told, *unseen]


def of_pods(found: Kubelet) -> Iterator[Row | str]:
    """Devices of plugins by the kubelet's list. A pod that has ended may be in the list of an old kubelet."""
    if not found.present:
        return
    pods = raw(found)["pods"]
    if isinstance(pods, Unreadable):
        yield f"which pods hold devices ({pods.path}: {unread.unread(pods)})"
        return
    for pod in pods:
        for container in pod.containers:
            where = f"pod {pod.where} container {container.container}"
            for devices in container.devices:
                yield from ((one, devices.resource, where) for one in devices.ids)
            if container.claims:
                yield "?", f"{container.claims} by resource claim", where


def of_processes(found: NodeHolders | Unreadable) -> Iterator[Row | str]:
    if not isinstance(found, NodeHolders):
        yield f"which processes have device nodes open ({found.path}: {unread.unread(found)})"
        return
    yield from ((one.node, "device node", f"pid {one.pid} ({one.command})") for one in found.found)
    if found.unseen:
        yield f"the open files of {found.unseen} processes of other users (run as root)"


def of_contexts(found: RdmaNetlink | Unreadable) -> Iterator[Row | str]:
    """RDMA contexts by the kernel: it counts also those of processes that are not shown here."""
    if isinstance(found, Unreadable):
        yield f"RDMA contexts (netlink: {unread.unread(found)})"
        return
    yield from ((device, "RDMA context", f"{count} open") for device, count in found.contexts if count)
