"""Can every process open the device nodes of RDMA?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.facts.rdma.devnodes import ClassEntry, DevNode, DevNodes
from nodeprep.facts.rdma.rdma import Rdma, RdmaDevice
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Unreadable,
    Verdict,
    grouped,
    raw,
)
from nodeprep.values import Value

DIRECTORY = "/dev/infiniband"
OTHERS_READ_WRITE = 0o006  # read and write for others: what rdma-core's udev rules give uverbs and rdma_cm
MAKE = Remedy("rdma_device_nodes")
# udevd makes no nodes: devtmpfs does, once, when the kernel adds the device (drivers/base/devtmpfs.c).
MKNOD = "mknod -m {mode} {node} c {number}"


class NodeFault(Value):
    """What is wrong with one node. `number` is what its class wants, "" where that is not known."""

    status: Status
    reason: str
    message: str
    path: str
    number: str


def judge(seen: Seen) -> Iterator[Verdict]:
    shown, devices = seen[DevNodes], seen[Rdma].devices
    found = shown.nodes or ()
    if not devices or not (found or shown.live):
        return  # a copy that an ordinary user unpacked has no devices: only a copy with some devices can lack others
    nodes = {node.name: node for node in found}
    if isinstance(raw(shown)["verbs"], Unreadable):  # the other sign first, for nothing comes after
        yield from connection_manager(shown, nodes)
    verbs, mads = by_device(shown.verbs or ()), by_device(shown.mads or ())
    yield from seen.each(
        devices, lambda device: judge_device(device, verbs.get(device.name, ()), mads.get(device.name, ()), nodes)
    )
    yield from seen.each(
        [one for one in shown.verbs or () if is_nobodys(one)], lambda one: ownerless(one, nodes), lambda _: NODE
    )
    yield from connection_manager(shown, nodes)


def is_nobodys(entry: ClassEntry) -> bool:
    return not isinstance(raw(entry)["device"], str)


def ownerless(entry: ClassEntry, nodes: Mapping[str, DevNode]) -> Verdict | None:
    """The faults of an entry that does not tell its device: rdma.verbs-class says that."""
    where = f"the RDMA device of {entry.name}"
    found = list(troubles(entry.name, entry.number, nodes, Status.FAIL, where))
    return verdict(NODE, where, 1, found) if found else None


def connection_manager(shown: DevNodes, nodes: Mapping[str, DevNode]) -> Iterator[Verdict]:
    if shown.rdma_cm is not None:
        where = "the connection manager"
        yield verdict(NODE, where, 1, list(troubles("rdma_cm", shown.rdma_cm, nodes, Status.FAIL, where)))


def by_device(entries: tuple[ClassEntry, ...]) -> dict[object, tuple[ClassEntry, ...]]:
    return grouped(entries, lambda entry: raw(entry)["device"])


def judge_device(
    device: RdmaDevice, verbs: tuple[ClassEntry, ...], mads: tuple[ClassEntry, ...], nodes: Mapping[str, DevNode]
) -> Verdict | None:
    if not verbs and not mads:
        return None
    found = [one for entry in verbs for one in troubles(entry.name, entry.number, nodes, Status.FAIL, device.where)]
    # Jobs do not open umad nodes, and only root may: subnet tools and the device plugin miss them.
    found += [one for entry in mads for one in troubles(entry.name, entry.number, nodes, Status.WARN, device.where)]
    return verdict(device.subject, device.where, len(verbs) + len(mads), found)


def troubles(
    name: str, number: str | None, nodes: Mapping[str, DevNode], worst: Status, where: str
) -> Iterator[NodeFault]:
    node, path = nodes.get(name), f"{DIRECTORY}/{name}"
    place = (path, number or "")
    if node is None:
        text = f"{path} of {where} is missing, wanted as {number or 'a device'} by its class"
        yield NodeFault(worst, "NodeMissing", text, *place)
    elif node.number is None:
        return  # a placeholder in a copied tree
    elif not node.number:
        yield NodeFault(worst, "NotADevice", f"{path} of {where} is no character device", *place)
    elif number is not None and node.number != number:
        text = f"{path} of {where} is device {node.number}, its class says {number}"
        yield NodeFault(worst, "WrongNumber", text, *place)
    elif worst is Status.FAIL and node.mode is not None and node.mode & OTHERS_READ_WRITE != OTHERS_READ_WRITE:
        text = f"{path} of {where} has mode {node.mode:04o}, wanted 0666: only its owner's processes can open it"
        yield NodeFault(Status.WARN, "NotForEverybody", text, *place)


def verdict(subject: Subject, where: str, count: int, found: list[NodeFault]) -> Verdict:
    """The first trouble is the worst: a device has one uverbs node, and it comes before the others."""
    if found:
        first, message = found[0], "; ".join(one.message for one in found)
        args = {
            "node": first.path,
            "number": first.number.replace(":", " ") or "MAJOR MINOR",
            "mode": "0600" if "/umad" in first.path else "0666",
        }
        return Verdict(subject, first.status, first.reason, message, MAKE, args=args)
    return Verdict(subject, Status.OK, "InPlace", f"{where}: {count} of {count} device nodes are in place")


CHECK = Check(
    id="rdma.device-nodes",
    question="Can every process open the device nodes of RDMA?",
    why="The kernel's side is ready, yet a container that gets no /dev/infiniband/uverbsN has no RDMA device.",
    fix="Make the node with the numbers of its class (cat /sys/class/infiniband_verbs/*/dev). udev does not make it: "
    "the kernel does when the device appears, and nobody does later.",
    reasons=(
        Reason("NodeMissing", Status.FAIL, MKNOD),
        Reason("NodeMissing", Status.WARN, MKNOD),
        Reason("NotADevice", Status.FAIL, f"rm {{node}} && {MKNOD}"),
        Reason("NotADevice", Status.WARN, f"rm {{node}} && {MKNOD}"),
        Reason("WrongNumber", Status.FAIL, f"rm {{node}} && {MKNOD}"),
        Reason("WrongNumber", Status.WARN, f"rm {{node}} && {MKNOD}"),
        Reason(
            "NotForEverybody",
            Status.WARN,
            "chmod 0666 {node}; for the next boot put rdma-core's rules (mode 0666) back into /lib/udev/rules.d.",
        ),
        Reason("InPlace", Status.OK),
    ),
    source="Linux drivers/infiniband/core/uverbs_main.c, drivers/base/devtmpfs.c; rdma-core's rules (mode 0666)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Rdma, DevNodes),
    after=("rdma.verbs-class",),
    remedies=("rdma_device_nodes",),
    judge=judge,
)
