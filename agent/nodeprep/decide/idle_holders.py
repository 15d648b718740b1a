"""Finds in facts who uses what a remedy disturbs. Pure: `repair/idle_proof` has the facts of the moment.

What may be the target's counts as the target's: a unit of a plugin whose id tells no device, a node of no device alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from nodeprep.decide.idleness import IdleHolder, IdleSource, IdleTarget
from nodeprep.door_values import NamespaceLink, NetworkNamespace, RdmaHolder, RoutingRule
from nodeprep.facts.kubernetes import device_books
from nodeprep.facts.kubernetes.api_server_ways import ApiWay
from nodeprep.facts.kubernetes.device_plugins import Checkpoint
from nodeprep.facts.kubernetes.pod_resources import PodDevices
from nodeprep.facts.machine import holders
from nodeprep.facts.machine.holders import NodeHolder
from nodeprep.facts.machine.pci import ADDRESS
from nodeprep.facts.network import sockets
from nodeprep.facts.network.links import Links
from nodeprep.facts.network.routes import MAIN, Route, Routes
from nodeprep.facts.network.sockets import IpSocket
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.model import Unreadable, Why

# Kernel modules that have objects on an RDMA device as long as it exists: the core for management datagrams, and the
# verbs drivers themselves (drivers/infiniband/hw and sw).
OWN_USERS = frozenset(
    (
        "ib_core",
        *(
            "bnxt_re",
            "efa",
            "erdma",
            "hfi1",
            "hns_roce_hw_v2",
            "ib_mthca",
            "ionic_rdma",
            "irdma",
            "iw_cxgb4",
            "mana_ib",
        ),
        *("mlx4_ib", "mlx5_ib", "ocrdma", "qedr", "rdma_rxe", "rdmavt", "siw", "usnic_verbs", "vmw_pvrdma"),
    )
)
# Its interface is the user: where that is a part of the target, it is asked about itself. What wants every RDMA device
# idle restarts a runtime, scans a bus or loads a driver that has made no device: no interface is lost by it.
IPOIB = "ib_ipoib"
PEERS = ("veth", "netkit", "vxcan")  # kinds whose other end is no interface below
# A daemon that binds these ports on each address of the node configures or watches the node: DHCP, NTP, DHCPv6.
OF_DAEMONS = {("udp", port) for port in (68, 123, 546)}
ENDED_STATES = ("time-wait", "close")
COUNTS_SINCE = (5, 5)  # Linux counts contexts of all PID namespaces since then (drivers/infiniband/core/restrack.c)
ONE_ADDRESS = ("/32", "/128")


def of_pods(target: IdleTarget, pods: Iterable[PodDevices]) -> Iterator[IdleHolder]:
    """Containers that hold a device of the target, or may do so."""
    for pod in pods:
        for container in pod.containers:
            who = f"pod {pod.where} (container {container.container})"
            units = [
                f"{one.resource} {unit}"
                for one in container.devices
                for unit in one.ids
                if pod.where == target.pod or may_be_of(target, one.resource, unit)
            ]
            units += ["a device of a resource claim"] if container.claims and _has_devices(target, pod.where) else []
            yield from (IdleHolder(IdleSource.POD_RESOURCES, unit, who) for unit in units)


def of_checkpoint(
    target: IdleTarget, checkpoint: Checkpoint, names: Mapping[str, str], gone: Collection[str] = ()
) -> Iterator[IdleHolder]:
    """As `of_pods`, by the kubelet's checkpoint. `names` are NAMESPACE/NAME by UID, `gone` UIDs of pods that ended."""
    for entry in checkpoint.entries:
        pod = names.get(entry.pod_uid, entry.pod_uid)
        for unit in (one for ids in entry.devices.values() for one in ids):
            concerns = pod == target.pod or may_be_of(target, entry.resource, unit)
            if concerns and entry.pod_uid not in gone:
                who = f"pod {pod} (container {entry.container})"
                yield IdleHolder(IdleSource.CHECKPOINT, f"{entry.resource} {unit}", who)


