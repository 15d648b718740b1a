"""Has the kernel given up on an RDMA NIC?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict
from nodeprep.pattern import Pattern
from nodeprep.values import Value

FATAL_LINE = Pattern(
    r"timeout\. Will cause a leak of a command resource"  # mlx5/core/cmd.c: the firmware stopped to answer
    r"|device's health compromised - reached miss count"  # mlx5/core/health.c: its health counter stopped
    r"|Fatal error \d+ detected"  # mlx5/core/health.c
    r"|unrecoverable hardware error"  # mlx5/core/health.c, syndrome 8
    r"|PCIe Bus Error: severity=Uncorrect(?:ed|able) \(Fatal\)"  # drivers/pci/pcie/aer.c
)
TROUBLE_LINE = Pattern(
    r"NETDEV WATCHDOG"  # net/sched/sch_generic.c
    r"|TX timeout detected"  # mlx5/core/en_main.c
)
UNPLUGGED_LINE = Pattern(r"Port module event.*Cable unplugged")  # mlx5/core/events.c; also said of cages nobody uses
PLUGGED_LINE = Pattern(r"Port module event.*Cable plugged")


class Want(Value):
    """Whose lines count."""

    accept_userspace: Annotated[
        bool,
        "whether lines that a process wrote into /dev/kmsg count too. Off: whoever may write there could close the "
        "gate; drills and tests turn it on.",
    ] = False


class Nic(Value):
    """An RDMA NIC as the kernel log may speak of it. `cabled`: somebody wants one of its ports up."""

    subject: Subject
    names: tuple[str, ...]
    driver: str | None
    cabled: bool

    def is_meant_by(self, line: KernelLogLine) -> bool:
        """By address; by netdev where the kernel gives none (NETDEV WATCHDOG: eth2 (...) until Linux 6.7)."""
        if line.addresses:
            return self.subject.place in line.addresses
        return any(re.search(rf"\b{re.escape(name)}\b", line.text) for name in self.names)


def judge(seen: Seen) -> Iterator[Verdict]:
    nics = watched(seen)
    if not nics:
        return  # before the log is read: a refused log is irrelevant on a node without RDMA
    heard = seen[KernelLog].standing(seen[Want].accept_userspace)
    for nic in nics:
        yield verdict(nic, [line for line in heard if nic.is_meant_by(line)])
    drivers = {nic.driver for nic in nics if nic.driver}
    unplaced = [line for line in heard if not line.bdf and not any(nic.is_meant_by(line) for nic in nics)]
    nameless = [line for line in unplaced if FATAL_LINE.search(line.text) and names_one(line, drivers)]
    if nameless:
        yield Verdict(NODE, Status.FAIL, "DeviceFailed", told("an RDMA NIC", nameless), None, nameless[-1].text)


def watched(seen: Seen) -> tuple[Nic, ...]:
    """NICs that carry RDMA or are expected to, those that left the bus included."""
    pci, rdma, expected = seen[Pci], seen[Rdma], seen[Expected]
    found = {device.place: Nic(device.subject, (), None, cabled=False) for device in rdma.devices if device.bdf}
    found |= {one.subject.place: Nic(one.subject, (), None, cabled=True) for one in expected.missing_devices}
    cabled = {port.bdf for port in rdma.ports if expected.of(port)}
    for nic in pci.nics:
        if nic.offers_rdma or nic.address in found or nic.address in expected.devices:
            found[nic.address] = Nic(nic.subject, nic.netdevs, nic.driver, nic.address in cabled)
    return tuple(found[place] for place in sorted(found))


def verdict(nic: Nic, lines: list[KernelLogLine]) -> Verdict:
    fatal = [line for line in lines if FATAL_LINE.search(line.text)]
    if fatal:
        return Verdict(nic.subject, Status.FAIL, "DeviceFailed", told(nic.subject.name, fatal), None, fatal[-1].text)
    trouble = [line for line in lines if TROUBLE_LINE.search(line.text)]
    if trouble:
        return Verdict(nic.subject, Status.WARN, "SendStalled", told(nic.subject.name, trouble), None, trouble[-1].text)
    cable = [line for line in lines if UNPLUGGED_LINE.search(line.text) or PLUGGED_LINE.search(line.text)]
    if nic.cabled and cable and UNPLUGGED_LINE.search(cable[-1].text):
        message = f"{told(nic.subject.name, cable[-1:])}; one of its ports is wanted up"
        return Verdict(nic.subject, Status.WARN, "CableUnplugged", message, None, cable[-1].text)
    return Verdict(nic.subject, Status.OK, "Quiet", f"{nic.subject.name}: the kernel log holds nothing against it")


def told(name: str, lines: list[KernelLogLine]) -> str:
    last = lines[-1]
    more = f" ({len(lines)} such lines)" if len(lines) > 1 else ""
    return f"{name}: the kernel said {last.at:.0f} s after boot: {last.text}{more}"


def names_one(line: KernelLogLine, drivers: Iterable[str]) -> bool:
    return any(re.search(rf"\b{re.escape(driver)}\b", line.text) for driver in drivers)


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
            "CableUnplugged",
            Status.WARN,
            "Plug the cable of {place} in again, or swap it with its module (mlxlink -d {place} -m).",
        ),
        Reason("Quiet", Status.OK),
    ),
    source="NVSentinel nic-health-monitor patterns; Linux drivers/net/ethernet/mellanox/mlx5/core, pci/pcie/aer.c",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.LATCHED,
    needs=(Pci, Rdma, Expected, KernelLog),
    want=Want,
    judge=judge,
)
