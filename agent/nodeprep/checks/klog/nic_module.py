"""Do the optical modules and the slots of RDMA NICs complain about heat or power?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.checks.klog import watched_nics
from nodeprep.checks.klog.nic import Want
from nodeprep.checks.klog.watched_nics import Nic, Told
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.printk import LineClass
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    nics = watched_nics.watched(seen)
    if not nics:
        return
    told = watched_nics.told(nics, seen[KernelLog].heard(seen[Want].accept_userspace))
    for nic in nics:
        yield verdict(nic, told)


def verdict(nic: Nic, told: Told) -> Verdict:
    hot = told.of(nic, LineClass.HOT)
    modules = [line for line in hot if "module" in line.text]
    if modules:
        message = f"{watched_nics.message(nic.subject.name, modules)}; a module that stays hot switches its laser off"
        return Verdict(nic.subject, Status.WARN, "ModuleHot", message, None, modules[-1].text)
    if hot:
        message = f"{watched_nics.message(nic.subject.name, hot)}; a NIC that gets hotter stops itself"
        return Verdict(nic.subject, Status.WARN, "DeviceHot", message, None, hot[-1].text)
    starved = told.of(nic, LineClass.POWER)
    if starved:
        message = f"{watched_nics.message(nic.subject.name, starved)}; it may run its ports slower, or not at all"
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
        Reason(
            "DeviceHot",
            Status.WARN,
            "Air flow, fans, dust, the inlet's temperature; then the heat sink of {place} (mget_temp -d {place} or "
            "sensors shows its temperature).",
        ),
        Reason(
            "SlotPower",
            Status.WARN,
            "The module's power class (mlxlink -d {place} -m), the firmware's slot settings, then another slot for "
            "{place}.",
        ),
        Reason("Quiet", Status.OK),
    ),
    source="formats of the drivers and of the PCI core in Linux 6.1 (docs/kernel_log/formats.tsv, ADR 0031); "
    "leptonai/gpud components/accelerator/nvidia/infiniband (kmsg matchers)",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.LATCHED,
    needs=(Pci, Rdma, Expected, KernelLog),
    want=Want,
    judge=judge,
)
