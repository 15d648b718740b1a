"""Questions about the PCI functions that RDMA stands on."""
