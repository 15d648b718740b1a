"""The part of the kernel log that can speak of devices: lines with a PCI address, of NVIDIA's drivers, and warnings."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from nodeprep import log_speakers, redaction
from nodeprep.facts.machine.pci import ADDRESS
from nodeprep.model import Fact, Shown, Topic, Unreadable, derived, shown
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.kmsg import KmsgRecord
    from nodeprep.doors.node_host import Host

WARNING = 4  # include/linux/kern_levels.h; smaller numbers are worse
LINES_LIMIT = 5000  # lines; the newest count
PROCESS_LINES_LIMIT = 100  # lines in which the kernel tells of processes, for a human who reads a snapshot
# What repeats the command line or a part of it: init/main.c, kernel/params.c, lib/cmdline.c.
PARAMETERS_ECHO = Pattern(r"[Cc]ommand line|invalid for parameter|Malformed early option|Unknown (?:boot|kernel) ")
IN_TEXT = Pattern(rf"(?<![0-9a-f]){ADDRESS.pattern}(?![0-9a-f])")
# NVIDIA's drivers name a GPU by its slot, without the function, and some of their messages have several lines.
GPU_DRIVERS = Pattern(r"\bNVRM: |\bnvidia-nvswitch\d|\bnvidia[-_]peermem\b|\bnv_peer_mem\b")
# A line that a PCI device begins: its driver, its address, then the message. No format is read behind other words.
BY_DEVICE = Pattern(log_speakers.DEVICE)
# What the kernel prints when a device is set up again. Earlier lines about this device no longer count.
PROBE_LINE = Pattern(
    rf"{log_speakers.DEVICE}{log_speakers.FUNCTION}(?:"
    r"firmware version: \d"  # mlx5/core/main.c at every load: probe, recovery after a health error, devlink reload
    r"|enabling device \("  # drivers/pci/setup-res.c: when a driver takes a function that was off
    r"|\[[0-9a-f]{4}:[0-9a-f]{4}\] type [0-9a-f]{2} class 0x"  # drivers/pci/probe.c: when the bus finds a function
    r"|\d+\.\d{3} Gb/s available PCIe bandwidth"  # drivers/pci/pci.c, by probes of mlx4, mlx5, bnxt_en and ice
    r"|(?:Reset done, )?\w+ driver initialization finished\."  # hns3pf/hclge_main.c: probe and reset
    r"|finished initializing \w+ driver$"  # hns3vf/hclgevf_main.c: probe
    r"|IB device registered$"  # infiniband/hw/efa/efa_main.c: probe
    r")"
)


@shown
class KernelLogLine(Shown):
    """One line. `number` only grows within a boot.

    `from_kernel` is False for what a process wrote into the log, and for a line in which the kernel tells of a process
    by the names that it chose: a crash, an out-of-memory kill (log_speakers).

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
    def by_device(self) -> bool:
        """Whether a PCI device begins it, which is then `bdf`."""
        return BY_DEVICE.match(self.text) is not None

    @property
    def sets_up(self) -> bool:
        """Whether it says that the device was set up again."""
        return PROBE_LINE.match(self.text) is not None


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
    return KernelLog(host.now(), tuple(map(line, newest(records))))


def newest(records: tuple[KmsgRecord, ...]) -> tuple[KmsgRecord, ...]:
    """The newest records, in their order. Processes that crash all the time push no line of a driver out."""
    drivers = [one for one in records if not one.of_process][-LINES_LIMIT:]
    crashes = [one for one in records if one.of_process][-PROCESS_LINES_LIMIT:]
    return tuple(sorted((*drivers, *crashes), key=lambda one: one.number))


@lru_cache(LINES_LIMIT)  # a look finds nearly all records of the look before, and masking costs most of it
def line(record: KmsgRecord) -> KernelLogLine:
    """The line of a record."""
    return KernelLogLine(record.number, record.at, record.level, is_from_kernel(record), redaction.masked(record.text))


def is_from_kernel(record: KmsgRecord) -> bool:
    """Whether its words are the kernel's, all of them."""
    return record.facility == 0 and not record.of_process


def speaks(record: KmsgRecord) -> bool:
    """Whether a record can speak of a device; one that repeats the kernel's parameters holds what these hold."""
    if PARAMETERS_ECHO.search(record.text):
        return False
    if record.level <= WARNING:
        return True
    return IN_TEXT.search(record.text) is not None or GPU_DRIVERS.search(record.text) is not None


FACT = Fact(KernelLog, observe, woken_by=frozenset({Topic.KERNEL_LOG}), live=True, deadline=5.0)
