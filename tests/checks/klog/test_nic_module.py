"""klog.nic-module by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.klog.nic import Want
from nodeprep.checks.klog.nic_module import CHECK
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from tests.values import BDF, expected, nic, pci, rdma, say, verdicts

AT = f"mlx5_core {BDF}: "
HOT = AT + "Port module event[error]: module 0, Cable error, High Temperature"
STARVED = AT + "mlx5_pcie_event:301:(pid 10): Detected insufficient power on the PCIe slot (27W)."
PLUGGED = AT + "Port module event: module 0, Cable plugged"
ENOUGH = AT + "mlx5_pcie_event:298:(pid 10): PCIe slot advertised sufficient power (75W)."
LOADED = AT + "firmware version: 28.41.1000"


def log(*texts: str, from_kernel: bool = True) -> KernelLog:
    return KernelLog(0.0, tuple(KernelLogLine(number, 9.0, 4, from_kernel, text) for number, text in enumerate(texts)))


ROWS = [
    ((HOT,), "warn ModuleHot"),
    ((STARVED,), "warn SlotPower"),
    ((STARVED, HOT), "warn ModuleHot"),
    ((PLUGGED, ENOUGH), "ok Quiet"),
    ((HOT, STARVED, LOADED), "ok Quiet"),
    ((HOT.replace("5c", "5d"),), "ok Quiet"),
    ((), "ok Quiet"),
]


@pytest.mark.parametrize(("texts", "says"), ROWS)
def test_says(texts: tuple[str, ...], says: str) -> None:
    assert say(CHECK, pci(nic()), rdma(), expected(), log(*texts)) == says


def test_what_a_process_wrote_counts_only_on_demand() -> None:
    facts = (pci(nic()), rdma(), expected(), log(HOT, from_kernel=False))
    assert say(CHECK, *facts) == "ok Quiet"
    assert say(CHECK, *facts, want=Want(accept_userspace=True)) == "warn ModuleHot"


def test_nothing_of_a_node_without_rdma() -> None:
    assert say(CHECK, pci(nic(rdma=())), rdma(), expected(), log(HOT)) == "absent Nothing"


@pytest.mark.parametrize("kind", [HOT, STARVED])
def test_machines_read_the_newest_line(kind: str) -> None:
    (verdict,) = verdicts(CHECK, pci(nic()), rdma(), expected(), log(kind, f"{kind} again", PLUGGED))
    assert verdict.observed == f"{kind} again"


def test_message() -> None:
    (verdict,) = verdicts(CHECK, pci(nic()), rdma(), expected(), log(HOT))
    assert verdict.message == (
        f"0000:5c:00.0 (15b3:1021, mlx5_3/eth2): the kernel said 9 s after boot: {HOT}; "
        "a module that stays hot switches its laser off"
    )
