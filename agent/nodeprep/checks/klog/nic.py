"""Has the kernel given up on an RDMA NIC?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.checks.klog import watched_nics
from nodeprep.checks.klog.watched_nics import Nic, Told
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.printk import LineClass
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.log_speakers import DEVICE, FUNCTION
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict
from nodeprep.pattern import Pattern
from nodeprep.values import Value

# mlx5/core/events.c port_module; also said of cages nobody uses
UNPLUGGED_LINE = Pattern(rf"{DEVICE}{FUNCTION}Port module event.*Cable unplugged")
PLUGGED_LINE = Pattern(rf"{DEVICE}{FUNCTION}Port module event.*Cable plugged")


class Want(Value):
    """Whose lines count."""

    accept_userspace: Annotated[
        bool,
        "whether lines that a process wrote into /dev/kmsg count too. Off: whoever may write there could close the "
        "gate; drills and tests turn it on.",
    ] = False


def judge(seen: Seen) -> Iterator[Verdict]:
    nics = watched_nics.watched(seen)
    if not nics:
        return  # before the log is read: a refused log is irrelevant on a node without RDMA
    told = watched_nics.told(nics, seen[KernelLog].heard(seen[Want].accept_userspace))
    for nic in nics:
        yield verdict(nic, told)
    if told.nameless:
        message = watched_nics.message("an RDMA NIC", told.nameless)
        yield Verdict(NODE, Status.FAIL, "DeviceFailed", message, None, told.nameless[-1].text)


def verdict(nic: Nic, told: Told) -> Verdict:
    name = nic.subject.name
    gone = told.of(nic, LineClass.GONE)
    if gone:
        message = watched_nics.message(name, gone)
        return Verdict(nic.subject, Status.FAIL, "DeviceFailed", message, None, gone[-1].text)
    stalled = told.of(nic, LineClass.STALLED)
    if stalled:
        message = watched_nics.message(name, stalled)
        return Verdict(nic.subject, Status.WARN, "SendStalled", message, None, stalled[-1].text)
    reset = told.of(nic, LineClass.RECOVERS)
    if reset:
        message = f"{watched_nics.message(name, reset)}; RDMA connections of that time are lost"
        return Verdict(nic.subject, Status.WARN, "DeviceReset", message, None, reset[-1].text)
    lines = [one.line for one in told.by_place[nic.subject.place]]
    cable = [line for line in lines if UNPLUGGED_LINE.search(line.text) or PLUGGED_LINE.search(line.text)]
    if nic.cabled and cable and UNPLUGGED_LINE.search(cable[-1].text):
        message = f"{watched_nics.message(name, cable[-1:])}; one of its ports is wanted up"
        return Verdict(nic.subject, Status.WARN, "CableUnplugged", message, None, cable[-1].text)
    unknown = sum(one.unknown for one in told.by_place[nic.subject.place])
    counted = f"; warnings of no known class: {unknown}" if unknown else ""
    return Verdict(nic.subject, Status.OK, "Quiet", f"{name}: the kernel log holds nothing against it{counted}")


CHECK = Check(
    id="klog.nic",
    question="Has the kernel given up on an RDMA NIC?",
    why="After such a line the device may look up and healthy in sysfs while every command to it fails.",
    fix="Drain the node and reboot it; if the line comes again, update the firmware, then replace the NIC. dmesg "
    "--clear says that it has been dealt with, as does setting up the device again.",
    reasons=(
        Reason("DeviceFailed", Status.FAIL),
        Reason(
            "SendStalled",
            Status.WARN,
            "See the switch port's flow control (pause frames), then the driver and firmware (ethtool -i); drain and "
            "reboot the node if it comes again. dmesg --clear says that it has been dealt with.",
        ),
        Reason(
            "DeviceReset",
            Status.WARN,
            "dmesg | grep {place} shows what came before. Nothing else if a human reset it (mlxfwreset, devlink dev "
            "reload); else update the firmware, and replace the NIC if it comes again. dmesg --clear says that it has "
            "been dealt with.",
        ),
        Reason(
            "CableUnplugged",
            Status.WARN,
            "Plug the cable of {place} in again, or swap it with its module (mlxlink -d {place} -m).",
        ),
        Reason("Quiet", Status.OK),
    ),
    source="formats of the drivers and of the PCI core in Linux 6.1 (docs/kernel_log/formats.tsv, ADR 0031); "
    "NVSentinel nic-health-monitor patterns",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.LATCHED,
    needs=(Pci, Rdma, Expected, KernelLog),
    want=Want,
    judge=judge,
)
