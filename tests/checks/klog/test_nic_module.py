"""klog.nic-module by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.klog.nic import Want
from nodeprep.checks.klog.nic_module import CHECK
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from tests.values import BDF, expected, nic, pci, rdma, say, verdicts

AT = f"mlx5_core {BDF}: "
HOT = AT + "Port module event[error]: module 0, Cable error, High Temperature"
HOT_CHIP = AT + "temp_warn:150:(pid 0): High temperature on sensors with bit set 0 1"
HOT_BNXT = "bnxt_en 0000:5c:00.0 eth2: Chip temperature has gone above the fatal thermal threshold!"
STARVED = AT + "Port module event[error]: module 0, Cable error, Power budget exceeded"
DARK = AT + (
    "Port module event[error]: module 0, Cable error, One or more network ports have been powered down due to "
    "insufficient/unadvertised power on the PCIe slot"
)
SLOT = "pcieport 0000:5b:01.0: pciehp: Slot(5): Power fault"
USUAL = AT + "mlx5_pcie_event:301:(pid 10): Detected insufficient power on the PCIe slot (27W)."
PLUGGED = AT + "Port module event: module 0, Cable plugged"
ENOUGH = AT + "mlx5_pcie_event:298:(pid 10): PCIe slot advertised sufficient power (75W)."
LOADED = AT + "firmware version: 28.41.1000"


def log(*texts: str, from_kernel: bool = True) -> KernelLog:
    return KernelLog(0.0, tuple(KernelLogLine(number, 9.0, 4, from_kernel, text) for number, text in enumerate(texts)))


ROWS = [
    ((HOT,), "warn ModuleHot"),
    ((HOT_CHIP,), "warn DeviceHot"),
    ((HOT_BNXT,), "warn DeviceHot"),
    ((HOT, HOT_CHIP), "warn ModuleHot"),
    ((STARVED,), "warn SlotPower"),
    ((DARK,), "warn SlotPower"),
    ((SLOT,), "warn SlotPower"),
    ((SLOT.replace("5b:01", "5b:02"),), "ok Quiet"),
    ((USUAL, USUAL), "ok Quiet"),
    ((STARVED, HOT), "warn ModuleHot"),
    ((PLUGGED, ENOUGH), "ok Quiet"),
    ((HOT, STARVED, LOADED), "ok Quiet"),
    ((HOT.replace("5c", "5d"),), "ok Quiet"),
    ((), "ok Quiet"),
]


@pytest.mark.parametrize(("texts", "says"), ROWS)
def test_says(texts: tuple[str, ...], says: str) -> None:
    assert say(CHECK, pci(nic(bridges=("0000:5b:01.0",))), rdma(), expected(), log(*texts)) == says


def test_what_a_process_wrote_counts_only_on_demand() -> None:
    facts = (pci(nic()), rdma(), expected(), log(HOT, from_kernel=False))
    assert say(CHECK, *facts) == "ok Quiet"
    assert say(CHECK, *facts, want=Want(accept_userspace=True)) == "warn ModuleHot"


def test_nothing_of_a_node_without_rdma() -> None:
    assert say(CHECK, pci(nic(rdma=())), rdma(), expected(), log(HOT)) == "absent Nothing"


@pytest.mark.parametrize("kind", [HOT, HOT_CHIP, STARVED])
def test_machines_read_the_newest_line(kind: str) -> None:
    (verdict,) = verdicts(CHECK, pci(nic()), rdma(), expected(), log(kind, f"{kind} again", PLUGGED))
    assert verdict.observed == f"{kind} again"


def test_message() -> None:
    (verdict,) = verdicts(CHECK, pci(nic()), rdma(), expected(), log(HOT))
    assert verdict.message == (
        f"0000:5c:00.0 (15b3:1021, mlx5_3/eth2): the kernel said 9 s after boot: {HOT}; "
        "a module that stays hot switches its laser off"
    )
