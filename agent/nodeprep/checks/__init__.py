"""Every check by its id, in the order in which a person would look: bus, drivers, devices, ports, pods' network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from nodeprep.model import Check

# Families and checks that only a node of Alibaba Cloud has anything for. On other nodes they are absent and not named.
ALIBABA_CLOUD = frozenset(
    {
        *("imds", "eni", "terway", "erdma", "lingjun"),
        *("route.rules", "route.tables", "sysctl.rp-filter", "sysctl.arp", "sysctl.forward-policy"),
    }
)

IDS = (
    "pci.expected-nic",
    "pci.answers",
    "erdma.module",
    "pci.driver-bound",
    "module.core",
    "erdma.device",
    "erdma.mode",
    "pci.rdma-driver",
    "pci.link",
    "pci.aer",
    "pci.acs-iommu",
    "pci.numa",
    "module.flavour",
    "rdma.verbs-class",
    "rdma.device-nodes",
    "rdma.firmware",
    "rdma.gpudirect",
    "rdma.netns-mode",
    "rdma.sources-agree",
    "port.present",
    "port.names",
    "port.state",
    "port.rate",
    "port.layer",
    "port.netdev",
    "port.gid",
    "port.mtu",
    "port.guid",
    "port.bond",
    "port.neighbour",
    "port.flap",
    "counter.physical",
    "counter.transport",
    "counter.stalled",
    "klog.nic",
    "klog.nic-module",
    "klog.xid",
    "qos.lossless",
    "imds.reachable",
    "imds.identity",
    "imds.token-mode",
    "eni.primary-name",
    "eni.missing-link",
    "eni.ghost-link",
    "eni.up",
    "eni.addresses",
    "eni.record",
    "eni.foreign-address",
    "eni.eri-address",
    "eni.mtu",
    "eni.os-manager",
    "eni.free",
    "eni.trunk",
    "erdma.cr",
    "erdma.agent",
    "lingjun.vf-topology",
    "lingjun.zone",
    "gpu.expected",
    "gpu.driver",
    "gpu.initialised",
    "gpu.nvml",
    "gpu.fabric-manager",
    "gpu.nic-affinity",
    "terway.kernel",
    "terway.directories",
    "terway.bpffs",
    "terway.config",
    "terway.mode",
    "terway.pod",
    "terway.socket",
    "terway.policy-port",
    "terway.ip-sufficient",
    "terway.veth",
    "terway.two-erdma-owners",
    "cni.directory",
    "cni.first",
    "cni.parse",
    "cni.binaries",
    "cni.stale-conf",
    "cni.rdma-netns",
    "kubelet.health",
    "kubelet.runtime",
    "plugin.kubelet-socket",
    "plugin.registered",
    "plugin.allocatable",
    "plugin.sockets",
    "plugin.in-use",
    "plugin.tolerates-gate",
    "route.default",
    "sysctl.forward",
    "sysctl.rp-filter",
    "sysctl.arp",
    "sysctl.forward-policy",
    "route.rules",
    "route.tables",
    "route.out",
    "route.reverse-path",
    "limits.memlock",
    "limits.shm-hugepages",
    "fs.mounts",
    "time.sync",
)


def is_of_alibaba_cloud(check_id: str) -> bool:
    return not ALIBABA_CLOUD.isdisjoint((check_id, check_id.partition(".")[0]))


class CheckRegistry(Mapping[str, "Check"]):
    """Checks by id. To list ids imports no check: a check is imported when it is first asked for.

    The id is the path: `port.state` is CHECK in checks/port/state.py. A hyphen becomes `_`.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = dict.fromkeys(ids)
        self._imported: dict[str, Check] = {}

    def __getitem__(self, check_id: str) -> Check:
        """Raises KeyError for an id that is not listed."""
        if check_id not in self._imported:
            if check_id not in self._ids:
                raise KeyError(check_id)
            module = import_module(f"{__name__}.{check_id.replace('-', '_')}")
            self._imported[check_id] = cast("Check", module.CHECK)
        return self._imported[check_id]

    def __contains__(self, check_id: object) -> bool:
        return check_id in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


CHECKS = CheckRegistry(IDS)
