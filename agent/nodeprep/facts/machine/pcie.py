"""What a PCIe link carries."""

from __future__ import annotations

# Gb/s that a lane carries at so many GT/s, encoding taken off (include/linux/pci.h, PCIE_SPEED2MBS_ENC).
LANE = {2.5: 2.0, 5.0: 4.0, 8.0: 7.88, 16.0: 15.75, 32.0: 31.5, 64.0: 63.0}


def bandwidth(width: int | None, speed: float | None) -> float | None:
    """Gb/s in one direction; None where a part is not shown, or the speed is newer than this table."""
    return width * LANE[speed] if width is not None and speed in LANE else None
