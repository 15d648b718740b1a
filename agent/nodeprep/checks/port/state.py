"""Is every RDMA port that this node needs up?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict

# enum ib_port_state, ib_port_phys_state (include/rdma/ib_verbs.h): the number is the kernel's ABI.
INIT, ARMED, ACTIVE = "2", "3", "4"
POLLING, DISABLED, LINK_UP = "2", "3", "5"


def judge(seen: Seen) -> Iterator[Verdict]:
    yield from seen.each(seen[Rdma].ports, lambda port: verdict(port, seen))


def verdict(port: Port, seen: Seen) -> Verdict:
    expected = seen[Expected]
    wanted_by = expected.of(port) or expected.of_lost_leg(port)
    state, physical = port.state.partition(":")[0], port.physical.partition(":")[0]
    shows = f"{port.where} is {port.state!r}, {port.physical!r}"
    if state == ACTIVE and physical == LINK_UP:
        return says(port, Status.OK, "Active", shows)
    if wanted_by is None:
        return says(port, Status.OK, "NotNeeded", f"{shows}; nothing asks for this port")
    if expected.is_front_end(port):
        return says(port, Status.WARN, "UnlikeOthers", f"{shows}, unlike {wanted_by}; no job is known to need it")
    shows = f"{shows}; ACTIVE is wanted by {wanted_by}"
    if state == ACTIVE:
        return says(port, Status.FAIL, "PhysicalNotUp", f"{shows}; the link under it is not up")
    if state in (INIT, ARMED):
        return says(port, Status.FAIL, "NoSubnetManager", f"{shows}; link up, but no subnet manager set it up")
    if physical == DISABLED and port.netdev:
        up = set_up(port.netdev, seen[Rdma].device(port.device))
        return says(port, Status.FAIL, "AdministrativelyDown", f"{shows}; {port.netdev} was set down here", up)
    if physical == POLLING:
        return says(port, Status.FAIL, "NoSignal", f"{shows}; nothing from the far end: cable or switch port")
    return says(port, Status.FAIL, "NotActive", shows)


def set_up(netdev: str, device: RdmaDevice | None) -> Remedy:
    """An Elastic RDMA interface needs its address and MTU with it, which the cloud knows."""
    if device is not None and device.id == VENDOR_DEVICE:
        return Remedy("eri_netdev_up", {"interface": netdev})
    return Remedy("link_up", {"interface": netdev})


def says(port: Port, status: Status, reason: str, message: str, remedy: Remedy | None = None) -> Verdict:
    return Verdict(port.subject, status, reason, message, remedy, observed=port.state, expected="4: ACTIVE")


CHECK = Check(
    id="port.state",
    question="Is every RDMA port that this node needs up?",
    why="NCCL opens a queue pair on every rail: one port that is not ACTIVE fails the job at its start, or halves it.",
    fix="ibstat, and dmesg | grep {place}.",
    reasons=(
        Reason("Active", Status.OK),
        Reason("NotNeeded", Status.OK),
        Reason("UnlikeOthers", Status.WARN),
        Reason("PhysicalNotUp", Status.FAIL),
        Reason("NoSubnetManager", Status.FAIL, "Ask for the subnet manager with sminfo, then see its log and switch."),
        Reason("AdministrativelyDown", Status.FAIL, "ip link set {interface} up"),
        Reason(
            "NoSignal",
            Status.FAIL,
            "Look at the switch port, then at the module and cable: mlxlink -d {place} -m, or ethtool -m.",
        ),
        Reason("NotActive", Status.FAIL),
    ),
    source="Linux drivers/infiniband/core/sysfs.c; facebookresearch/gcm check_iblink (INIT carries no traffic)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Rdma, Expected),
    after=("pci.rdma-driver", "port.present"),
    remedies=("link_up", "eri_netdev_up"),
    judge=judge,
)
