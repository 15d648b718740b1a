"""Kernel logs of whole nodes beside their trees: a healthy boot raises no alarm, a fault in it is named on its device.

The lines come of the formats in docs/kernel_log/formats.tsv; tests/trees/logs has them as syslog(2) gives them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep import check_round
from nodeprep.checks.klog import nic, nic_module
from nodeprep.config import profile_files
from nodeprep.doors.files import kmsg
from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import kernel_log, pci
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from nodeprep.facts.machine.printk import LineClass, class_of
from nodeprep.facts.rdma import rdma
from nodeprep.look import Look
from nodeprep.observer import Observer
from tests.rigs import trees

LOGS = Path(__file__).parent / "trees" / "logs"
CHECKS = (nic.CHECK, nic_module.CHECK)
RAIL = "0000:4c:00.0"
BRIDGE = "0000:4b:01.0"


def log(name: str, *more: str) -> KernelLog:
    """A log as the agent keeps it, with lines said later."""
    later = "".join(f"<3>[ 9000.{index:06d}] {text}\n" for index, text in enumerate(more))
    records = kmsg.parse_syslog((LOGS / f"{name}.dmesg").read_bytes() + later.encode()).records
    lines = [
        KernelLogLine(one.number, one.at, one.level, one.facility == 0, one.text)
        for one in records
        if kernel_log.speaks(one)
    ]
    return KernelLog(9001.0, tuple(lines))


def said(tree: Path, heard: KernelLog) -> list[tuple[str, str, str, str]]:
    """Check, status, device and reason of what is not fine."""
    look = Observer(Host(str(tree), live=False)).look((pci.FACT, rdma.FACT))
    live = Look(look.at, True, {**look.facts, KernelLog: heard})
    found = check_round.judge(CHECKS, live, None, profile_files.effective("rdma-roce"), {}).findings
    assert len(found) >= 24  # 12 NICs, two checks
    return [(one.check, one.status, one.subject.place, one.verdict.reason) for one in found if one.status != "ok"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trees.build("h100-roce", tmp_path_factory.mktemp("boot") / "node")


def test_a_healthy_boot_of_eight_gpus_gives_no_warning(tree: Path) -> None:
    heard = log("h100-roce")
    assert sum("insufficient power" in line.text for line in heard.lines) == 12
    assert said(tree, heard) == []


def test_each_warning_of_a_healthy_boot_has_a_class() -> None:
    warnings = [line.text for line in log("h100-roce").lines if line.level <= kernel_log.WARNING]
    assert {class_of(text) for text in warnings} == {LineClass.NOTHING}


LATER = [
    # what the kernel says later                                                                says
    (f"mlx5_core {RAIL}: print_health_info:425:(pid 0): PCI slot is unavailable", "fail DeviceFailed"),
    (f"mlx5_core {RAIL}: mlx5_health_try_recover:360:(pid 9): health recovery failed", "fail DeviceFailed"),
    (f"pcieport {BRIDGE}: pciehp: Slot(5): Link Down", "fail DeviceFailed"),
    (f"pcieport {BRIDGE}: DPC: containment event, status:0x1f01 source:0x0000", "fail DeviceFailed"),
    (f"pcieport {BRIDGE}: AER: device recovery failed", "fail DeviceFailed"),
    (f"pcieport {BRIDGE}: AER: device recovery successful", "warn DeviceReset"),
    ("infiniband mlx5_4: mlx5r_umr_recover:150:(pid 3): couldn't recover UMR, err -5", "fail DeviceFailed"),
    ("NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 3 timed out", "warn SendStalled"),
]


@pytest.mark.parametrize(("text", "says"), LATER)
def test_a_later_line_is_named_on_its_device_alone(tree: Path, text: str, says: str) -> None:
    status, reason = says.split()
    assert said(tree, log("h100-roce", text)) == [("klog.nic", status, RAIL, reason)]


def test_a_nic_that_the_bus_found_again_leaves_the_lines_of_its_bridge_behind(tree: Path) -> None:
    down = f"pcieport {BRIDGE}: pciehp: Slot(5): Link Down"
    up = f"pcieport {BRIDGE}: pciehp: Slot(5): Card present"
    found = f"pci {RAIL}: [15b3:1021] type 00 class 0x020000"
    assert said(tree, log("h100-roce", down, up, found)) == []
    assert said(tree, log("h100-roce", found, down, up)) == [("klog.nic", "fail", RAIL, "DeviceFailed")]
