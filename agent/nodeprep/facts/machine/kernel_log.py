"""The part of the kernel log that can speak of devices: lines with a PCI address, of NVIDIA's drivers, and warnings."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from nodeprep import redaction
from nodeprep.facts.machine.pci import ADDRESS
from nodeprep.model import Fact, Shown, Topic, Unreadable, derived, shown
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.kmsg import KmsgRecord
    from nodeprep.doors.node_host import Host

WARNING = 4  # include/linux/kern_levels.h; smaller numbers are worse
LINES_LIMIT = 5000  # lines; the newest count
# What repeats the command line or a part of it: init/main.c, kernel/params.c, lib/cmdline.c.
PARAMETERS_ECHO = Pattern(r"[Cc]ommand line|invalid for parameter|Malformed early option|Unknown (?:boot|kernel) ")
IN_TEXT = Pattern(rf"(?<![0-9a-f]){ADDRESS.pattern}(?![0-9a-f])")
# NVIDIA's drivers name a GPU by its slot, without the function, and some of their messages have several lines.
GPU_DRIVERS = Pattern(r"\bNVRM: |\bnvidia-nvswitch\d|\bnvidia[-_]peermem\b|\bnv_peer_mem\b")
# What the kernel prints when a device is set up again. Earlier lines about this device no longer count.
PROBE_LINE = Pattern(
    r": firmware version: \d"  # mlx5/core/main.c at every load: probe, recovery after a health error, devlink reload
    r"|: enabling device \("  # drivers/pci/setup-res.c: when a driver takes a function that was off
    r"|: \[[0-9a-f]{4}:[0-9a-f]{4}\] type [0-9a-f]{2} class 0x"  # drivers/pci/probe.c: when the bus finds a function
    r"|: \d+\.\d{3} Gb/s available PCIe bandwidth"  # drivers/pci/pci.c, by probes of mlx4, mlx5, bnxt_en and ice
    r"|: (?:Reset done, )?\w+ driver initialization finished\."  # hns3pf/hclge_main.c: probe and reset
    r"|: finished initializing \w+ driver$"  # hns3vf/hclgevf_main.c: probe
    r"|: IB device registered$"  # infiniband/hw/efa/efa_main.c: probe
)


@shown
class KernelLogLine(Shown):
    """One line. `number` only grows within a boot; `from_kernel` is False for what a process wrote into the log.

    `text` has `***` in the place of what looks like a secret.
    """

    number: int
    at: float
    level: int
    from_kernel: bool
    text: str

    @derived
    def addresses(self) -> tuple[str, ...]:
        """The PCI addresses that the line names: the device that speaks first, then those that it speaks of."""
        return tuple(IN_TEXT.findall(self.text))

    @property
    def bdf(self) -> str:
        """The PCI address of the device that speaks, "" if the line names none."""
        return next(iter(self.addresses), "")

    @property
    def sets_up(self) -> bool:
        """Whether it says that the device was set up again."""
        return PROBE_LINE.search(self.text) is not None


@shown
class KernelLog(Shown):
    """Lines since boot, or since somebody cleared the log, oldest first."""

    at: float
    lines: tuple[KernelLogLine, ...]

    def heard(self, from_user_space: bool = False) -> tuple[KernelLogLine, ...]:
        """The lines of the kernel; on demand also those of user space."""
        return tuple(line for line in self.lines if line.from_kernel or from_user_space)


def observe(host: Host) -> KernelLog | Unreadable:
    records = host.kernel_log(speaks)
    if isinstance(records, Unreadable):
        return records
    return KernelLog(host.now(), tuple(map(line, records[-LINES_LIMIT:])))


@lru_cache(LINES_LIMIT)  # a look finds nearly all records of the look before, and masking costs most of it
def line(record: KmsgRecord) -> KernelLogLine:
    """The line of a record."""
    return KernelLogLine(record.number, record.at, record.level, record.facility == 0, redaction.masked(record.text))


def speaks(record: KmsgRecord) -> bool:
    """Whether a record can speak of a device; one that repeats the kernel's parameters holds what these hold."""
    if PARAMETERS_ECHO.search(record.text):
        return False
    if record.level <= WARNING:
        return True
    return IN_TEXT.search(record.text) is not None or GPU_DRIVERS.search(record.text) is not None


FACT = Fact(KernelLog, observe, woken_by=frozenset({Topic.KERNEL_LOG}), live=True, deadline=5.0)
