"""What a node shows, as values: one file per thing, each with the values and `observe`."""

from nodeprep.facts.alibaba import erdma, imds, lingjun, terway
from nodeprep.facts.kubernetes import (
    allocatable_devices,
    cluster_requests,
    container_runtime,
    device_plugins,
    kubelet,
    resource_slices,
)
from nodeprep.facts.machine import clock, gpu, kernel_log, limits, modules, mounts, nvml, pci, system
from nodeprep.facts.network import cni, links, neighbours, netfilter, os_network, routes, sysctls
from nodeprep.facts.rdma import counters, devnodes, qos, rdma, rdma_netlink

ALL = (
    system.FACT,
    pci.FACT,
    modules.FACT,
    rdma.FACT,
    rdma_netlink.FACT,
    devnodes.FACT,
    erdma.FACT,
    lingjun.FACT,
    links.FACT,
    neighbours.FACT,
    routes.FACT,
    sysctls.FACT,
    netfilter.FACT,
    imds.FACT,
    cluster_requests.FACT,
    resource_slices.FACT,
    kubelet.FACT,
    allocatable_devices.FACT,
    device_plugins.FACT,
    container_runtime.FACT,
    os_network.FACT,
    cni.FACT,
    terway.FACT,
    counters.FACT,
    kernel_log.FACT,
    gpu.FACT,
    nvml.FACT,
    qos.FACT,
    limits.FACT,
    mounts.FACT,
    clock.FACT,
)
