"""What of the kernel log speaks of devices, read from this machine and from records."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from nodeprep.doors.files.kmsg import KmsgRecord
from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import kernel_log
from nodeprep.facts.machine.kernel_log import LINES_LIMIT, PROCESS_LINES_LIMIT, KernelLog, KernelLogLine
from nodeprep.model import Unreadable, Why

BDF = "0000:5c:00.0"
MISS = f"mlx5_core {BDF}: poll_health:825: device's health compromised - reached miss count"
LOADED = f"mlx5_core {BDF}: firmware version: 28.41.1000"


@dataclass
class Recorded:
    """A host whose log is given."""

    log: tuple[KmsgRecord, ...] | Unreadable

    def kernel_log(self, wanted: Callable[[KmsgRecord], bool]) -> tuple[KmsgRecord, ...] | Unreadable:
        return self.log if isinstance(self.log, Unreadable) else tuple(filter(wanted, self.log))

    def now(self) -> float:
        return 1000.0


def observed(*records: KmsgRecord) -> KernelLog:
    seen = kernel_log.observe(Recorded(records))  # type: ignore[arg-type]
    assert isinstance(seen, KernelLog)
    return seen


def line(text: str, number: int = 1, from_kernel: bool = True) -> KernelLogLine:
    return KernelLogLine(number, 1.0, 3, from_kernel, text)


KEPT_ROWS = [
    (4, 0, "a warning", True),
    (5, 0, "a notice", False),
    (0, 0, "an emergency", True),
    (6, 0, f"pci {BDF}: information about a device", True),
    (6, 3, "systemd[1]: Started something", False),
    (4, 1, "a drill", True),
    (6, 1, MISS, True),
]


@pytest.mark.parametrize(("level", "facility", "text", "kept"), KEPT_ROWS)
def test_kept_are_warnings_and_lines_with_an_address(level: int, facility: int, text: str, kept: bool) -> None:
    seen = observed(KmsgRecord(7, 2.5, level, facility, text))
    assert seen.lines == ((KernelLogLine(7, 2.5, level, facility == 0, text),) if kept else ())


def test_the_newest_count() -> None:
    seen = observed(*(KmsgRecord(number, 1.0, 3, 0, "text") for number in range(LINES_LIMIT + 1)))
    assert (len(seen.lines), seen.lines[0].number, seen.lines[-1].number) == (LINES_LIMIT, 1, LINES_LIMIT)


def test_processes_that_crash_push_no_line_of_a_driver_out() -> None:
    crashes = [
        KmsgRecord(number, 1.0, 3, 0, "a[1]: segfault at 0", of_process=True) for number in range(1, 2 * LINES_LIMIT)
    ]
    seen = observed(KmsgRecord(0, 1.0, 3, 0, MISS), *crashes)
    assert (seen.lines[0].text, seen.lines[-1].number) == (MISS, 2 * LINES_LIMIT - 1)
    assert seen.heard() == seen.lines[:1]
    assert len(seen.lines) == 1 + PROCESS_LINES_LIMIT


def test_what_two_looks_find_is_made_once() -> None:
    old, new = (KmsgRecord(number, 1.0, 3, 0, f"password={number}") for number in (1, 2))
    before, after = observed(old), observed(old, new)
    assert after.lines[0] is before.lines[0]
    assert [one.text for one in after.lines] == ["password=***"] * 2


def test_a_log_that_may_not_be_read_is_unreadable() -> None:
    refused = Unreadable(Why.DENIED, "/dev/kmsg", errno.EPERM)
    assert kernel_log.observe(Recorded(refused)) == refused  # type: ignore[arg-type]


def test_this_machines_log_can_be_read_or_is_refused() -> None:
    seen = kernel_log.observe(Host())
    assert isinstance(seen, KernelLog) or seen.kind is Why.DENIED


ADDRESS_ROWS = [
    (MISS, (BDF,)),
    ("no address", ()),
    (f"pcieport 0000:5b:01.0: AER: Uncorrected (Fatal) error received: {BDF}", ("0000:5b:01.0", BDF)),
    ("mlx5_core 10000:01:00.0: behind VMD", ("10000:01:00.0",)),
    ("NVRM: Xid (PCI:0000:3b:00): 79", ()),
    ("eth0: 94:6d:ae:cd:e7:00.5", ()),
    (f"[{BDF}]", (BDF,)),
]


@pytest.mark.parametrize(("text", "addresses"), ADDRESS_ROWS)
def test_addresses(text: str, addresses: tuple[str, ...]) -> None:
    assert line(text).addresses == addresses
    assert line(text).bdf == (addresses[0] if addresses else "")


PROBED_ROWS = [
    LOADED,
    f"mlx5_core {BDF}: enabling device (0000 -> 0002)",
    f"pci {BDF}: [15b3:1021] type 00 class 0x020000 PCIe Endpoint",
    f"pci {BDF}: [15b3:1021] type 00 class 0x020000",
    f"mlx4_core {BDF}: 63.008 Gb/s available PCIe bandwidth (8.0 GT/s PCIe x8 link)",
    f"bnxt_en {BDF}: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 link at 0000:5b:00.0",
    f"hns3 {BDF}: hclge driver initialization finished.",
    f"hns3 {BDF}: Reset done, hclge driver initialization finished.",
    f"hns3 {BDF}: finished initializing hclgevf driver",
    f"efa {BDF} efa_0: IB device registered",
]


@pytest.mark.parametrize("probed", PROBED_ROWS)
def test_says_that_a_device_was_set_up_again(probed: str) -> None:
    assert line(probed).sets_up


@pytest.mark.parametrize("probed", PROBED_ROWS)
@pytest.mark.parametrize("before", ["traps: a[1] trap invalid opcode ip:1 sp:2 error:0 in ", " in ", "x: ", "[1]: "])
def test_a_line_that_another_begins_sets_nothing_up(before: str, probed: str) -> None:
    assert not line(before + probed).sets_up


def test_a_driver_may_name_its_function_before_it_says_so() -> None:
    assert line(f"mlx5_core {BDF}: mlx5_function_setup:1012:(pid 9): firmware version: 28.41.1000").sets_up


@pytest.mark.parametrize(
    "text",
    [
        MISS,
        f"mlx5_core {BDF}: Live patch updated firmware version: 28.41.1001",
        f"mlx5_core {BDF}: Port module event: module 0, Cable plugged",
        "af9013 7-001c: firmware version is 5.1.0.0",
    ],
)
def test_other_lines_say_nothing_of_it(text: str) -> None:
    assert not line(text).sets_up


def test_what_a_process_wrote_is_heard_on_demand() -> None:
    written = line(LOADED, number=2, from_kernel=False)
    seen = KernelLog(0.0, (line(MISS), written))
    assert seen.heard() == (line(MISS),)
    assert seen.heard(from_user_space=True) == (line(MISS), written)
