"""Do the optical modules and the slots of RDMA NICs complain about heat or power?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.checks.klog import nic as klog_nic
from nodeprep.checks.klog.nic import Nic, Want
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict
from nodeprep.pattern import Pattern

HIGH_TEMPERATURE_LINE = Pattern(r"Port module event.*High Temperature")  # mlx5/core/events.c
LOW_POWER_LINE = Pattern(r"Detected insufficient power on the PCIe slot \(\d+W\)")  # mlx5/core/events.c


def judge(seen: Seen) -> Iterator[Verdict]:
    nics = klog_nic.watched(seen)
    if not nics:
        return
    heard = seen[KernelLog].standing(seen[Want].accept_userspace)
    for nic in nics:
        yield verdict(nic, [line for line in heard if nic.is_meant_by(line)])


def verdict(nic: Nic, lines: list[KernelLogLine]) -> Verdict:
    hot = [line for line in lines if HIGH_TEMPERATURE_LINE.search(line.text)]
    if hot:
        message = f"{klog_nic.told(nic.subject.name, hot)}; a module that stays hot switches its laser off"
        return Verdict(nic.subject, Status.WARN, "ModuleHot", message, None, hot[-1].text)
    starved = [line for line in lines if LOW_POWER_LINE.search(line.text)]
    if starved:
        message = f"{klog_nic.told(nic.subject.name, starved)}; it may run its ports slower, or not at all"
        return Verdict(nic.subject, Status.WARN, "SlotPower", message, None, starved[-1].text)
    return Verdict(nic.subject, Status.OK, "Quiet", f"{nic.subject.name}: no complaint about heat or power")


CHECK = Check(
    id="klog.nic-module",
    question="Do the optical modules and the slots of RDMA NICs complain about heat or power?",
    why="A module that overheats takes its link down under load, which is when the job needs it.",
    fix="mlxlink -d {place} -m shows temperature and power of the module.",
    reasons=(
        Reason(
            "ModuleHot",
            Status.WARN,
            "Air flow, fans, dust, then the module: mlxlink -d {place} -m shows its temperature.",
        ),
        Reason("SlotPower", Status.WARN, "The firmware's slot settings, then another slot for {place}."),
        Reason("Quiet", Status.OK),
    ),
    source="leptonai/gpud components/accelerator/nvidia/infiniband (kmsg matchers); Linux mlx5/core/events.c",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.LATCHED,
    needs=(Pci, Rdma, Expected, KernelLog),
    want=Want,
    judge=judge,
)