def _has_devices(target: IdleTarget, pod: str) -> bool:
    """Whether a claim, of which nobody here knows the device, may be of the target."""
    return pod == target.pod or bool(target.netdevs or target.functions or target.has_rdma)


def may_be_of(target: IdleTarget, resource: str, unit: str) -> bool:
    """Whether a plugin's unit may be of a device of the target. Only an id that names another device tells that not."""
    if device_books.is_of_gpus(resource):
        return target.has_gpu
    device = device_books.device_of(resource, unit)
    if device is not None and ADDRESS.fullmatch(device):
        return device in target.functions or target.is_whole_rdma
    if resource == device_books.ERDMA and device is not None:
        return target.has_rdma_device(device)
    if resource in device_books.WRITTEN_BY_CONTROLLERS and not (target.netdevs or target.functions):
        return False  # an ENI is an interface, and no RDMA device
    return bool(target.netdevs or target.functions or target.has_rdma)


def of_contexts(target: IdleTarget, told: RdmaNetlink, commands: Mapping[int, str]) -> Iterator[IdleHolder]:
    """Processes with an RDMA device open. The kernel counts also those that it does not name to us."""
    for device in _devices(target, told):
        of_device = [one for one in told.holders if one.device == device and one.kernel_user is None]
        pids = sorted({one.pid for one in of_device if one.pid is not None})
        for pid in pids:
            who = f"process {pid} ({commands.get(pid, '?')})"
            yield IdleHolder(IdleSource.RDMA_CONTEXTS, device, who, commands.get(pid, ""))
        count = dict(told.contexts).get(device, 0)
        if any(one.pid is None for one in of_device) or (count and not pids):
            who = f"a process of another PID namespace ({count} contexts are open in all)"
            yield IdleHolder(IdleSource.RDMA_CONTEXTS, device, who)


def of_kernel_users(target: IdleTarget, told: RdmaNetlink) -> Iterator[IdleHolder]:
    """Kernel modules that work over an RDMA device: NVMe, iSER, NFS, SMC, IP over InfiniBand."""
    devices = _devices(target, told)
    own = OWN_USERS | ({IPOIB} if target.netdevs or target.is_whole_rdma else frozenset())
    found = {(one.device, one.kernel_user) for one in told.holders if _is_user(one, own) and one.device in devices}
    for device, module in sorted(found):
        yield IdleHolder(IdleSource.RDMA_KERNEL_USERS, device, f"kernel user {module}")


def _is_user(holder: RdmaHolder, own: Collection[str]) -> bool:
    return holder.kernel_user is not None and holder.kernel_user.strip("[]").replace("-", "_") not in own


def _devices(target: IdleTarget, told: RdmaNetlink) -> tuple[str, ...]:
    return tuple(sorted({*told.devices, *dict(told.contexts)})) if target.is_whole_rdma else target.rdma


def netlink_doubt(target: IdleTarget, told: RdmaNetlink, kernel: str) -> Unreadable | None:
    """Why the kernel's answer does not prove that nobody uses the target's RDMA devices; None if it does."""
    if not told.offered:
        return _doubt("ib_core is loaded, and there is no RDMA netlink")
    denied = [question for question in told.denied if question.startswith("RES_")]
    if denied:
        return Unreadable(Why.DENIED, "netlink rdma", detail=f"{', '.join(denied)} was refused")
    if _release(kernel) < COUNTS_SINCE:
        return _doubt(f"Linux {kernel or '?'} does not count the users of other PID namespaces; 5.5 and later do")
    counted = dict(told.contexts)
    uncounted = [one for one in _devices(target, told) if one not in counted]
    if uncounted:
        return _doubt(f"the kernel counts no objects of {', '.join(uncounted)}")
    if told.netns_mode == "exclusive" and (target.is_whole_rdma or (target.functions and not target.rdma)):
        return _doubt("RDMA devices may be in other network namespaces (`rdma system` says exclusive)")
    return None


