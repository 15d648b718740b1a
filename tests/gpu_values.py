"""Builders of GPUs and of what their drivers show, for tests."""

from __future__ import annotations

from typing import Any

from nodeprep.facts.machine.gpu import FabricManager, GpuDriver, GpuInformation
from nodeprep.facts.machine.limits import FABRIC_MANAGER, GpuDaemon, Limits
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Pci, PciDevice
from tests.values import nic, pci

AT, OTHER = "0000:1b:00.0", "0000:3d:00.0"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
NODES = ("nvidia-uvm", "nvidia0", "nvidia1", "nvidiactl")


def gpu(**different: Any) -> PciDevice:
    """An H100 with its driver."""
    usual: dict[str, Any] = {
        "address": AT,
        "id": "10de:2330",
        "pci_class": "030200",
        "driver": "nvidia",
        "modalias": "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00",
        "rdma": (),
        "netdevs": (),
    }
    return nic(**(usual | different))


def gpus(count: int) -> tuple[PciDevice, ...]:
    """So many of them, at 0000:00:00.0, 0000:01:00.0 and so on."""
    return tuple(gpu(address=address(number)) for number in range(count))


def bus(count: int) -> Pci:
    """A PCI bus with `gpus` and nothing else."""
    return pci(*gpus(count))


def address(number: int) -> str:
    return f"0000:{number:02x}:00.0"


def uuids(count: int, replicas: int = 0) -> tuple[str, ...]:
    """The ids that NVIDIA's plugin gives to so many of them, or to their shares."""
    whole = tuple(f"GPU-{number}" for number in range(count))
    return tuple(f"{one}::{share}" for one in whole for share in range(replicas)) if replicas else whole


def amd(**different: Any) -> PciDevice:
    """An MI300X with its driver."""
    usual = {"id": "1002:74a1", "pci_class": "120000", "driver": "amdgpu"}
    return gpu(**(usual | different))


def nvswitch(address: str = "0000:07:00.0") -> PciDevice:
    return gpu(address=address, id="10de:22a3", pci_class="068000", driver="nvidia-nvswitch")


def information(**different: Any) -> GpuInformation:
    usual: dict[str, Any] = {
        "address": AT,
        "model": "NVIDIA H100 80GB HBM3",
        "uuid": "GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
        "minor": 0,
        "excluded": False,
    }
    return GpuInformation(**(usual | different))


def driver(**different: Any) -> GpuDriver:
    """A driver that has two GPUs ready."""
    usual: dict[str, Any] = {
        "at": 0.0,
        "version": OPEN,
        "gpus": (information(), information(address=OTHER, minor=1)),
        "nodes": NODES,
        "fabric_manager": FabricManager(6666, False),
    }
    return GpuDriver(**(usual | different))


def listing(count: int, **different: Any) -> GpuDriver:
    """A driver that lists `gpus` of this count, by `uuids`."""
    found = tuple(information(address=address(at), uuid=uuid, minor=at) for at, uuid in enumerate(uuids(count)))
    return driver(**({"gpus": found} | different))


def modules(*loaded: str, available: tuple[str, ...] | None = ("nvidia", "amdgpu")) -> Modules:
    return Modules(0.0, loaded, (), available, (), ())


def limits(*daemons: str, shown: bool = True) -> Limits:
    """The daemons that run; with `shown` False as a pod sees it."""
    running = tuple(GpuDaemon(name, 2201, "") for name in daemons)
    return Limits(0.0, (), (), 1 << 40, 1 << 39, daemons=running or (() if shown else None))


MANAGED = limits(FABRIC_MANAGER)
