"""The sources of the idle proof: each asks one thing that may know who uses a device, and says it, or raises.

What this host cannot have is absent by name, and never by an error: no kubelet process and no /var/lib/kubelet, no
/sys/module/ib_core, no device number of RDMA, GPUs or VFIO, no way in which this node could know an API server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from nodeprep.decide import idle_holders
from nodeprep.decide.idleness import IdleSource, IdleTarget, SourceState
from nodeprep.door_values import NetworkNamespace
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import api_server_ways, device_plugins, kubelet, pod_resources
from nodeprep.facts.machine import holders, processes
from nodeprep.facts.network import links, routes, sockets
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma import rdma_netlink
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.model import Unreadable, Why
from nodeprep.values import Value

T = TypeVar("T")
LIST_SECONDS = 5.0  # for the kubelet's list: a busy node may take longer than a look allows
RDMA_CORE = "/sys/module/ib_core"
KERNEL_RELEASE = "/proc/sys/kernel/osrelease"
POD_LOGS, POD_DIRECTORIES = "/var/log/pods", f"{kubelet.HOME}/pods"
# What stands for all that is read: where the operator's `exclude` hides one of them, nothing is proved.
PATHS = (
    *(RDMA_CORE, KERNEL_RELEASE, POD_LOGS, POD_DIRECTORIES, kubelet.HOME, kubelet.SOCKET, device_plugins.CHECKPOINT),
    *(
        holders.CHARACTER_DEVICES,
        holders.MISC_DEVICES,
        *holders.NODE_CLASSES,
        holders.VFIO_GROUPS,
        *api_server_ways.KUBECONFIGS,
    ),
    *(f"{processes.PROC}/1/{one}" for one in ("comm", "cmdline", "fd", "fd/0", "task", "ns/pid")),
    *(f"{sockets.TABLES}/{one}" for one in sockets.PROTOCOLS),
)


class NotProved(Exception):
    """A source, or a part of it, could not be asked."""

    def __init__(self, why: Unreadable) -> None:
        super().__init__(str(why))
        self.why = why


class IdleQuestion(Value):
    """What all sources are asked about. `service_host` is the API server's as pods are told it, "" outside of a pod."""

    host: Host
    target: IdleTarget
    service_host: str


def needed(value: T | Unreadable) -> T:
    """The value. Raises NotProved if it could not be read."""
    if isinstance(value, Unreadable):
        raise NotProved(value)
    return value


def _pod_resources(question: IdleQuestion) -> SourceState:
    host, target = question.host, question.target
    absent = _no_kubelet(host)
    if absent:
        return SourceState(absent=absent)
    pods = needed(kubelet.asked(host, pod_resources.LIST, pod_resources.pods, LIST_SECONDS))
    return SourceState(tuple(idle_holders.of_pods(target, pods)))


def _checkpoint(question: IdleQuestion) -> SourceState:
    host = question.host
    absent = _no_kubelet(host)
    if absent:
        return SourceState(absent=absent)
    if needed(host.files.entry(device_plugins.DIRECTORY)) is None:
        detail = "no such directory, and there is a kubelet: it starts, or its --root-dir is another"
        raise NotProved(Unreadable(Why.MISSING, device_plugins.DIRECTORY, detail=detail))
    found = needed(device_plugins.checkpoint(host))
    if found is None:  # no plugin has registered, so nothing was handed out
        return SourceState()
    names, gone = _pod_names(host), _ended_pods(host, {one.pod_uid for one in found.entries})
    return SourceState(tuple(idle_holders.of_checkpoint(question.target, found, names, gone)))


def _no_kubelet(host: Host) -> str:
    """Why there can be no kubelet here, "" if there can."""
    running = needed(processes.commands(host.files))
    home = needed(host.files.entry(kubelet.HOME))
    return "" if kubelet.pids(running) or home else f"no kubelet runs, and there is no {kubelet.HOME}"


def _pod_names(host: Host) -> Mapping[str, str]:
    """NAMESPACE/NAME of pods by UID, from the names of their log directories (pkg/kubelet/kuberuntime)."""
    names = host.files.names(POD_LOGS)
    parts = (name.split("_") for name in (names if isinstance(names, tuple) else ()))
    return {one[2]: f"{one[0]}/{one[1]}" for one in parts if len(one) == 3}


def _ended_pods(host: Host, uids: Collection[str]) -> frozenset[str]:
    """Those of which the kubelet has removed the directory: it does so when nothing of the pod is left."""
    there = host.files.names(POD_DIRECTORIES)
    return frozenset(uids) - frozenset(there) if isinstance(there, tuple) else frozenset()


def _rdma_contexts(question: IdleQuestion) -> SourceState:
    told = _rdma(question)
    if isinstance(told, SourceState):
        return told
    files = question.host.files
    # The kernel names a process by its number in our own PID namespace, which is not that of a mounted /proc.
    pids = {one.pid for one in told.holders if one.pid is not None and not files.root}
    commands = {pid: processes.command(files, pid) for pid in pids}
    return SourceState(tuple(idle_holders.of_contexts(question.target, told, commands)))


