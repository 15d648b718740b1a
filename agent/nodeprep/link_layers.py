"""What an RDMA port speaks, in the words of ports/N/link_layer (drivers/infiniband/core/sysfs.c, link_layer_show)."""

from __future__ import annotations

ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
LAYERS = (INFINIBAND, ETHERNET, "Unknown")