def _doubt(detail: str) -> Unreadable:
    return Unreadable(Why.MISSING, "netlink rdma", detail=detail)


def _release(kernel: str) -> tuple[int, ...]:
    """The first two numbers of a release; of one that nobody can read, a release before all."""
    parts = kernel.partition("-")[0].split(".")[:2]
    return tuple(map(int, parts)) if len(parts) == 2 and all(map(str.isdecimal, parts)) else (0, 0)


def of_nodes(target: IdleTarget, found: Iterable[NodeHolder]) -> Iterator[IdleHolder]:
    """Processes with a device node of the target open. A node of no device alone counts for every device."""
    for one in found:
        if _is_node_of(target, one):
            who = f"process {one.pid} ({one.command})"
            yield IdleHolder(IdleSource.OPEN_DEVICE_NODES, one.node, who, one.command)


def _is_node_of(target: IdleTarget, one: NodeHolder) -> bool:
    match one.family:
        case holders.GPU:
            return target.has_gpu
        case holders.RDMA:
            return target.has_rdma_device(one.device) if one.device else target.has_rdma
        case holders.VFIO:
            return bool(target.functions) and (not one.device or bool({*one.device.split()} & {*target.functions}))
        case _:
            return target.has_gpu or target.has_rdma or bool(target.functions)


def carriers(target: IdleTarget, links: Collection[NamespaceLink]) -> tuple[str, ...]:
    """The interfaces of the target and all that ride on them in the same namespace: bonds, bridges, VLANs, macvlans."""
    found = {link.index for link in links if link.name in target.netdevs}
    while more := {one.index for one in links if one.index not in found and _rides(one, found, links)}:
        found |= more
    return tuple(sorted({*target.netdevs, *(link.name for link in links if link.index in found)}))


def _rides(link: NamespaceLink, below: Collection[int], links: Collection[NamespaceLink]) -> bool:
    stacked = link.below in below and not link.is_below_elsewhere and link.kind not in PEERS
    return stacked or any(one.master == link.index for one in links if one.index in below)


def of_default_routes(names: Collection[str], routes: Routes) -> Iterator[IdleHolder]:
    """Default routes, IPv4 and IPv6, in the tables that every packet of the node is looked up in."""
    tables = {MAIN, *(rule.table for rule in routes.rules if _is_for_all(rule))}
    for route in routes.routes:
        if route.destination == "default" and route.kind == "unicast" and route.table in tables and route.oif in names:
            yield IdleHolder(IdleSource.DEFAULT_ROUTE, route.oif, f"default route {_via(route)}")


def _is_for_all(rule: RoutingRule) -> bool:
    conditions = (rule.source, rule.destination, rule.iif, rule.oif, rule.mark)
    return rule.action == "lookup" and not any(conditions)


def _via(route: Route) -> str:
    return f"via {route.via}" if route.via else f"dev {route.oif}"


def of_api_ways(names: Collection[str], ways: Iterable[ApiWay]) -> Iterator[IdleHolder]:
    for way in ways:
        if way.errno is None and way.netdev in names:
            who = f"the way to the API server {way.address}" + (f" via {way.via}" if way.via else "")
            yield IdleHolder(IdleSource.API_ROUTE, way.netdev, f"{who}, by {way.said_by}")


def of_pod_routes(names: Collection[str], routes: Routes) -> Iterator[IdleHolder]:
    """Pods whose packets leave or arrive by these interfaces: by the kernel's answers, and by rules of addresses."""
    found: dict[tuple[str, str], None] = {}
    for answer in (*routes.out, *routes.back):
        if answer.errno is None and answer.oif in names:
            found[answer.oif, answer.pod] = None
    for rule in routes.rules:
        pod = next((one for one in (rule.source, rule.destination) if one.endswith(ONE_ADDRESS)), "")
        used = {one.oif for one in routes.table(rule.table) if pod and rule.table != MAIN} & set(names)
        found |= dict.fromkeys((name, pod.rpartition("/")[0]) for name in sorted(used))
    yield from (IdleHolder(IdleSource.POD_ROUTES, name, f"packets of pod {pod}") for name, pod in found)