def _rdma_kernel_users(question: IdleQuestion) -> SourceState:
    told = _rdma(question)
    if isinstance(told, SourceState):
        return told
    return SourceState(tuple(idle_holders.of_kernel_users(question.target, told)))


def _rdma(question: IdleQuestion) -> RdmaNetlink | SourceState:
    """What RDMA netlink says, or that this kernel cannot have it."""
    host, target = question.host, question.target
    if needed(host.files.entry(RDMA_CORE)) is None and not target.rdma:
        return SourceState(absent=f"there is no {RDMA_CORE}: the kernel has no RDMA")
    told = needed(rdma_netlink.observe(host))
    doubt = idle_holders.netlink_doubt(target, told, needed(host.files.text(KERNEL_RELEASE)) or "")
    if doubt is not None:
        raise NotProved(doubt)
    return told


def _open_device_nodes(question: IdleQuestion) -> SourceState:
    files = question.host.files
    if not needed(holders.registered(files)).families:
        return SourceState(absent=f"{holders.CHARACTER_DEVICES} has no device of RDMA, of a GPU or of VFIO")
    found = needed(holders.observe(question.host))
    held = tuple(idle_holders.of_nodes(question.target, found.found))
    doubt = None if found.is_whole else _other_namespaces()
    if found.unseen:
        detail = f"the open files of {found.unseen} processes may not be seen (run as root of the host)"
        doubt = Unreadable(Why.DENIED, processes.PROC, detail=detail)
    return SourceState(held, failed=doubt)


def _other_namespaces() -> Unreadable:
    detail = "it does not show the processes of all PID namespaces: run on the host, or mount the host's /proc"
    return Unreadable(Why.MISSING, processes.PROC, detail=detail)


def _default_route(question: IdleQuestion) -> SourceState:
    names, found = _carriers(question), needed(routes.observe(question.host))
    return SourceState(tuple(idle_holders.of_default_routes(names, found)))


def _api_route(question: IdleQuestion) -> SourceState:
    names, found = _carriers(question), needed(api_server_ways.observe(question.host, question.service_host))
    return SourceState(tuple(idle_holders.of_api_ways(names, found.ways)), absent=found.absent)


def _pod_routes(question: IdleQuestion) -> SourceState:
    names, found = _carriers(question), needed(routes.observe(question.host))
    return SourceState(tuple(idle_holders.of_pod_routes(names, found)))


def _carriers(question: IdleQuestion) -> tuple[str, ...]:
    own: NetworkNamespace = needed(question.host.own_namespace())
    return idle_holders.carriers(question.target, own.links)


def _sockets(question: IdleQuestion) -> SourceState:
    host, names = question.host, _carriers(question)
    interfaces, found = needed(links.observe(host)), needed(sockets.observe(host))
    held = tuple(idle_holders.of_sockets(names, interfaces, found, {}))
    if held:
        held = tuple(idle_holders.of_sockets(names, interfaces, found, _owners(host)))
    return SourceState(held)


def _owners(host: Host) -> Mapping[int, str]:
    """The processes that are seen, by the inodes of their sockets. Nothing hangs on them but names."""
    running = processes.commands(host.files)
    if isinstance(running, Unreadable):
        return {}
    owners = processes.sockets(host.files, running)
    return {inode: f"process {pid} ({running[pid]})" for inode, pid in owners.items()}


def _bonds(question: IdleQuestion) -> SourceState:
    interfaces: Links = needed(links.observe(question.host))
    return SourceState(tuple(idle_holders.of_bonds(question.target, interfaces)))


def _namespaces(question: IdleQuestion) -> SourceState:
    host = question.host
    interfaces, found = needed(links.observe(host)), needed(host.network_namespaces())
    held = tuple(idle_holders.of_namespaces(question.target, interfaces, found))
    return SourceState(held, failed=None if processes.shows_all(host.files) else _other_namespaces())


SOURCES: Mapping[IdleSource, Callable[[IdleQuestion], SourceState]] = {
    IdleSource.POD_RESOURCES: _pod_resources,
    IdleSource.CHECKPOINT: _checkpoint,
    IdleSource.RDMA_CONTEXTS: _rdma_contexts,
    IdleSource.RDMA_KERNEL_USERS: _rdma_kernel_users,
    IdleSource.OPEN_DEVICE_NODES: _open_device_nodes,
    IdleSource.DEFAULT_ROUTE: _default_route,
    IdleSource.API_ROUTE: _api_route,
    IdleSource.POD_ROUTES: _pod_routes,
    IdleSource.SOCKETS: _sockets,
    IdleSource.BONDS: _bonds,
    IdleSource.NAMESPACES: _namespaces,
}
