"""Does every device plugin listen on its socket?"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from functools import partial

from nodeprep.checks.plugin import advertised
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.kubernetes import device_books
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.kubernetes.device_books import Book
from nodeprep.facts.kubernetes.device_plugins import DIRECTORY, REGISTRATION, SUFFIX, DevicePlugins, PluginSocket
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict, raw
from nodeprep.pattern import Pattern

HUNG_CODES = (errno.EAGAIN, errno.ETIMEDOUT)  # the queue of its connections is full: it hangs
STARTED = Pattern(r"(?:\d{9,11}-)?(.*)")  # Alibaba's plugins put the time of their start before the name
GPU_NAMES = ("nvidia-gpu", "nvidia.com_gpu", "nvidia", "nvidia-gpu-shared")
NAMES = {  # of sockets, where they do not follow from the name of the resource
    **dict.fromkeys(GPU_NAMES, device_books.GPU),
    "eni": device_books.ENI,
    "member-eni": device_books.MEMBER_ENI,
    "erdma-eni": device_books.ERDMA,
    "erdma": device_books.ERDMA,
    "aws-efa-device-plugin": device_books.EFA,
}


def judge(seen: Seen) -> Iterator[Verdict]:
    plugins = seen[DevicePlugins]
    sockets = tuple(one for one in plugins.sockets or () if one.name != REGISTRATION)
    yield from seen.each(sockets, partial(verdict, seen=seen, sockets=sockets), subject)


def subject(socket: PluginSocket) -> Subject:
    return Subject(socket.name, None, socket.name)


def verdict(socket: PluginSocket, seen: Seen, sockets: tuple[PluginSocket, ...]) -> Verdict:
    path = f"{DIRECTORY}/{socket.name}"
    if socket.errno is None:
        return Verdict(subject(socket), Status.OK, "Listens", f"a plugin listens on {path}")
    code = errno.errorcode.get(socket.errno, str(socket.errno))
    shows = f"nobody {'takes connections' if socket.errno in HUNG_CODES else 'listens'} on {path} ({code})"
    args = {"path": path}
    alive = next((one for one in sockets if is_alive(one) and serves(one) == serves(socket)), None)
    if alive is not None:
        message = f"{shows}; the plugin listens on {alive.name}: a file of a former start"
        return Verdict(subject(socket), Status.WARN, "Stale", message, observed=code, args=args)
    book = whose(socket, seen)
    if book is None:
        message = f"{shows}: nothing that this node has or should have is known to need it"
        return Verdict(subject(socket), Status.WARN, "Unclaimed", message, observed=code, args=args)
    about = Subject(book.resource, None, book.resource)
    if book.healthy:
        count = len(book.healthy)
        message = f"{shows}; the kubelet has {count} healthy devices of {book.resource}, so a plugin listens elsewhere"
        return Verdict(about, Status.WARN, "Stale", message, observed=code, args=args)
    excuse = advertised.excuse(seen, book)
    if excuse is not None:
        return excuse
    message = f"{shows}: the plugin of {book.resource} is dead{advertised.about_pods(seen)}"
    remedy = advertised.remedy("plugin_restart", seen, book.resource)
    return Verdict(about, Status.FAIL, "Dead", message, remedy, code, "a plugin that listens", args=args)


def is_alive(socket: PluginSocket) -> bool:
    return raw(socket)["errno"] is None


def serves(socket: PluginSocket) -> str:
    """The resource by the name of its socket, or the name without the time of the start."""
    match = STARTED.fullmatch(socket.name.removesuffix(SUFFIX))
    stem = match[1] if match else socket.name
    return NAMES.get(stem, stem)


def whose(socket: PluginSocket, seen: Seen) -> Book | None:
    """The book of a resource that the node needs a plugin for, by the name of the socket.

    It is expected, or the kubelet itself knows of it. The Node is no reason: our copy of it may be 15 minutes old.

    The shared RDMA plugin names its socket after the resource (hca_a.sock), others after the whole name
    (nvidia.com_mlnx.sock).
    """
    name = serves(socket)
    wanted = [one for one, count in expected(seen).items() if count]
    for book in advertised.books(seen, wanted):
        used = book.resource in wanted or book.healthy or book.holders or book.registered
        if used and name in (book.resource, book.resource.replace("/", "_"), book.resource.rpartition("/")[2]):
            return book
    return None


def expected(seen: Seen) -> dict[str, int]:
    known = advertised.known(seen, Expected)
    return dict(known.resources) if known is not None else {}


CHECK = Check(
    id="plugin.sockets",
    question="Does every device plugin listen on its socket?",
    why="The kubelet takes the devices of a plugin that died out of the Node, at once or after 5 minutes.",
    fix="ls -l {path}; rm it if no plugin of that name runs here any more.",
    reasons=(
        Reason("Listens", Status.OK),
        Reason("HeldByGate", Status.OK),
        Reason("Starting", Status.UNKNOWN),
        Reason("Stale", Status.WARN),
        Reason("Unclaimed", Status.WARN),
        Reason(
            "Dead",
            Status.FAIL,
            "The log of the plugin's pod says why it died; kubectl delete pod restarts it. Jobs keep their devices.",
        ),
    ),
    source="kubernetes pkg/kubelet/cm/devicemanager/endpoint.go; names: NVIDIA k8s-device-plugin, terway deviceplugin",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.SLOW,
    needs=(DevicePlugins, Kubelet),
    uses=(AllocatableDevices, Cluster, Expected),
    after=("plugin.kubelet-socket",),
    remedies=("plugin_restart",),
    judge=judge,
)
