"""Are the devices that Kubernetes advertises those that the node has and that work?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from nodeprep.checks.plugin import advertised, gaps
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.kubernetes import device_books
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.kubernetes.device_books import Book, Numbers
from nodeprep.facts.kubernetes.device_plugins import DevicePlugins
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.facts.kubernetes.resource_slices import ResourceSlices
from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict
from nodeprep.values import Value, field


class Want(Value):
    """How the operator's plugins are set up. Where their ids tell the devices, nothing needs to be stated."""

    per_device: Annotated[
        Mapping[str, int],
        "units of a resource that each device gives, by resource: 200 of aliyun/erdma (erdma-controller), the "
        "replicas of time slicing",
    ] = field(default_factory=dict)
    virtual_functions: Annotated[
        Mapping[str, tuple[str, ...]],
        "vendor:device ids of the virtual functions that an SR-IOV plugin advertises, by resource",
    ] = field(default_factory=dict)


def judge(seen: Seen) -> Iterator[Verdict]:
    if not seen[Kubelet].present:
        return
    numbers = Numbers(seen[Want].per_device, seen[Want].virtual_functions)
    found = advertised.books(seen, (name for name, count in seen[Expected].resources.items() if count), numbers)
    yield from seen.each(found, lambda book: verdict(book, seen), advertised.subject)


def verdict(book: Book, seen: Seen) -> Verdict | None:
    wanted = seen[Expected].resources.get(book.resource, 0)
    offered, total = book.offered, book.total
    if book.count_dead:
        return gaps.advertised_but_dead(book, book.dead, f"{book.devices_offered or book.offered}")
    if not total and book.sliced is not None:
        return gaps.in_slices(book, book.sliced, seen)
    if not total:
        return nothing_left(book, seen) if wanted else None  # a resource of former times stays with 0
    if not offered:
        excuse = advertised.excuse(seen, book)
        message = f"{book.line}: all of its devices are unhealthy, or its plugin has just died"
        remedy = (
            None if device_books.is_of_gpus(book.resource) else advertised.remedy("plugin_restart", seen, book.resource)
        )
        return excuse or gaps.fault(book, seen, "NoneHealthy", message, remedy=remedy)
    if offered < total:
        return gaps.fault(book, seen, "SomeUnhealthy", f"{book.line}: {total - offered} unhealthy")
    if book.hidden:
        message = f"{book.line}: {book.hidden} of {book.hardware} on this node are not advertised"
        return gaps.fault(book, seen, "AliveNotAdvertised", message)
    if offered < wanted:
        return gaps.fault(book, seen, "TooFew", book.line)
    if book.limit is not None and offered > book.limit:
        message = f"{book.line}: the instance type allows {book.limit}, and a pod that gets another waits for ever"
        return Verdict(
            advertised.subject(book), Status.WARN, "MoreThanAllowed", message, None, f"{offered}", f"{book.limit}"
        )
    is_shared = book.hardware is not None and offered > book.hardware
    return Verdict(advertised.subject(book), Status.OK, "Shared" if is_shared else "All", book.line)


def nothing_left(book: Book, seen: Seen) -> Verdict:
    """A resource that is expected, and absent or 0."""
    _ = seen[Cluster]  # raises CannotLook: the kubelet does not tell a plugin that is gone from one that never was
    excuse = advertised.excuse(seen, book)
    if excuse is not None:
        return excuse
    alive = f"; {book.hardware} on this node could serve it" if book.hardware else ""
    alive += advertised.about_slices(seen, book)
    if book.capacity is None:
        return gaps.fault(book, seen, "NotAdvertised", f"{book.line}{alive}")
    message = f"{book.line}: its plugin is gone or sees no device{alive}"
    remedy = advertised.remedy("plugin_restart", seen, book.resource) if is_of_plugin(book, seen) else None
    return gaps.fault(book, seen, "NothingLeft", message, remedy=remedy)


def is_of_plugin(book: Book, seen: Seen) -> bool:
    """Whether the plugin may be the reason: nothing is known against the devices themselves."""
    if book.hardware == 0:
        return False  # a plugin without a device has nothing to register
    return not device_books.is_of_gpus(book.resource) or not (book.reasons or seen[Expected].missing_gpus)


BOTH = (Status.FAIL, Status.WARN)
HEALTH = (
    "Look for the reason before you restart anything: dmesg | grep -e Xid -e mlx5; nodeprep check --only "
    "'gpu.*,port.*'. A restarted plugin calls every device healthy again."
)
CHECK = Check(
    id="plugin.allocatable",
    question="Are the devices that Kubernetes advertises those that the node has and that work?",
    why="The scheduler believes what is advertised. Many plugins call a device healthy for ever, so a job is placed on "
    "one that is gone, and dies; and a good device that is not advertised earns nothing.",
    fix="kubectl describe node, and the log of the plugin's pod.",
    reasons=(
        Reason("All", Status.OK),
        Reason("Shared", Status.OK),
        Reason("InResourceSlices", Status.OK),
        Reason("HeldByGate", Status.OK),
        Reason("Starting", Status.UNKNOWN),
        Reason("NotAdvertised", Status.FAIL),
        Reason("NothingLeft", Status.FAIL, "Restart the plugin's pod (kubectl delete pod); its log says why it went."),
        *(Reason("NoneHealthy", status, HEALTH) for status in BOTH),
        *(Reason("SomeUnhealthy", status, HEALTH) for status in BOTH),
        *(
            Reason(
                "AliveNotAdvertised",
                status,
                "The log of the plugin's pod says which devices it found, and by which rule it left one out.",
            )
            for status in BOTH
        ),
        *(
            Reason(
                "FewerInSlices",
                status,
                "kubectl get resourceslices (column NODE), and the log of the driver's kubelet plugin.",
            )
            for status in BOTH
        ),
        Reason(
            "MoreThanAllowed",
            Status.WARN,
            "kubectl describe node: does alibabacloud.com/instance-type-info fit the label "
            "node.kubernetes.io/instance-type? Restart Terway's pod if it does not.",
        ),
        Reason("TooFew", Status.FAIL, "If the node is right, capture its profile again, or set expect.resources."),
        Reason(
            "AdvertisedButDead",
            Status.FAIL,
            "kubectl cordon the node: its plugin calls devices healthy that are gone. Then nodeprep check --only "
            "'pci.*,rdma.*,erdma.*' says which.",
        ),
    ),
    source="kubernetes pkg/kubelet/cm/devicemanager/manager.go; NVIDIA k8s-device-plugin internal/plugin/server.go; "
    "terway deviceplugin/eni.go (Healthy for ever)",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Kubelet, AllocatableDevices, Cluster, Pci, Rdma, Expected),
    uses=(DevicePlugins, GpuDriver, KernelLog, ResourceSlices),
    after=("plugin.registered", "gpu.driver", "port.present"),
    remedies=("plugin_restart",),
    want=Want,
    judge=judge,
)
