"""Is every RDMA NIC on a NUMA node that has GPUs?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.facts.machine.system import System
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict, raw
from nodeprep.values import Value


class Layout(Value):
    """The NUMA nodes that have GPUs, those of them without a NIC, and whether any rail is near GPUs."""

    homes: frozenset[int]
    orphans: frozenset[int]
    any_near: bool


def judge(seen: Seen) -> Iterator[Verdict]:
    system, pci = seen[System], seen[Pci]
    homes = frozenset(nodes(pci.gpus))
    nics = [nic for nic in pci.nics if nic.rdma and not nic.virtual_function]
    # Virtual machines show what their host invented. With one NUMA node or without GPUs there is nothing to be near to.
    if system.virtual is not False or len(homes) < 2:
        return
    expected = seen[Expected]
    wanted = {port.bdf: by for port in seen[Rdma].ports if (by := expected.of(port))}
    rails = [nic for nic in pci.nics if nic.address in wanted or expected.of_function(nic.address)]
    layout = Layout(homes, homes.difference(nodes(nics)), bool(homes.intersection(nodes(rails))))
    yield from seen.each(nics, lambda nic: verdict(nic, layout, wanted.get(nic.address)))


def nodes(devices: Iterable[PciDevice]) -> list[int]:
    """The NUMA nodes of the devices that have one."""
    return [node for device in devices if isinstance(node := raw(device)["numa"], int)]


def verdict(nic: PciDevice, layout: Layout, by: str | None) -> Verdict:
    homes = layout.homes
    gpus = f"GPUs are on nodes {', '.join(map(str, sorted(homes)))}"
    if nic.numa is None:
        shows = f"{nic.label}: the firmware does not say its NUMA node; {gpus}"
        return says(nic, Status.WARN, "NoNode", shows, homes)
    shows = f"{nic.label} is on NUMA node {nic.numa}; {gpus}"
    if nic.numa in homes:
        return says(nic, Status.OK, "NearGpus", shows, homes)
    # Storage and front-end NICs sit elsewhere by design. It is a misplaced rail only if some GPUs have none, and if one
    # rail that is near GPUs shows that this is how the node is laid out.
    if by is None or not layout.orphans or not layout.any_near:
        return says(nic, Status.OK, "ElsewhereByDesign", shows, homes)
    orphans = ", ".join(map(str, sorted(layout.orphans)))
    shows = f"{shows}; it is wanted by {by}, and the GPUs of node {orphans} have no NIC near them"
    return says(nic, Status.WARN, "FarFromGpus", shows, homes)


def says(nic: PciDevice, status: Status, reason: str, message: str, homes: frozenset[int]) -> Verdict:
    return Verdict(nic.subject, status, reason, message, None, str(nic.numa), " ".join(map(str, sorted(homes))))


CHECK = Check(
    id="pci.numa",
    question="Is every RDMA NIC on a NUMA node that has GPUs?",
    why="Traffic between a GPU and a NIC of another node crosses the link between the sockets, which all rails share.",
    fix="lspci -vv -s {place} | grep NUMA, beside that of a good sibling.",
    reasons=(
        Reason(
            "NoNode",
            Status.WARN,
            "Firmware update, or the BIOS setting for NUMA per socket: cat /sys/bus/pci/devices/{place}/numa_node "
            "then says no longer -1.",
        ),
        Reason("NearGpus", Status.OK),
        Reason("ElsewhereByDesign", Status.OK),
        Reason(
            "FarFromGpus",
            Status.WARN,
            "Move the board at {place} to its slot, on the NUMA node of the GPUs that have no NIC.",
            against_likes=True,
        ),
    ),
    source="Linux Documentation/ABI/testing/sysfs-bus-pci (numa_node); NCCL topology search (SYS paths)",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Pci, Rdma, System, Expected),
    judge=judge,
)
