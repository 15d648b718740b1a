"""The NVIDIA driver by its own word. The GPUs themselves are PCI functions (facts/machine/pci)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.model import Fact, Shown, guarded, shown

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

VERSION = "/proc/driver/nvidia/version"


@shown
class GpuDriver(Shown):
    """`version` is the driver's version text, None where no driver is loaded."""

    at: float
    version: str | None

    @property
    def is_open(self) -> bool:
        """Whether it is the open kernel module, the one that exports DMA-BUF."""
        return "Open Kernel Module" in (self.version or "")


def observe(host: Host) -> GpuDriver:
    return GpuDriver(host.now(), guarded(host.files.text(VERSION)))


FACT = Fact(GpuDriver, observe, every=60.0)
