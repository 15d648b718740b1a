"""The machine: PCI, kernel modules, kernel log, limits, mounts, clock."""
