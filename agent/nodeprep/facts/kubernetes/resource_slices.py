"""The GPUs that a driver of dynamic resource allocation (DRA) offers here: by ResourceSlices instead of a plugin.

Where such a driver serves a node, the Node has no `nvidia.com/gpu`, and nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.facts.kubernetes.cluster_objects import Object, OddObject
from nodeprep.facts.machine.pci import ADDRESS
from nodeprep.model import Fact, Shown, Unreadable, shown

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

GROUP = "resource.k8s.io/v1"  # Kubernetes 1.34. An older server has none of it, and so no slices.
MANIFEST = "daemonset/components/dra"
# The drivers of GPUs, and the resource that a plugin would offer instead (kubernetes-sigs/dra-driver-nvidia-gpu and
# ROCm/k8s-gpu-dra-driver). NVIDIA's compute domains have another one, and offer no GPU.
DRIVERS = {"gpu.nvidia.com": "nvidia.com/gpu", "gpu.amd.com": "amd.com/gpu"}
MODULES = ("nvidia", "amdgpu")  # without its kernel module no driver offers anything
FOR_MACHINES = "vfio"  # type of a device that is the same GPU once more, for virtual machines
UUID = "GPU-"  # how NVIDIA's begin
KEEPS_AWAY = ("NoSchedule", "NoExecute")  # effects of a device's taint
PCI_BUS_ID = "resource.kubernetes.io/pciBusID"  # k8s.io/dynamic-resource-allocation/deviceattribute


@shown
class SliceDevice(Shown):
    """A device of a slice. `gpu` names the GPU that it is or is a part of: by UUID, PCI address or its own name.

    `is_tainted` is whether a taint of the device keeps pods away.
    """

    driver: str
    gpu: str
    is_tainted: bool


@shown
class ResourceSlices(Shown):
    """The devices of all drivers in DRIVERS on this node, of the newest generation of each pool.

    `drivers` are those that have a slice here, also an empty one. `incomplete` are those of which slices are still to
    come. `asked` is False on a node without a GPU's kernel module.
    """

    at: float
    asked: bool
    drivers: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    devices: tuple[SliceDevice, ...] = ()

    def serves(self, resource: str) -> str:
        """The driver that offers what a plugin would offer as this resource; "" if none does."""
        return next((one for one in self.drivers if DRIVERS[one] == resource), "")

    def gpus(self, driver: str) -> frozenset[str]:
        """The GPUs that pods can get from this driver."""
        return frozenset(one.gpu for one in self.devices if one.driver == driver and not one.is_tainted)


def observe(host: Host) -> ResourceSlices | Unreadable:
    """One request, and only on nodes with a GPU."""
    if not has_gpu_module(host.files):
        return ResourceSlices(host.now(), asked=False)
    api = host.kubernetes()
    if isinstance(api, Unreadable):
        return api
    with api:
        told = api.list(GROUP, "resourceslices", fieldSelector=f"spec.nodeName={api.node}", resourceVersion="0")
        if isinstance(told, Unreadable):
            return told
        return cluster_objects.understood(f"ResourceSlices of {api.node}", lambda: slices(told, host.now()))


def has_gpu_module(files: Files) -> bool:
    return any(files.exists(f"/sys/module/{name}") for name in MODULES)


def slices(told: Iterable[Object], at: float) -> ResourceSlices:
    """What the objects say. Raises OddObject where one does not follow its schema."""
    pools: dict[tuple[str, str], list[Object]] = {}
    for one in told:
        driver = cluster_objects.field(one, str, "spec", "driver")
        if driver in DRIVERS:
            pools.setdefault((driver, cluster_objects.field(one, str, "spec", "pool", "name")), []).append(one)
    # While a driver replaces the slices of a pool, those of the generation before are still there.
    newest = {
        pool: [one for one in own if _generation(one) == max(map(_generation, own))] for pool, own in pools.items()
    }
    short = {
        driver
        for (driver, _), own in newest.items()
        if len(own) < cluster_objects.field(own[0], int, "spec", "pool", "resourceSliceCount")
    }
    devices = (
        _device(driver, device)
        for (driver, _), own in newest.items()
        for one in own
        for device in cluster_objects.field(one, list, "spec", "devices")
        if _attribute(device, driver, "type") != FOR_MACHINES
    )
    found = sorted(devices, key=lambda one: (one.driver, one.gpu, one.is_tainted))
    return ResourceSlices(at, True, tuple(sorted({driver for driver, _ in pools})), tuple(sorted(short)), tuple(found))


def _generation(told: Object) -> int:
    return cluster_objects.field(told, int, "spec", "pool", "generation")


def _device(driver: str, told: object) -> SliceDevice:
    name = cluster_objects.field(told, str, "name")
    if not name:
        raise OddObject("a device has no .name")
    address = _attribute(told, driver, PCI_BUS_ID) or _attribute(told, driver, "pciAddr")  # the latter is AMD's
    parts = (_attribute(told, driver, "parentUUID"), _attribute(told, driver, "uuid"))
    gpu = next(filter(None, parts), address if ADDRESS.fullmatch(address) else name)
    taints = cluster_objects.field(told, list, "taints")
    return SliceDevice(driver, gpu, any(cluster_objects.field(one, str, "effect") in KEEPS_AWAY for one in taints))


def _attribute(told: object, driver: str, name: str) -> str:
    """A text among the attributes: a name without a domain is in the driver's own."""
    attributes = cluster_objects.field(told, dict, "attributes")
    found = (cluster_objects.field(attributes, str, one, "string") for one in (name, f"{driver}/{name}"))
    return next(filter(None, found), "")


FACT = Fact(ResourceSlices, observe, every=900.0, deadline=5.0, live=True, rest=15.0)
