"""How much of a job's data one RoCE packet carries, by the MTU of its netdev."""

from __future__ import annotations

from nodeprep.facts.rdma.rdma import Port, Rdma

IWARP = "4"  # RDMA_NODE_RNIC (include/rdma/ib_verbs.h)
# enum ib_mtu; what iboe_get_mtu takes off (include/rdma/ib_addr.h): GRH 40, UDP 8, BTH 12, XRC 4, atomics 28, ICRC 4.
PAYLOADS, HEADERS = (4096, 2048, 1024, 512, 256), 96


def payload(mtu: int) -> int:
    """The largest RoCE MTU that fits into packets of a netdev with this MTU, 0 if none does. Both in bytes."""
    return next((size for size in PAYLOADS if size + HEADERS <= mtu), 0)


def shown(mtu: int, port: Port, rdma: Rdma) -> str:
    """An MTU for people, with what it means for RoCE."""
    device = rdma.device(port.device)
    iwarp = device is not None and (device.node_type or "").startswith(IWARP)
    return str(mtu) if iwarp else f"{mtu} (RoCE MTU {payload(mtu)})"
