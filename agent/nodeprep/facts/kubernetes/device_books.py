"""The books of each extended resource: what the node has, what is advertised, and which pods hold it.

Every number has a source of its own, and they may contradict each other: then the scheduler believes in devices that
are not there, or does not know of one that is. Nothing is observed here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from nodeprep.facts.alibaba import erdma
from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.cluster import Cluster, KubeNode, Pod
from nodeprep.facts.kubernetes.device_plugins import Checkpoint, DevicePlugins
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.facts.kubernetes.pod_resources import PodDevices
from nodeprep.facts.kubernetes.resource_slices import DRIVERS, ResourceSlices
from nodeprep.facts.machine.pci import ADDRESS, AMD, NVIDIA, Pci, PciDevice
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Shown, Unreadable, raw
from nodeprep.values import Value, field

T = TypeVar("T")
GPU, MIG, AMD_GPU = "nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu"
SHARED = ".shared"  # what NVIDIA's plugin appends to a time-sliced resource (renameByDefault)
ERDMA, ENI, MEMBER_ENI = "aliyun/erdma", "aliyun/eni", "aliyun/member-eni"
RDMA = "rdma/"  # the domain of the shared RDMA plugin (resourcePrefix)
EFA = "vpc.amazonaws.com/efa"
EFA_ID = "1d0f:efa"  # drivers/infiniband/hw/efa/efa_main.c: efa0 to efa3
VFIO = "vfio-pci"  # a function that was handed to a virtual machine
# Terway's controller writes these to the Node itself where it manages addresses by CRD (pkg/controller/node).
WRITTEN_BY_CONTROLLERS = (ENI, MEMBER_ENI)
NATIVE = "kubernetes.io"  # the domain of Kubernetes' own names, which are no extended resources
# Controllers that name pods by generateName (kubernetes pkg/controller/controller_utils.go, GetPodFromTemplate).
NAMING_ANEW = ("ReplicaSet", "ReplicationController", "DaemonSet", "Job")
ONE_LOOK_SECONDS = 1.0  # between two facts of one look: no pod ends, is deleted, made anew and admitted in it
HOLDERS_LISTED, MISSING_LISTED = 8, 4
# NVIDIA's plugin: "GPU-1c0f::3" is the fourth share of a GPU. Before 0.7 a MIG device was "MIG-GPU-1c0f/7/0".
REPLICA = re.compile(r"(.+)::\d+")
OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-f-]+)/\d+/\d+")
SHARE = re.compile(r"(.+)/\d+")  # erdma-controller: "erdma_0/17"
FAKE = re.compile(r"\d+")  # the shared RDMA plugin: "0" to "999", and nobody knows of which device


class Numbers(Value):
    """What an operator states of resources, by name: how many units a device gives, and which functions serve it.

    `virtual_functions` are vendor:device ids of the virtual functions that an SR-IOV plugin selects.
    """

    per_device: Mapping[str, int] = field(default_factory=dict)
    virtual_functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Holder(Value):
    """A pod, and how many units of the resource it holds. `pod` is namespace/name, or a UID where no name is known."""

    pod: str
    count: int


class SlicedGpus(Value):
    """The GPUs that a driver of dynamic resource allocation offers instead of a plugin, by UUID, address or name.

    It is not `whole` while slices of the driver's pool are still to come.
    """

    driver: str
    gpus: frozenset[str]
    whole: bool


class Book(Value):
    """One resource. None stands for a number that its source does not tell.

    `hardware` counts devices, and `present` are their names where ids of the plugin can name them. `registered` are the
    healthy ids of the kubelet's checkpoint, which may be old. `capacity` and `allocatable` are the Node's. `healthy`
    are the ids that the kubelet calls healthy now. `per_device` is the factor that the operator states. `limit` is the
    most that the instance type allows, where that is not hardware. `is_split`: another resource, or a driver of dynamic
    resource allocation (`sliced`), offers the same devices too, so this one need not offer all. `addresses` are PCI
    addresses of present devices that have other names (UUIDs), and `reasons` say by address what was heard of a device.
    """

    resource: str
    hardware: int | None = None
    present: frozenset[str] | None = None
    registered: tuple[str, ...] | None = None
    capacity: int | None = None
    allocatable: int | None = None
    healthy: tuple[str, ...] | None = None
    holders: tuple[Holder, ...] | None = None
    per_device: int | None = None
    limit: int | None = None
    is_split: bool = False
    sliced: SlicedGpus | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def offered(self) -> int | None:
        """How many units pods can get now: by the kubelet, which knows it before the Node says it; else by the Node."""
        return self.allocatable if self.healthy is None else len(self.healthy)

    @property
    def total(self) -> int | None:
        """Healthy and unhealthy units: the Node's capacity, which may be older than what is offered."""
        return max((one for one in (self.capacity, self.offered) if one is not None), default=None)

    @property
    def devices(self) -> frozenset[str] | None:
        """The devices behind the healthy ids; None where an id does not tell its device, or no id is known."""
        if not self.healthy:
            return None
        found = [device_of(self.resource, one) for one in self.healthy]
        return frozenset(one for one in found if one) if all(found) else None

    @property
    def dead(self) -> tuple[str, ...]:
        """Devices that are offered and are not on the node, by name."""
        devices = self.devices
        return () if devices is None or self.present is None else tuple(sorted(devices - self.present))

    @property
    def missing(self) -> tuple[str, ...]:
        """Devices of the node that are not offered, by PCI address or name; none where nobody can tell which."""
        devices = self.devices
        if devices is None or self.present is None or self.is_split:
            return ()
        return tuple(sorted(self.addresses.get(one, one) for one in self.present - devices))

    @property
    def count_dead(self) -> int:
        """How many devices are offered beyond those on the node. The ids, or the operator's factor, tell how many."""
        if self.hardware is None or not self.offered:
            return 0
        if self.hardware == 0:
            return len(self.devices or ()) or 1
        return max(len(self.dead), (self.devices_offered or 0) - self.hardware, 0)

    @property
    def devices_offered(self) -> int | None:
        """How many devices are offered; None where neither ids nor the operator tell it. No factor is guessed."""
        if self.offered is not None and self.per_device:
            return -(-self.offered // self.per_device)
        return None if self.devices is None else len(self.devices)

    @property
    def hidden(self) -> int:
        """How many devices of the node are not offered at all, although no unit is unhealthy; 0 where nobody knows."""
        if self.hardware is None or self.is_split or self.total != self.offered:
            return 0
        if self.per_device is not None:
            return max(0, self.hardware - (self.offered or 0) // self.per_device)
        return 0 if self.devices_offered is None else max(0, self.hardware - self.devices_offered)

    @property
    def line(self) -> str:
        """All of it in one line, without what is not known."""
        numbers = (("hardware", self.hardware), ("at most", self.limit), ("capacity", self.capacity))
        parts = [f"{name} {number}" for name, number in numbers if number is not None]
        parts += [] if self.offered is None else [f"allocatable {self.offered}"]
        parts += [] if self.sliced is None else [f"in ResourceSlices of {self.sliced.driver} {len(self.sliced.gpus)}"]
        # Who holds a claim is not in these numbers (plugin.in-use names those pods).
        unknown = self.holders is None or (self.sliced is not None and not self.holders)
        parts += [] if unknown else [in_use(self.holders or ())]
        tail = f"; {self._not_advertised}" if self.missing else ""
        return f"{self.resource}: {', '.join(parts) or 'not advertised'}{tail}"

    @property
    def _not_advertised(self) -> str:
        told = "is not advertised" if len(self.missing) == 1 else "are not advertised"
        reasons = [f"{one}: {self.reasons[one]}" for one in self.missing if one in self.reasons][:MISSING_LISTED]
        if len(self.missing) == 1 and reasons:
            return f"{self.missing[0]} {told}: {self.reasons[self.missing[0]]}"
        more = len(self.missing) - MISSING_LISTED
        names = ", ".join(self.missing[:MISSING_LISTED]) + (f" and {more} more" if more > 0 else "")
        return f"{names} {told}" + (f" ({'; '.join(reasons)})" if reasons else "")


def in_use(holders: tuple[Holder, ...]) -> str:
    """How many units are in use, and by which pods."""
    named = [f"{one.pod} {one.count}" for one in holders[:HOLDERS_LISTED]]
    rest = len(holders) - len(named)
    names = ", ".join([*named, *([f"and {rest} more pods"] if rest else [])])
    return f"in use {sum(one.count for one in holders)}" + (f" ({names})" if names else "")


def device_of(resource: str, unit: str) -> str | None:
    """The device that a plugin's id is of: "GPU-1c0f::3" is of GPU-1c0f. None where the id does not tell it."""
    if FAKE.fullmatch(unit):
        return None
    if match := REPLICA.fullmatch(unit):
        return device_of(resource, match[1])
    if match := OLD_MIG.fullmatch(unit):
        return match[1]
    if unit.startswith("MIG-"):
        return None
    if resource == ERDMA:  # Terway's plugin has ids of its own, which tell nothing
        match = SHARE.fullmatch(unit)
        return match[1] if match else None
    return unit


def extended(quantities: Mapping[str, str]) -> dict[str, int]:
    """The extended resources among a Node's quantities. One that is no whole number is left out."""
    names = (name for name in quantities if "/" in name and not name.partition("/")[0].endswith(NATIVE))
    counts = ((name, cluster_objects.whole(quantities[name])) for name in names)
    return {name: count for name, count in counts if count is not None}


def books(
    names: Iterable[str],
    *,
    kubelet: Kubelet | None,
    allocatable: AllocatableDevices | None = None,
    plugins: DevicePlugins | None = None,
    cluster: Cluster | None = None,
    pci: Pci | None = None,
    rdma: Rdma | None = None,
    gpus: Mapping[str, str] | None = None,
    excluded: Collection[str] = (),
    reasons: Mapping[str, str] | None = None,
    numbers: Numbers | None = None,
    slices: ResourceSlices | None = None,
) -> tuple[Book, ...]:
    """The book of each named resource and of each that somebody here tells of. None stands for what is not known.

    `gpus` are the PCI addresses of NVIDIA's GPUs by UUID, which are the ids of its plugin; None if one is not known.
    `excluded` are the addresses of those that its driver is told to leave alone. `reasons` are those of `Book`.
    """
    node = _readable(cluster, "node", KubeNode)
    capacity, offers = (extended(one) for one in ((node.capacity, node.allocatable) if node else ({}, {})))
    checkpoint = _readable(plugins, "checkpoint", Checkpoint)
    healthy = _healthy(allocatable)
    held = holders(kubelet, plugins, cluster)
    told = {*capacity, *offers, *(healthy or ()), *(held or ()), *(checkpoint.registered if checkpoint else ())}
    told |= {DRIVERS[driver] for driver in slices.drivers} if slices is not None else set()
    wanted = frozenset(names)
    known = {*wanted, *(name for name in told if "/" in name)}
    plugged = {*(healthy or ()), *(held or ()), *(checkpoint.registered if checkpoint else ())}
    stated = numbers or Numbers()

    def ids(name: str) -> tuple[str, ...] | None:
        """Of a resource that no plugin registered, the kubelet knows nothing."""
        if healthy is None or (name not in healthy and name in WRITTEN_BY_CONTROLLERS):
            return None
        return healthy.get(name, () if name in plugged or name in wanted else None)

    def book(name: str) -> Book:
        count, present = _hardware(name, pci, rdma, stated, excluded)
        units = ids(name)
        if name in stated.virtual_functions and not all(map(ADDRESS.fullmatch, units or ())):
            present = None  # a plugin of subfunctions names auxiliary devices
        if gpus and is_nvidia(name):
            present = frozenset(gpus)
        same = family(name)
        others = {one for one in known if same and family(one) == same} - {name}
        sliced = _sliced(name, slices)
        return Book(
            resource=name,
            hardware=count,
            present=present,
            registered=checkpoint.registered.get(name) if checkpoint else None,
            capacity=capacity.get(name),
            allocatable=offers.get(name),
            healthy=units,
            holders=None if held is None else held.get(name, ()),
            per_device=stated.per_device.get(name) or None,
            limit=_limit(name, node),
            addresses=gpus or {},
            reasons=reasons or {},
            is_split=bool(sliced)
            or any(capacity.get(one) or (healthy or {}).get(one) for one in others)
            or name.startswith(MIG),
            sliced=sliced,
        )

    return tuple(book(name) for name in sorted(known))


def _sliced(name: str, slices: ResourceSlices | None) -> SlicedGpus | None:
    driver = slices.serves(name) if slices is not None else ""
    return SlicedGpus(driver, slices.gpus(driver), driver not in slices.incomplete) if slices and driver else None


def holders(
    kubelet: Kubelet | None, plugins: DevicePlugins | None, cluster: Cluster | None
) -> dict[str, tuple[Holder, ...]] | None:
    """Who holds which resource: by the kubelet's list, else by its checkpoint; None where neither is known.

    A kubelet before 1.34 lists pods that have ended (kubernetes#119423), and its checkpoint keeps them. Kubernetes
    knows which have. The list has no UIDs: a pod that was remade under the name of one that ended holds devices.
    """
    pods = _readable(cluster, "pods", tuple)
    listed = _readable(kubelet, "pods", tuple)
    if listed is not None and kubelet is not None and kubelet.present:
        is_current = cluster is not None and cluster.at >= kubelet.at - ONE_LOOK_SECONDS
        ended = {pod.where for pod in pods or () if pod.finished and (is_current or _is_named_once(pod))}
        return _of_list(listed, ended)
    checkpoint = _readable(plugins, "checkpoint", Checkpoint)
    return None if checkpoint is None else _of_checkpoint(checkpoint, pods)


def _is_named_once(pod: Pod) -> bool:
    """Whether its controller gives each pod a name of its own. Operators of jobs and StatefulSets use a name again."""
    return pod.owner is not None and pod.owner.kind in NAMING_ANEW


def _of_list(listed: tuple[PodDevices, ...], ended: Collection[str]) -> dict[str, tuple[Holder, ...]]:
    counts: dict[str, Counter[str]] = {}
    for pod in listed:
        for devices in (devices for one in pod.containers for devices in one.devices if pod.where not in ended):
            counts.setdefault(devices.resource, Counter())[pod.where] += len(devices.ids)
    return _sorted(counts)


def _of_checkpoint(checkpoint: Checkpoint, pods: tuple[Pod, ...] | None) -> dict[str, tuple[Holder, ...]]:
    """Without Kubernetes every entry counts: a pod that may have ended is held for one that runs."""
    alive = {pod.uid: pod.where for pod in pods or () if not pod.finished}
    counts: dict[str, Counter[str]] = {}
    for entry in checkpoint.entries:
        name = alive.get(entry.pod_uid, "") if pods is not None else f"pod {entry.pod_uid}"
        if name:
            counts.setdefault(entry.resource, Counter())[name] += sum(map(len, entry.devices.values()))
    return _sorted(counts)


def _sorted(counts: Mapping[str, Counter[str]]) -> dict[str, tuple[Holder, ...]]:
    return {name: tuple(Holder(pod, count) for pod, count in sorted(of.items())) for name, of in counts.items()}


def _healthy(allocatable: AllocatableDevices | None) -> dict[str, tuple[str, ...]] | None:
    """The healthy ids by resource, as the kubelet says now; None where it does not say."""
    devices = _readable(allocatable, "devices", tuple)
    if devices is None or allocatable is None or not allocatable.present:
        return None
    found: dict[str, set[str]] = {}
    for one in devices:
        found.setdefault(one.resource, set()).update(one.ids)
    return {name: tuple(sorted(ids)) for name, ids in found.items()}


def _hardware(
    name: str, pci: Pci | None, rdma: Rdma | None, numbers: Numbers, excluded: Collection[str]
) -> tuple[int | None, frozenset[str] | None]:
    """How many devices can serve a resource, and their names where the plugin's ids are names of devices."""
    pci = None if pci is None or pci.hidden else pci  # of what is excluded nobody knows what it is
    rdma = None if rdma is None or rdma.hidden else rdma
    if name in numbers.virtual_functions and pci is not None:
        ids = numbers.virtual_functions[name]
        found = frozenset(one.address for one in pci.nics if one.virtual_function and _id(one) in ids)
        return len(found), found
    if is_nvidia(name) and pci is not None:
        usable = (gpu for gpu in pci.gpus if gpu.address not in excluded and _can_serve(gpu, pci))
        return sum(_id(gpu).startswith(NVIDIA) for gpu in usable), None
    if name == AMD_GPU and pci is not None:
        count = sum(_id(gpu).startswith(AMD) and _can_serve(gpu, pci) for gpu in pci.gpus)
        # Where none of its accelerators is here, one of its other display controllers may serve.
        displays = any(_id(one).startswith(AMD) for one in pci.devices if not one.is_nic)
        return None if displays and not count else count, None
    if rdma is None:
        return None, None
    if name in (ERDMA, EFA):
        prefix = erdma.VENDOR_DEVICE if name == ERDMA else EFA_ID
        if any(not _id(one) and one.parent is None for one in rdma.devices):
            return None, None  # a device whose id is not shown may be one of them
        found = frozenset(one.name for one in rdma.devices if _id(one).startswith(prefix))
        return len(found), found if name == ERDMA else None
    return (len(rdma.devices), None) if name.startswith(RDMA) else (None, None)


def _can_serve(gpu: PciDevice, pci: Pci) -> bool:
    """Whether containers can use it: it answers, its driver has it, and no virtual machine does."""
    driver = raw(gpu)["driver"]
    return raw(gpu)["answers"] is not False and driver != VFIO and (driver is not None or not pci.drivers_shown)


def is_nvidia(name: str) -> bool:
    """Whether a resource is of NVIDIA's GPUs: whole ones, shares of them or MIG devices."""
    return name.removesuffix(SHARED) == GPU or name.startswith(MIG)


def is_of_gpus(name: str) -> bool:
    return is_nvidia(name) or name == AMD_GPU


def family(name: str) -> str:
    """What the resources have in common that offer the same devices; "" where nobody knows."""
    return GPU if is_nvidia(name) else RDMA if name.startswith(RDMA) else ""


def _limit(name: str, node: KubeNode | None) -> int | None:
    """ENIs that the instance type allows beside the primary one (Terway pkg/aliyun/client/limit.go)."""
    if node is None or name not in (ENI, MEMBER_ENI):
        return None
    own, total = node.limit("EniQuantity"), node.limit("EniTotalQuantity")
    if name == ENI:
        return None if own is None else max(0, own - 1)
    return None if own is None or total is None else max(0, total - own)


def _id(thing: Shown) -> str:
    """Vendor and device, "" where they are not shown."""
    known = raw(thing)["id"]
    return known if isinstance(known, str) else ""


def _readable(thing: Shown | None, name: str, kind: type[T]) -> T | None:
    """A field's value; None where there is no such thing, or the field could not be read."""
    value = None if thing is None else raw(thing)[name]
    return None if isinstance(value, Unreadable) or not isinstance(value, kind) else value
