"""What a node shows, as values: one file per thing, each with the values and `observe`."""

from nodeprep.facts import (
    clock,
    counters,
    devnodes,
    gpu,
    kernel_log,
    limits,
    links,
    modules,
    mounts,
    pci,
    qos,
    rdma,
    rdma_netlink,
    system,
)

ALL = (
    system.FACT,
    pci.FACT,
    modules.FACT,
    rdma.FACT,
    rdma_netlink.FACT,
    devnodes.FACT,
    links.FACT,
    counters.FACT,
    kernel_log.FACT,
    gpu.FACT,
    qos.FACT,
    limits.FACT,
    mounts.FACT,
    clock.FACT,
)
