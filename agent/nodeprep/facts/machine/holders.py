"""Which processes have device nodes of RDMA, GPUs and VFIO open, by a walk through /proc.

Only `check -o wide` and the idle proof ask.

What cannot be seen is told, never left out: who repairs a node takes any doubt for "in use". A process that only maps
a device is not seen: a library that maps one keeps it open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nodeprep.facts.machine import processes
from nodeprep.facts.machine.processes import PROC
from nodeprep.model import Unreadable, Why
from nodeprep.pattern import Pattern
from nodeprep.values import Value, field

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

# drivers/infiniband/core (uverbs, umad, issm, ucma), NVIDIA's and AMD's drivers.
NODE = Pattern(
    r"/dev/(infiniband/(uverbs|umad|issm)\d+|infiniband/rdma_cm|nvidia(\d+|ctl|-uvm|-uvm-tools|-nvswitch\w+)|"
    r"nvidia-caps/\S+|kfd|dri/renderD\d+)( \(deleted\))?"
)
RDMA_NODE = Pattern(r"/dev/infiniband/.*")
CHARACTER_DEVICES, MISC_DEVICES = "/proc/devices", "/proc/misc"
DEVICE_LINE = Pattern(r"\s*(\d+) (\S+)")
# The names by which drivers register their device numbers (uverbs_main.c, user_mad.c, ucma.c; NVIDIA, AMD).
RDMA_REGISTERED = Pattern(r"infiniband_\w+|rdma_cm")
GPU_REGISTERED = Pattern(r"nvidia.*|kfd")
VFIO_REGISTERED = Pattern(r"vfio(-dev)?")  # functions that a virtual machine or DPDK drives (drivers/vfio)
MISC_MAJOR = 10
NODE_CLASSES = ("/sys/class/infiniband_verbs", "/sys/class/infiniband_mad")
NUMBER = Pattern(r"(\d+):(\d+)")
VFIO_GROUPS, VFIO_DEVICES, IOMMU_GROUPS = "/sys/class/vfio", "/sys/class/vfio-dev", "/sys/kernel/iommu_groups"
RDMA, GPU, VFIO = "RDMA", "GPU", "VFIO"
DeviceNumber = tuple[int, int | None]  # None stands for every minor


class NodeHolder(Value):
    """A process that has a device node open. `command` is its name in the kernel, of 15 characters.

    `family` is RDMA, GPU or VFIO. `device` is the RDMA device that the node is of, or the PCI addresses of a group of
    VFIO; "" where it is of none alone (rdma_cm), or nobody knows.
    """

    node: str
    pid: int
    command: str
    family: str = ""
    device: str = ""


class NodeHolders(Value):
    """Who holds which device node. `unseen` counts processes whose open files this user may not see.

    `families` are those of which this kernel has device numbers. `is_whole` is whether processes of all PID namespaces
    are shown here.
    """

    found: tuple[NodeHolder, ...]
    unseen: int
    families: tuple[str, ...] = ()
    is_whole: bool = True


class NodeNumbers(Value):
    """The families of device numbers, and the device of those that are of one (`NodeHolder.device`)."""

    families: dict[DeviceNumber, str] = field(default_factory=dict)
    devices: dict[DeviceNumber, str] = field(default_factory=dict)

    def family(self, number: DeviceNumber) -> str:
        return self.families.get(number) or self.families.get((number[0], None), "")


def observe(host: Host) -> NodeHolders | Unreadable:
    """Who has a device node open now. Unreadable where no process of the node is shown."""
    if not host.live or not host.files.shows_processes:
        return Unreadable(Why.MISSING, PROC, detail="processes of the node are not shown here")
    names = host.files.names(PROC)
    if not isinstance(names, tuple):
        return names or Unreadable(Why.MISSING, PROC)
    numbers = registered(host.files)
    known = numbers if isinstance(numbers, NodeNumbers) else NodeNumbers()
    found: list[NodeHolder] = []
    unseen = 0
    for pid in filter(str.isdecimal, names):
        nodes = _open_nodes(host.files, pid, known)
        if isinstance(nodes, Unreadable):
            unseen += 1
        elif nodes:
            command = host.files.text(f"{PROC}/{pid}/comm")
            name = command if isinstance(command, str) else "?"
            found += [NodeHolder(node, int(pid), name, family, device) for node, family, device in nodes]
    return NodeHolders(
        found=tuple(sorted(found, key=lambda one: (one.node, one.pid))),
        unseen=unseen,
        families=tuple(sorted(set(known.families.values()))),
        is_whole=processes.shows_all(host.files),
    )


def registered(files: Files) -> NodeNumbers | Unreadable:
    """The device numbers of these families on this kernel, whatever their nodes are called and wherever they lie."""
    listed = files.text(CHARACTER_DEVICES)
    if not isinstance(listed, str):
        return listed or Unreadable(Why.MISSING, CHARACTER_DEVICES)
    misc = files.text(MISC_DEVICES)
    if isinstance(misc, Unreadable):
        return misc
    characters = listed.partition("Block devices:")[0]
    families: dict[DeviceNumber, str] = {(number, None): family for number, family in _of_drivers(characters)}
    # The misc node "vfio" is no device's: each user of VFIO has it open.
    families |= {(MISC_MAJOR, number): family for number, family in _of_drivers(misc or "") if family == RDMA}
    return NodeNumbers(families, dict((*_of_rdma(files), *_of_vfio(files))))


def _of_drivers(lines: str) -> Iterator[tuple[int, str]]:
    for line in lines.splitlines():
        match = DEVICE_LINE.fullmatch(line)
        if match and RDMA_REGISTERED.fullmatch(match[2]):
            yield int(match[1]), RDMA
        elif match and GPU_REGISTERED.fullmatch(match[2]):
            yield int(match[1]), GPU
        elif match and VFIO_REGISTERED.fullmatch(match[2]):
            yield int(match[1]), VFIO


def _of_rdma(files: Files) -> Iterator[tuple[DeviceNumber, str]]:
    """The device number of each node of an RDMA device, by sysfs."""
    for one in NODE_CLASSES:
        names = files.names(one)
        for name in names if isinstance(names, tuple) else ():
            number, device = _number(files, f"{one}/{name}/dev"), files.text(f"{one}/{name}/ibdev")
            if number and isinstance(device, str):
                yield number, device


def _of_vfio(files: Files) -> Iterator[tuple[DeviceNumber, str]]:
    """The device number of each group, and of each function that has a node of its own, with the PCI addresses."""
    groups, functions = files.names(VFIO_GROUPS), files.names(VFIO_DEVICES)
    for name in groups if isinstance(groups, tuple) else ():
        number = _number(files, f"{VFIO_GROUPS}/{name}/dev")
        held = files.names(f"{IOMMU_GROUPS}/{name.removeprefix('noiommu-')}/devices")
        if number and isinstance(held, tuple):
            yield number, " ".join(held)
    for name in functions if isinstance(functions, tuple) else ():
        number, link = _number(files, f"{VFIO_DEVICES}/{name}/dev"), files.link(f"{VFIO_DEVICES}/{name}/device")
        if number and link:
            yield number, link.rpartition("/")[2]


def _number(files: Files, path: str) -> DeviceNumber | None:
    text = files.text(path)
    match = NUMBER.fullmatch(text) if isinstance(text, str) else None
    return (int(match[1]), int(match[2])) if match else None


def _open_nodes(files: Files, pid: str, numbers: NodeNumbers) -> list[tuple[str, str, str]] | Unreadable:
    """The device nodes that a process has open: path, family, RDMA device. One that has ended has none."""
    found: set[tuple[str, str, str]] = set()
    for here in _descriptor_directories(files, pid):
        descriptors = files.names(here)
        if not isinstance(descriptors, tuple):
            if descriptors is None:
                continue
            return descriptors
        for one in descriptors:
            node = _open_node(files, f"{here}/{one}", numbers)
            if isinstance(node, Unreadable):
                return node
            found |= {node} if node else set()
    return sorted(found)


def _descriptor_directories(files: Files, pid: str) -> Iterator[str]:
    """Of a process whose first thread has ended, only the directories of its other threads show what is open."""
    yield f"{PROC}/{pid}/fd"
    if files.names(f"{PROC}/{pid}/fd") == ():
        threads = files.names(f"{PROC}/{pid}/task")
        yield from (f"{PROC}/{pid}/task/{one}/fd" for one in (threads if isinstance(threads, tuple) else ()))


def _open_node(files: Files, descriptor: str, numbers: NodeNumbers) -> tuple[str, str, str] | None | Unreadable:
    """By device number: a container has the node at any path. By path too, for numbers that nobody registered."""
    target = files.link(descriptor)
    if target is not None and not target.startswith("/"):  # a socket or a pipe
        return None
    node = files.opened_node(descriptor)
    if isinstance(node, Unreadable) or (target is None and node is None):
        return node  # what may not be seen, or was closed meanwhile
    number = (node.major, node.minor) if node else (0, 0)
    family = numbers.family(number)
    path = (target or "?").removesuffix(" (deleted)")
    if family:
        return path, family, numbers.devices.get(number, "")
    if target is not None and NODE.fullmatch(target):
        return path, RDMA if RDMA_NODE.fullmatch(target) else GPU, ""
    return None
