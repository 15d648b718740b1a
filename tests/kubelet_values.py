"""Builders for tests: a kubelet's answers as values and as bytes, and what it leaves in its directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nodeprep.facts.kubernetes import cri_containers
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.container_runtime import ContainerRuntime, RuntimeCondition
from nodeprep.facts.kubernetes.cri_containers import RunningContainer
from nodeprep.facts.kubernetes.device_plugins import DevicePlugins, PluginSocket
from nodeprep.facts.kubernetes.kubelet import Healthz, Kubelet
from nodeprep.facts.kubernetes.pod_resources import ContainerDevices, PluginDevices, PodDevices

GPU = "nvidia.com/gpu"
FINE = Healthz(200, ())


def kubelet(**different: Any) -> Kubelet:
    """A kubelet that answers on its port and its socket since an hour, with one pod that holds a GPU."""
    held = ContainerDevices("train", (PluginDevices(GPU, ("GPU-1",), (0,)),), 0)
    usual: dict[str, Any] = {
        "at": 4000.0,
        "present": True,
        "started": 400.0,
        "healthz": FINE,
        "pods": (PodDevices("jobs", "worker-0", (held,)),),
    }
    return Kubelet(**(usual | different))


def allocatable(ids: Mapping[str, Iterable[str]]) -> AllocatableDevices:
    """The kubelet's healthy devices, by resource."""
    return AllocatableDevices(4000.0, True, tuple(PluginDevices(name, tuple(own), ()) for name, own in ids.items()))


def holding(where: str, resource: str, *ids: str, claims: int = 0) -> PodDevices:
    """A pod, by namespace/name, that holds these devices in one container."""
    namespace, _, name = where.partition("/")
    devices = (PluginDevices(resource, ids, ()),) if ids else ()
    return PodDevices(namespace, name, (ContainerDevices("train", devices, claims),))


def plugins(*sockets: PluginSocket, **different: Any) -> DevicePlugins:
    """The kubelet's directory of plugins: its own socket, these, and no checkpoint."""
    own = PluginSocket("kubelet.sock", None, 1.7e9)
    usual: dict[str, Any] = {"at": 4000.0, "present": True, "sockets": (own, *sockets), "checkpoint": None}
    return DevicePlugins(**(usual | different))


def socket(name: str, errno: int | None = None) -> PluginSocket:
    """A plugin's socket; `errno` is None where somebody listens."""
    return PluginSocket(name, errno, 1.7e9)


def runtime(*conditions: RuntimeCondition, **different: Any) -> ContainerRuntime:
    """containerd that is ready, or in these conditions."""
    ready = (RuntimeCondition("RuntimeReady", True, "", ""), RuntimeCondition("NetworkReady", True, "", ""))
    usual: dict[str, Any] = {
        "at": 4000.0,
        "asked": True,
        "socket": "/run/containerd/containerd.sock",
        "conditions": conditions or ready,
    }
    return ContainerRuntime(**(usual | different))


def varint(number: int) -> bytes:
    """A number as protobuf writes it; a negative one in 64 bits."""
    number &= (1 << 64) - 1
    found = b""
    while number > 0x7F:
        found += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return found + bytes((number,))


def field(number: int, value: int | str | bytes) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def plugin_devices(resource: str, ids: Iterable[str], *numa: int) -> bytes:
    """A ContainerDevices; protobuf leaves a 0 out."""
    topology = message(*((1, message((1, node)) if node else b"") for node in numa))
    return message((1, resource), *((2, one) for one in ids), *(((3, topology),) if numa else ()))


def pod_devices(namespace: str, name: str, *containers: bytes) -> bytes:
    return message((1, name), (2, namespace), *((3, one) for one in containers))


def container(name: str, *devices: bytes, claims: int = 0) -> bytes:
    """A ContainerResources with CPUs and memory, which nobody asks for."""
    memory = message((1, "memory"), (2, 1 << 30), (3, message((1, b""))))
    claim = message((2, "claim"), (3, "jobs"), (4, message((2, "gpu.nvidia.com"), (3, "pool"), (4, "gpu-0"))))
    held = ((2, one) for one in devices)
    return message((1, name), *held, (3, b"\0\1\2\3"), (4, memory), *((5, claim),) * claims)


def answer(*parts: bytes) -> bytes:
    """A ListPodResourcesResponse of pods, or an AllocatableResourcesResponse of devices."""
    return message(*((1, part) for part in parts))


def runtime_condition(kind: str, holds: bool, reason: str = "", said: str = "") -> bytes:
    return message((1, kind), *(((2, 1),) if holds else ()), (3, reason), (4, said))


def runtime_status(*conditions: bytes) -> bytes:
    """A StatusResponse of a container runtime, with parts that nobody asks for."""
    return message((1, message(*((1, one) for one in conditions))), (2, b"\x0a\1k"), (3, message((1, "runc"))))


def slice_object(
    *devices: Mapping[str, Any],
    driver: str = "gpu.nvidia.com",
    pool: str = "node-1",
    generation: int = 1,
    count: int = 1,
) -> dict[str, Any]:
    """A ResourceSlice as the API server gives it."""
    counts = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return {"spec": {"driver": driver, "nodeName": "node-1", "pool": counts, "devices": list(devices)}}


def slice_device(name: str, *effects: str, **attributes: str) -> dict[str, Any]:
    """A device of a ResourceSlice with taints of these effects."""
    taints = [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": one} for one in effects]
    told = {key.replace("__", "/"): {"string": value} for key, value in attributes.items()}
    return {"name": name, "attributes": told} | ({"taints": taints} if taints else {})


def cri_container(one: RunningContainer) -> bytes:
    """A Container of a ListContainersResponse, as the kubelet labels it."""
    labels = {
        cri_containers.NAMESPACE: one.namespace,
        cri_containers.POD: one.pod,
        cri_containers.POD_UID: one.pod_uid,
        cri_containers.CONTAINER: one.name,
    }
    entries = ((8, message((1, key.encode()), (2, value.encode()))) for key, value in labels.items())
    return message((1, one.id.encode()), (2, one.sandbox.encode()), (6, 1), *entries)