def of_sockets(
    names: Collection[str], links: Links, found: Iterable[IpSocket], owners: Mapping[int, str]
) -> Iterator[IdleHolder]:
    """Sockets with an address of these interfaces. `owners` are the names of processes by inode."""
    on = {sockets.short(one.address): one.netdev for one in links.addresses or () if one.netdev in names}
    for one in found:
        is_daemons = (one.protocol, one.local_port) in OF_DAEMONS
        if one.local in on and not is_daemons and (one.state not in ENDED_STATES or _is_unconnected(one)):
            who = owners.get(one.inode, "a process that is not seen")
            yield IdleHolder(IdleSource.SOCKETS, on[one.local], f"{one} of {who}")


def _is_unconnected(one: IpSocket) -> bool:
    """UDP calls a socket that is bound and not connected closed."""
    return one.protocol == "udp" and one.state == "close"


def of_bonds(target: IdleTarget, links: Links) -> Iterator[IdleHolder]:
    """What has an interface of the target as its leg, and legs of a bond or bridge that is the target itself."""
    for name in target.netdevs:
        link = links.named(name)
        above = links.named(link.master) if link is not None else None
        if link is not None and link.master:
            kind = f" ({above.kind})" if above is not None and above.kind else ""
            yield IdleHolder(IdleSource.BONDS, name, f"{link.master}{kind} is above it")
        legs = ", ".join(leg.name for leg in links.legs(name))
        if link is not None and (link.is_bond or legs):
            yield IdleHolder(IdleSource.BONDS, name, f"it is a {link.kind or 'master'} of {legs or 'no legs'}")


def of_namespaces(target: IdleTarget, links: Links, namespaces: Collection[NetworkNamespace]) -> Iterator[IdleHolder]:
    """Interfaces of the target in another network namespace, and interfaces there that ride on the target's here."""
    for name in target.netdevs:
        if links.named(name) is None:
            yield IdleHolder(IdleSource.NAMESPACES, name, "it is not in this network namespace")
    own = {link.index for one in namespaces if one.is_own for link in one.links if link.name in target.netdevs}
    bare = any(all(link.bdf != one for link in links.links) for one in target.functions)
    for namespace in (one for one in namespaces if not one.is_own):
        for link in namespace.links:
            who = f"the network namespace of {namespace.holder}"
            if link.parent in target.functions:
                yield IdleHolder(IdleSource.NAMESPACES, link.parent or "", f"its interface {link.name} is in {who}")
            elif link.parent is None and link.kind is None and link.name in target.netdevs:
                yield IdleHolder(IdleSource.NAMESPACES, link.name, f"an interface of this name is in {who}")
            elif link.below in own and link.is_below_elsewhere and link.kind not in PEERS:
                device = _name_of(link.below, namespaces)
                yield IdleHolder(IdleSource.NAMESPACES, device, f"{link.name} ({link.kind}) on it is in {who}")
            elif bare and _may_be_hardware(link):
                yield IdleHolder(IdleSource.NAMESPACES, link.name, f"it may be of the target, and is in {who}")


def _name_of(index: int | None, namespaces: Iterable[NetworkNamespace]) -> str:
    own = (link.name for one in namespaces if one.is_own for link in one.links if link.index == index)
    return next(own, str(index))


def _may_be_hardware(link: NamespaceLink) -> bool:
    """Before Linux 5.14 the kernel does not tell the function behind an interface of another namespace."""
    return link.parent is None and link.kind is None and link.name != "lo"
