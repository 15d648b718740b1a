"""Which built-in profile suits the hardware that a node shows: by class, never by device name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from nodeprep.facts.pci import Pci, PciDevice
from nodeprep.facts.rdma import CLASS, Port, Rdma
from nodeprep.model import CannotLook

ROCE, INFINIBAND = "rdma-roce", "rdma-infiniband"
INFINIBAND_CLASS = "0207"  # PCI_CLASS_NETWORK_INFINIBAND (include/linux/pci_ids.h)


@dataclass(frozen=True, slots=True)
class Suited:
    """A profile's name and the hardware that it rests on; None if no built-in one is for this hardware.

    `because` is what was looked for in vain where `nothing` was found.
    """

    profile: str | None
    because: str
    nothing: bool = False


def suited(pci: Pci | None, rdma: Rdma | None) -> Suited:
    """Ports count more than NICs: a port says which network it is for. None stands for what could not be seen."""
    ports = rdma.ports if rdma else ()
    nics = pci.nics if pci else ()
    layers = Counter(map(_layer, ports))
    if layers["InfiniBand"]:
        return Suited(INFINIBAND, _number(layers["InfiniBand"], "InfiniBand port"))
    if layers["Ethernet"]:
        return Suited(ROCE, _number(layers["Ethernet"], "Ethernet RDMA port"))
    if layers["Unknown"]:  # EFA and others that are neither
        return Suited(None, f"{_number(layers['Unknown'], 'RDMA port')} of neither InfiniBand nor Ethernet")
    controllers = [nic for nic in nics if nic.pci_class.startswith(INFINIBAND_CLASS)]
    if controllers:
        return Suited(INFINIBAND, _number(len(controllers), "InfiniBand controller"))
    able = [nic for nic in nics if _offers_rdma(nic)]
    if able:
        return Suited(ROCE, _number(len(able), "RDMA-capable NIC"))
    if ports:
        return Suited(ROCE, f"{_number(len(ports), 'RDMA port')} whose link layer could not be read")
    nic = "no NIC that offers RDMA" if pci else "no record of PCI devices"
    return Suited(None, f"no RDMA device in {CLASS}, {nic}", nothing=True)


def _offers_rdma(nic: PciDevice) -> bool:
    """Whether it has RDMA devices, or its Ethernet driver offers one on the auxiliary bus."""
    return bool(nic.rdma or nic.auxiliaries)


def _layer(port: Port) -> str | None:
    try:
        return port.layer
    except CannotLook:
        return None


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
