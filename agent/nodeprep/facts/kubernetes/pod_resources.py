"""The messages of the kubelet's PodResources API (v1), as far as they are about devices.

k8s.io/kubelet pkg/apis/podresources/v1/api.proto. CPUs and memory are skipped. The kubelet walks through Go maps, so
the same answer comes in another order each time: here everything is sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from nodeprep.facts.kubernetes import protobuf
from nodeprep.model import Shown, shown

SERVICE = "/v1.PodResourcesLister"
LIST, ALLOCATABLE = f"{SERVICE}/List", f"{SERVICE}/GetAllocatableResources"
# Numbers of fields.
PODS, DEVICES = 1, 1  # of the two answers
POD_NAME, POD_NAMESPACE, POD_CONTAINERS = 1, 2, 3
CONTAINER_NAME, CONTAINER_DEVICES, CONTAINER_CLAIMS = 1, 2, 5
DEVICE_RESOURCE, DEVICE_IDS, DEVICE_TOPOLOGY = 1, 2, 3
TOPOLOGY_NODES, NODE_ID = 1, 1
KEPT_PODS = 256  # GKE's and EKS's limits of a node are below
KEPT_MESSAGES = 2048  # a plugin for shared devices advertises a thousand; each message has some 40 bytes


@shown
class PluginDevices(Shown):
    """Devices of one resource on the same NUMA nodes, by the ids that the plugin gave them.

    `numa` is empty where the plugin tells no node. An id may be a GPU's UUID, a PCI address or a mere number.
    """

    resource: str
    ids: tuple[str, ...]
    numa: tuple[int, ...]


@shown
class ContainerDevices(Shown):
    """What a container holds. `claims` counts its devices of dynamic resource allocation, which have no ids here."""

    container: str
    devices: tuple[PluginDevices, ...]
    claims: int


@shown
class PodDevices(Shown):
    """A pod with at least one container that holds devices."""

    namespace: str
    name: str
    containers: tuple[ContainerDevices, ...]

    @property
    def where(self) -> str:
        return f"{self.namespace}/{self.name}"


def pods(answer: bytes) -> tuple[PodDevices, ...]:
    """The pods of a ListPodResourcesResponse that hold devices. Raises NotProtobuf."""
    found = (_pod(one) for one in protobuf.parts(answer, PODS))
    return tuple(sorted((one for one in found if one.containers), key=lambda one: (one.namespace, one.name)))


def devices(answer: bytes) -> tuple[PluginDevices, ...]:
    """The healthy devices of an AllocatableResourcesResponse. Raises NotProtobuf."""
    return _grouped(protobuf.parts(answer, DEVICES))


@lru_cache(KEPT_PODS)
def _pod(message: bytes) -> PodDevices:
    """Most pods hold nothing, and their messages are the same in each look."""
    name = namespace = ""
    containers: list[ContainerDevices] = []
    for number, value in protobuf.fields(message):
        if number == POD_NAME:
            name = protobuf.text(value, number)
        elif number == POD_NAMESPACE:
            namespace = protobuf.text(value, number)
        elif number == POD_CONTAINERS:
            containers.append(_container(protobuf.part(value, number)))
    return PodDevices(namespace, name, tuple(one for one in containers if one.devices or one.claims))


def _container(message: bytes) -> ContainerDevices:
    name, claims = "", 0
    held: list[bytes] = []
    for number, value in protobuf.fields(message):
        if number == CONTAINER_NAME:
            name = protobuf.text(value, number)
        elif number == CONTAINER_DEVICES:
            held.append(protobuf.part(value, number))
        elif number == CONTAINER_CLAIMS:
            claims += 1
    return ContainerDevices(name, _grouped(held), claims)


def _grouped(messages: Iterable[bytes]) -> tuple[PluginDevices, ...]:
    """The devices by resource and NUMA nodes: the kubelet sends a message for each device."""
    ids: dict[tuple[str, tuple[int, ...]], set[str]] = {}
    for message in messages:
        resource, numa, own = _devices(message)
        if own:
            ids.setdefault((resource, numa), set()).update(own)
    return tuple(PluginDevices(resource, tuple(sorted(own)), numa) for (resource, numa), own in sorted(ids.items()))


@lru_cache(KEPT_MESSAGES)
def _devices(message: bytes) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    """Resource, NUMA nodes and ids of a ContainerDevices. The messages of a look are those of the look before."""
    resource = ""
    numa: tuple[int, ...] = ()
    ids: list[str] = []
    for number, value in protobuf.fields(message):
        if number == DEVICE_RESOURCE:
            resource = protobuf.text(value, number)
        elif number == DEVICE_IDS:
            ids.append(protobuf.text(value, number))
        elif number == DEVICE_TOPOLOGY:
            numa = tuple(sorted(_nodes(protobuf.part(value, number))))
    return resource, numa, tuple(ids)


def _nodes(topology: bytes) -> Iterator[int]:
    for node in protobuf.parts(topology, TOPOLOGY_NODES):
        found = 0  # protobuf does not send a 0
        for number, value in protobuf.fields(node):
            if number == NODE_ID:
                found = protobuf.signed(protobuf.whole(value, number))
        yield found
