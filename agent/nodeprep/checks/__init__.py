"""Every check, in the order in which a person would look: the bus, modules, devices, ports, what they say, the rest."""

from __future__ import annotations

from nodeprep.checks.counter import physical, stalled, transport
from nodeprep.checks.fs import mounts
from nodeprep.checks.klog import nic as klog_nic
from nodeprep.checks.klog import nic_module
from nodeprep.checks.limits import memlock, shm_hugepages
from nodeprep.checks.module import core as module_core
from nodeprep.checks.module import flavour
from nodeprep.checks.pci import acs_iommu, aer, answers, driver_bound, expected_nic, numa, rdma_driver
from nodeprep.checks.pci import link as pci_link
from nodeprep.checks.port import bond, flap, gid, guid, layer, mtu, names, neighbour, netdev, present, rate, state
from nodeprep.checks.qos import lossless
from nodeprep.checks.rdma import device_nodes, firmware, gpudirect, netns_mode, sources_agree, verbs_class
from nodeprep.checks.time import sync
from nodeprep.model import Check

ALL: tuple[Check, ...] = (
    expected_nic.CHECK,
    answers.CHECK,
    driver_bound.CHECK,
    module_core.CHECK,
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
    memlock.CHECK,
    shm_hugepages.CHECK,
    mounts.CHECK,
    sync.CHECK,
)
