"""The drills that there are: what each makes, what it is ordered for, and what must be unused before it may."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.decide import drill_ground
from nodeprep.decide.remedy_header import Idle, Parameter, ParameterKind, RemedyHeader, SafetyClass
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value

WHY = "It takes a device away. So nobody may use it: no pod, no process, no route of the node."
NETDEV, FUNCTION = {"interface": Parameter(ParameterKind.NETDEV)}, {"function": Parameter(ParameterKind.PCI_FUNCTION)}
# Modules that carry RDMA and no interface: the node keeps its network. `module-unloaded` takes no other.
MODULES = (
    *("bnxt_re", "efa", "erdma", "ib_umad", "irdma", "mlx4_ib", "mlx5_ib"),
    *("nvidia_peermem", "rdma_rxe", "rdma_ucm", "siw"),
)


class DrillKind(StrEnum):
    """The faults that a drill makes, by the words of the field."""

    LINK_DOWN = "link-down"
    MODULE_UNLOADED = "module-unloaded"
    RDMA_LINK_REMOVED = "rdma-link-removed"
    ROUTE_REMOVED = "route-removed"
    KERNEL_LOG_LINE = "kernel-log-line"


class DrillForm(Value):
    """What is known of a kind before it is ordered. `target` says what it is ordered for, `undone` what undoes it.

    `header` is that of a remedy of class S2 that disturbs as much: the idle proof goes by it.
    """

    makes: str
    target: str
    undone: str
    header: RemedyHeader
    parts: tuple[str, ...]


def _header(idle: Idle, parameters: Mapping[str, Parameter], *tools: str) -> RemedyHeader:
    return RemedyHeader("drill", "makes a fault", SafetyClass.S2, WHY, idle, (), parameters, tools=tools)


FORMS: Mapping[DrillKind, DrillForm] = {
    DrillKind.LINK_DOWN: DrillForm(
        "Sets an interface down.",
        "INTERFACE",
        "It is set up again. IPv6 addresses and routes that the kernel dropped with it are put back.",
        _header(Idle.NETDEV, NETDEV, "ip"),
        (drill_ground.NETWORK,),
    ),
    DrillKind.MODULE_UNLOADED: DrillForm(
        "Unloads a kernel module of RDMA.",
        "MODULE",
        "It is loaded again. Software RDMA devices are added again.",
        _header(Idle.RDMA, {"module": Parameter(ParameterKind.CHOICE, choices=MODULES)}, "modprobe", "rdma"),
        (drill_ground.MODULES, drill_ground.RDMA),
    ),
    DrillKind.RDMA_LINK_REMOVED: DrillForm(
        "Removes a software RDMA device (rxe or siw).",
        "RDMA-DEVICE",
        "It is added again, of the same type and on the same interface.",
        _header(Idle.RDMA, {}, "rdma"),
        (drill_ground.RDMA,),
    ),
    DrillKind.ROUTE_REMOVED: DrillForm(
        "Removes one route.",
        "DESTINATION [--table TABLE]",
        "It is added again as it was.",
        _header(Idle.NETDEV, NETDEV, "ip"),
        (drill_ground.NETWORK,),
    ),
    DrillKind.KERNEL_LOG_LINE: DrillForm(
        "Writes a line to the kernel log that says that an RDMA NIC has failed.",
        "PCI-ADDRESS",
        "Nothing takes the line back. The agent believes it until `nodeprep reset`.",
        _header(Idle.FUNCTION, FUNCTION, "tee"),
        (),
    ),
}
