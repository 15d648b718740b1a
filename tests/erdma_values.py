"""Builders for tests: a node with two Elastic RDMA interfaces, and a Lingjun node's virtual functions."""

from __future__ import annotations

from typing import Any

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE, Erdma
from nodeprep.facts.alibaba.lingjun import Lingjun, VfTopology, VirtualFunction
from nodeprep.facts.machine.pci import PciDevice
from nodeprep.facts.rdma.rdma import RdmaDevice
from tests.values import device, nic

FIRST, SECOND = "0000:00:07.0", "0000:00:08.0"
MAC, GUID = "00:16:3e:aa:bb:03", "0216:3eff:feaa:bb03"  # those of tests/cluster_values.erdma_device
TOPOLOGY = "/var/run/hc-eni-host/vf-topo-vpc"


def erdma(**different: Any) -> Erdma:
    """One function at FIRST; the vendor's driver, loaded in compat mode."""
    usual: dict[str, Any] = {
        "at": 0.0,
        "functions": (FIRST,),
        "loaded": True,
        "installed": True,
        "compat": True,
        "deferred": (),
    }
    return Erdma(**(usual | different))


def eri(**different: Any) -> PciDevice:
    """The PCI function at FIRST, bound to erdma."""
    usual = {"address": FIRST, "id": VENDOR_DEVICE, "driver": "erdma", "rdma": ("erdma_0",), "netdevs": ()}
    return nic(**(usual | different))


def erdma_0(**different: Any) -> RdmaDevice:
    """The RDMA device of the function at FIRST, made of MAC."""
    usual = {"name": "erdma_0", "bdf": FIRST, "id": VENDOR_DEVICE, "node_guid": GUID, "board": None}
    return device(**(usual | different))


def function(**different: Any) -> VirtualFunction:
    """A virtual function, bound as Terway needs it."""
    usual: dict[str, Any] = {"bdf": "0000:01:01.6", "present": True, "driver": "virtio-pci", "autoprobed": True}
    return VirtualFunction(**(usual | different))


def lingjun(*functions: VirtualFunction, **different: Any) -> Lingjun:
    """A topology file with these functions."""
    usual: dict[str, Any] = {"file": TOPOLOGY, "functions": functions}
    return Lingjun(0.0, (VfTopology(**(usual | different)),))
