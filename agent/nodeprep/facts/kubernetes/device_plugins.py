"""What device plugins leave with the kubelet: their sockets, and its checkpoint of who holds which device.

The directory has the kubelet's registration socket. Whoever may connect to that one registers plugins in others' names
(docs/adr/0022), so the agent's pod does not mount it. In a cluster `nodeprep kubelet-books` looks at the directory, in
a pod of its own without rights, and the agent reads its report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodeprep.facts.pod_report import PodReport
from nodeprep.model import Fact, Shown, Topic, Unreadable, Why, guarded, not_recorded, shown
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

DIRECTORY = "/var/lib/kubelet/device-plugins"
CHECKPOINT = f"{DIRECTORY}/kubelet_internal_checkpoint"
REGISTRATION = "kubelet.sock"
SUFFIX = ".sock"
MANIFEST = "daemonset/components/kubelet-books"
REPORT_DIRECTORY, REPORT_NAME = "/run/nodeprep-kubelet-books", "books.json"
REPORT = f"{REPORT_DIRECTORY}/{REPORT_NAME}"
REPORT_SECONDS = 10.0  # seconds between two reports, as between two looks at the kubelet's devices
REPORT_BYTES = 1 << 20  # 8 NICs with a thousand shares each have 200 KiB, registered and held
CHECKPOINT_BYTES = 16 << 20  # with an AllocResp of some hundred bytes for each container
CONNECT_SECONDS = 1.0  # for all sockets together
WORDS = 120  # characters of what is wrong with a checkpoint
SOCKETS = 64  # that are connected to
NUMBER = Pattern(r"-?[0-9]{1,10}")


@shown
class PluginSocket(Shown):
    """A socket in the directory. `errno` is None where somebody accepted a connection, which was closed at once.

    `made` is when it was made, in seconds since 1970.
    """

    name: str
    errno: int | None
    made: float


@shown
class CheckpointEntry(Shown):
    """Devices of one resource that a container holds or held, by NUMA node; -1 where the kubelet did not know one.

    The pod is named by its UID. The entry of a pod that has ended stays until the kubelet writes the file again.
    """

    pod_uid: str
    container: str
    resource: str
    devices: Mapping[str, tuple[str, ...]]


@shown
class Checkpoint(Shown):
    """The kubelet's checkpoint, without what it told containers (AllocResp: their environment and mounts).

    `registered` are the healthy devices of each resource when the file was written. It is written at allocations, so
    it may be old: `made` is when, in seconds since 1970.
    """

    made: float
    entries: tuple[CheckpointEntry, ...]
    registered: Mapping[str, tuple[str, ...]]


@shown
class DevicePlugins(Shown):
    """`present` is whether the kubelet's directory of plugins is there.

    `sockets` are None in a dead tree. `checkpoint` is None where the kubelet has not written one.
    """

    at: float
    present: bool
    sockets: tuple[PluginSocket, ...] | None
    checkpoint: Checkpoint | None


def observe(host: Host) -> DevicePlugins | Unreadable:
    files = host.files
    names = files.names(DIRECTORY)
    if names is None and host.live and not files.shows_processes:
        return REPORTED.read(host)
    if names is None:
        return DevicePlugins(host.now(), False, (), None) if host.live else not_recorded(DIRECTORY)
    if isinstance(names, Unreadable):
        return names
    return DevicePlugins(
        at=host.now(),
        present=True,
        sockets=guarded(_sockets(host, names)) if host.live else None,
        checkpoint=guarded(checkpoint(host)),
    )


def _sockets(host: Host, names: tuple[str, ...]) -> tuple[PluginSocket, ...] | Unreadable:
    found = [name for name in names if name.endswith(SUFFIX)]
    if len(found) > SOCKETS:
        return Unreadable(Why.MALFORMED, DIRECTORY, detail=f"{len(found)} sockets, wanted at most {SOCKETS}")
    sockets = []
    until = host.now() + CONNECT_SECONDS
    for name in found:
        made = host.files.modified(f"{DIRECTORY}/{name}")
        if made is None:
            continue
        answer = host.connects(f"{DIRECTORY}/{name}", max(until - host.now(), 0.01))
        sockets.append(PluginSocket(name, guarded(answer), guarded(made)))
    return tuple(sockets)


def checkpoint(host: Host) -> Checkpoint | None | Unreadable:
    """The kubelet's checkpoint by itself; None where it has not written one."""
    text = host.files.text(CHECKPOINT, CHECKPOINT_BYTES)
    if not isinstance(text, str):
        return text
    made = host.files.modified(CHECKPOINT) or 0.0
    try:
        return _read(json.loads(text), made)
    except (ValueError, RecursionError) as error:  # an OddCheckpoint is a ValueError, as what is no JSON
        return Unreadable(Why.MALFORMED, CHECKPOINT, detail=str(error)[:WORDS])


class OddCheckpoint(ValueError):
    """A checkpoint of another shape than the kubelet's; the text names the field and never its value."""


def _read(given: object, made: float | Unreadable) -> Checkpoint:
    """pkg/kubelet/cm/devicemanager/checkpoint: Go writes null for an empty list. Its checksum is of a Go struct."""
    data = _of(dict, given, "Data")
    registered = _of(dict, data, "RegisteredDevices")
    return Checkpoint(
        made=guarded(made),
        entries=tuple(_entry(one) for one in _of(list, data, "PodDeviceEntries")),
        registered={resource: _ids(registered, resource) for resource in registered},
    )


def _entry(given: object) -> CheckpointEntry:
    """An entry; before Kubernetes 1.20 its ids are a flat list."""
    devices = given.get("DeviceIDs") if isinstance(given, dict) else None
    if isinstance(devices, list):
        by_node = {"-1": _ids(given, "DeviceIDs")}
    else:
        nodes = _of(dict, given, "DeviceIDs")
        if not all(NUMBER.fullmatch(node) for node in nodes):
            raise OddCheckpoint("DeviceIDs has a key that is no NUMA node")
        by_node = {node: _ids(nodes, node) for node in nodes}
    uid, container, resource = (_of(str, given, key) for key in ("PodUID", "ContainerName", "ResourceName"))
    return CheckpointEntry(uid, container, resource, by_node)


def _ids(given: object, key: str) -> tuple[str, ...]:
    found = _of(list, given, key)
    if not all(isinstance(one, str) for one in found):
        raise OddCheckpoint("a device's id is no text")
    return tuple(sorted(found))


def _of(kind: type[Any], given: object, key: str) -> Any:
    """The value at a key; the empty one of its kind where there is none. Raises OddCheckpoint for another kind."""
    if not isinstance(given, dict):
        raise OddCheckpoint(f"above {key} is no object")
    found = given.get(key)
    if found is None:
        return kind()
    if not isinstance(found, kind):
        raise OddCheckpoint(f"{key[:40]!r} is no {kind.__name__}")
    return found


REPORTED = PodReport(DevicePlugins, REPORT, REPORT_SECONDS, REPORT_BYTES, instead=DIRECTORY, manifest=MANIFEST)
FACT = Fact(DevicePlugins, observe, woken_by=frozenset({Topic.DEVICE}))
