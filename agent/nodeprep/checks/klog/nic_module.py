"""Do the optical modules and the slots of RDMA NICs complain about heat or power?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodeprep.checks.klog.nic import Nic, Want, told, watched
from nodeprep.facts.expected import Expected
from nodeprep.facts.kernel_log import KernelLog, Line
from nodeprep.facts.pci import Pci
from nodeprep.facts.rdma import Rdma
from nodeprep.model import Check, Damping, Seen, Severity, Stage, Status, Verdict

HOT = re.compile(r"Port module event.*High Temperature")  # mlx5/core/events.c
STARVED = re.compile(r"Detected insufficient power on the PCIe slot \(\d+W\)")  # mlx5/core/events.c


def judge(seen: Seen) -> Iterator[Verdict]:
    nics = watched(seen)
    if not nics:
        return
    heard = seen[KernelLog].standing(seen[Want].accept_userspace)
    for nic in nics:
        yield verdict(nic, [line for line in heard if nic.is_meant_by(line)])


def verdict(nic: Nic, lines: list[Line]) -> Verdict:
    hot = [line for line in lines if HOT.search(line.text)]
    if hot:
        message = f"{told(nic.subject.name, hot)}; a module that stays hot switches its laser off"
        return Verdict(nic.subject, Status.WARN, "ModuleHot", message, None, hot[-1].text)
    starved = [line for line in lines if STARVED.search(line.text)]
    if starved:
        message = f"{told(nic.subject.name, starved)}; it may run its ports slower, or not at all"
        return Verdict(nic.subject, Status.WARN, "SlotPower", message, None, starved[-1].text)
    return Verdict(nic.subject, Status.OK, "Quiet", f"{nic.subject.name}: no complaint about heat or power")


CHECK = Check(
    id="klog.nic-module",
    question="Do the optical modules and the slots of RDMA NICs complain about heat or power?",
    why="A module that overheats takes its link down under load, which is when the job needs it.",
    fix="ModuleHot: air flow, fans, dust, then the module. SlotPower: the firmware's slot settings, then another slot.",
    source="leptonai/gpud components/accelerator/nvidia/infiniband (kmsg matchers); Linux mlx5/core/events.c",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    damping=Damping.LATCH,
    needs=(Pci, Rdma, Expected, KernelLog),
    want=Want,
    judge=judge,
)
