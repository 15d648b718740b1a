"""rdma.gpudirect by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.rdma.gpudirect import CHECK
from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.system import System
from nodeprep.model import Unreadable, Why
from tests.values import nic, pci, port, rdma, say, verdicts, wanted

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023"
GPU = nic(address="0000:1b:00.0", id="10de:2330", pci_class="030200", rdma=(), netdevs=())
BROKEN = Unreadable(Why.IO_ERROR, "/proc/driver/nvidia/version", 5)
LOAD = "peermem_load()"


def system(kernel: str) -> System:
    return System(0.0, "node", kernel, "", False, "", "", "")


def modules(*loaded: str) -> Modules:
    return Modules(0.0, loaded, (), None, (), ())


ROWS = [
    # driver  kernel              modules                   says
    (OPEN, "6.8.0-45-generic", (), "ok DmaBuf"),
    (OPEN, "5.12.0", (), "ok DmaBuf"),
    (OPEN, "5.11.22", (), f"warn NoGpuDirect {LOAD}"),
    (CLOSED, "6.8.0-45-generic", (), f"warn NoGpuDirect {LOAD}"),
    (CLOSED, "5.4.0", (), f"warn NoGpuDirect {LOAD}"),
    (CLOSED, "6.8.0-45-generic", ("nvidia_peermem",), "ok PeerMemory"),
    (OPEN, "5.4.0", ("nv_peer_mem",), "ok PeerMemory"),
    (CLOSED, "6.8.0-45-generic", ("nvidia",), f"warn NoGpuDirect {LOAD}"),
    (None, "6.8.0-45-generic", (), "absent Nothing"),
    (OPEN, "", (), "absent Nothing"),
    (CLOSED, "", (), f"warn NoGpuDirect {LOAD}"),
    (OPEN, "6.8.0-45-generic", None, "ok DmaBuf"),
    (OPEN, "5.4.0", None, "absent Nothing"),
    (CLOSED, "6.8.0-45-generic", None, "absent Nothing"),
    (BROKEN, "6.8.0-45-generic", (), "unknown CannotLook"),
]


@pytest.mark.parametrize(("driver", "kernel", "loaded", "says"), ROWS)
def test_says(driver: str | None, kernel: str, loaded: tuple[str, ...] | None, says: str) -> None:
    facts: list[object] = [pci(nic(), GPU), rdma(port()), wanted(port(), "profile"), GpuDriver(0.0, driver)]
    facts.append(system(kernel))
    if loaded is not None:
        facts.append(modules(*loaded))
    assert say(CHECK, *facts) == says


def test_a_node_without_gpus_or_without_rails_needs_none() -> None:
    driver, kernel, none = GpuDriver(0.0, CLOSED), system("6.8.0"), modules()
    assert say(CHECK, pci(nic()), rdma(port()), wanted(port(), "profile"), driver, kernel, none) == "absent Nothing"
    assert say(CHECK, pci(nic(), GPU), rdma(port()), wanted(port(), None), driver, kernel, none) == "absent Nothing"
    assert say(CHECK, pci(nic(), GPU), rdma(), wanted(port(), "profile"), driver, kernel, none) == "absent Nothing"


@pytest.mark.parametrize(
    ("driver", "kernel", "legs"),
    [
        (CLOSED, "6.8.0", "NVIDIA's kernel module is not the open one;"),
        (OPEN, "5.4.0", "instead: Linux 5.4.0 is older than 5.12;"),
        (CLOSED, "5.4.0", "NVIDIA's kernel module is not the open one and Linux 5.4.0 is older than 5.12;"),
    ],
)
def test_message_says_which_leg_is_missing(driver: str, kernel: str, legs: str) -> None:
    facts = (pci(nic(), GPU), rdma(port()), wanted(port(), "profile"), GpuDriver(0.0, driver), system(kernel))
    (verdict,) = verdicts(CHECK, *facts, modules())
    assert legs in verdict.message
    assert "modprobe nvidia_peermem" in verdict.message
