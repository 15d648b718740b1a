"""Builders for tests of the ENI ledger: a shared-ENI node whose records agree. Change one thing."""

from __future__ import annotations

from typing import Any

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.kubernetes.cluster import Cluster, EniRecord
from nodeprep.facts.network.links import Address, Link, Links
from nodeprep.facts.rdma.rdma import RdmaDevice
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, eni_address, eni_record, terway_node
from tests.imds_values import PRIMARY_MAC, SHARED_MAC
from tests.values import device, link, links

ERI_MAC = "00:16:3e:aa:bb:03"
NODE_ADDRESS = "192.168.0.116"
DENIED = Unreadable(Why.DENIED, "nodes.network.alibabacloud.com", 403)
SILENT = Unreadable(Why.TIMEOUT, "100.100.100.200", detail="no answer in 5 s")


def eth0(**different: Any) -> Link:
    """The primary ENI's link."""
    usual: dict[str, Any] = {"name": "eth0", "index": 2, "mac": PRIMARY_MAC, "bdf": "0000:00:05.0", "mtu": 1500}
    mac = different.get("mac", PRIMARY_MAC)
    return link(**({"permanent_mac": mac} | usual | different))


def eth1(**different: Any) -> Link:
    """The second ENI's link; its table is 1006."""
    usual: dict[str, Any] = {"name": "eth1", "index": 6, "mac": SHARED_MAC, "bdf": "0000:00:06.0"}
    return eth0(**(usual | different))


def eth2(**different: Any) -> Link:
    """The link of an ERI."""
    usual: dict[str, Any] = {"name": "eth2", "index": 7, "mac": ERI_MAC, "bdf": "0000:00:07.0"}
    return eth0(**(usual | different))


def address(**different: Any) -> Address:
    """The node's address as Terway puts it on eth1."""
    usual: dict[str, Any] = {
        "netdev": "eth1",
        "address": NODE_ADDRESS,
        "prefix": 32,
        "scope": "global",
        "dynamic": False,
    }
    return Address(**(usual | different))


def kernel(*found: Link, **different: Any) -> Links:
    """These links, by default both, with the node's address on eth1."""
    usual: dict[str, Any] = {"addresses": (address(),)}
    return links(*(found or (eth0(), eth1())), **(usual | different))


def erdma(**different: Any) -> RdmaDevice:
    """erdma_0. Its GUID is made of the ERI's MAC address."""
    usual: dict[str, Any] = {"name": "erdma_0", "id": VENDOR_DEVICE, "node_guid": "0216:3eff:feaa:bb03"}
    return device(**(usual | different))


def known(**different: Any) -> EniRecord:
    """Terway's record of the second ENI, with every address that the metadata lists."""
    addresses = (
        eni_address(address="192.168.0.130", primary=True, pod=""),
        eni_address(),
        eni_address(address="192.168.0.135", pod=""),
    )
    return eni_record(**({"id": "eni-shared1", "mac": SHARED_MAC, "addresses": addresses} | different))


def recorded(*enis: EniRecord, **different: Any) -> Cluster:
    """The records of Kubernetes; of the ENIs, by default `known()`."""
    return cluster(**({"terway": terway_node(*(enis or (known(),)))} | different))
