"""Every check, in the order in which a person would look: the bus, drivers, devices, ports, pods' network, the rest."""

from __future__ import annotations

from nodeprep.checks.cni import binaries, directory, first, parse, rdma_netns, stale_conf
from nodeprep.checks.counter import physical, stalled, transport
from nodeprep.checks.eni import (
    addresses,
    eri_address,
    foreign_address,
    free,
    ghost_link,
    missing_link,
    os_manager,
    primary_name,
    record,
    trunk,
    up,
)
from nodeprep.checks.eni import mtu as eni_mtu
from nodeprep.checks.erdma import agent as erdma_agent
from nodeprep.checks.erdma import cr as erdma_cr
from nodeprep.checks.erdma import device as erdma_device
from nodeprep.checks.erdma import mode as erdma_mode
from nodeprep.checks.erdma import module as erdma_module
from nodeprep.checks.fs import mounts
from nodeprep.checks.imds import identity, reachable, token_mode
from nodeprep.checks.klog import nic as klog_nic
from nodeprep.checks.klog import nic_module
from nodeprep.checks.limits import memlock, shm_hugepages
from nodeprep.checks.lingjun import vf_topology, zone
from nodeprep.checks.module import core as module_core
from nodeprep.checks.module import flavour
from nodeprep.checks.pci import acs_iommu, aer, answers, driver_bound, expected_nic, numa, rdma_driver
from nodeprep.checks.pci import link as pci_link
from nodeprep.checks.plugin import tolerates_gate
from nodeprep.checks.port import bond, flap, gid, guid, layer, mtu, names, neighbour, netdev, present, rate, state
from nodeprep.checks.qos import lossless
from nodeprep.checks.rdma import device_nodes, firmware, gpudirect, netns_mode, sources_agree, verbs_class
from nodeprep.checks.route import default as default_route
from nodeprep.checks.route import out, reverse_path, rules, tables
from nodeprep.checks.sysctl import arp, forward, forward_policy, rp_filter
from nodeprep.checks.terway import (
    bpffs,
    directories,
    ip_sufficient,
    kernel,
    mode,
    pod,
    policy_port,
    two_erdma_owners,
    veth,
)
from nodeprep.checks.terway import config as terway_config
from nodeprep.checks.terway import socket as terway_socket
from nodeprep.checks.time import sync
from nodeprep.model import Check

# Families and checks that only a node of Alibaba Cloud has anything for: elsewhere they are absent, and not heard of.
ALIBABA_CLOUD = frozenset(
    {
        *("imds", "eni", "terway", "erdma", "lingjun"),
        *("route.rules", "route.tables", "sysctl.rp-filter", "sysctl.arp", "sysctl.forward-policy"),
    }
)

ALL: tuple[Check, ...] = (
    expected_nic.CHECK,
    answers.CHECK,
    erdma_module.CHECK,
    driver_bound.CHECK,
    module_core.CHECK,
    erdma_device.CHECK,
    erdma_mode.CHECK,
    rdma_driver.CHECK,
    pci_link.CHECK,
    aer.CHECK,
    acs_iommu.CHECK,
    numa.CHECK,
    flavour.CHECK,
    verbs_class.CHECK,
    device_nodes.CHECK,
    firmware.CHECK,
    gpudirect.CHECK,
    netns_mode.CHECK,
    sources_agree.CHECK,
    present.CHECK,
    names.CHECK,
    state.CHECK,
    rate.CHECK,
    layer.CHECK,
    netdev.CHECK,
    gid.CHECK,
    mtu.CHECK,
    guid.CHECK,
    bond.CHECK,
    neighbour.CHECK,
    flap.CHECK,
    physical.CHECK,
    transport.CHECK,
    stalled.CHECK,
    klog_nic.CHECK,
    nic_module.CHECK,
    lossless.CHECK,
    reachable.CHECK,
    identity.CHECK,
    token_mode.CHECK,
    primary_name.CHECK,
    missing_link.CHECK,
    ghost_link.CHECK,
    up.CHECK,
    addresses.CHECK,
    record.CHECK,
    foreign_address.CHECK,
    eri_address.CHECK,
    eni_mtu.CHECK,
    os_manager.CHECK,
    free.CHECK,
    trunk.CHECK,
    erdma_cr.CHECK,
    erdma_agent.CHECK,
    vf_topology.CHECK,
    zone.CHECK,
    kernel.CHECK,
    directories.CHECK,
    bpffs.CHECK,
    terway_config.CHECK,
    mode.CHECK,
    pod.CHECK,
    terway_socket.CHECK,
    policy_port.CHECK,
    ip_sufficient.CHECK,
    veth.CHECK,
    two_erdma_owners.CHECK,
    directory.CHECK,
    first.CHECK,
    parse.CHECK,
    binaries.CHECK,
    stale_conf.CHECK,
    rdma_netns.CHECK,
    tolerates_gate.CHECK,
    default_route.CHECK,
    forward.CHECK,
    rp_filter.CHECK,
    arp.CHECK,
    forward_policy.CHECK,
    rules.CHECK,
    tables.CHECK,
    out.CHECK,
    reverse_path.CHECK,
    memlock.CHECK,
    shm_hugepages.CHECK,
    mounts.CHECK,
    sync.CHECK,
)
