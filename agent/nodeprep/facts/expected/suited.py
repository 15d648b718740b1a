"""Which built-in profile suits the hardware that a node shows: by class, never by device name."""

from __future__ import annotations

from collections import Counter

from nodeprep import link_layers
from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.expected import kinds, soundness
from nodeprep.facts.expected.kinds import HANDING_ON
from nodeprep.facts.machine.pci import DISPLAY, INFINIBAND_CLASS, NVIDIA, Pci, PciDevice
from nodeprep.facts.network.cni import Cni
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import CLASS, Port, Rdma
from nodeprep.model import CannotLook, Unreadable, raw
from nodeprep.values import Value

ROCE, INFINIBAND, RDMA = "rdma-roce", "rdma-infiniband", "rdma"
BASE, SHARED_ENI, EXCLUSIVE_ENI = "base", "tcp-shared-eni", "mpijob-exclusive-eni"
ERDMA_CPU, ERDMA_GPU = "rdma-erdma-cpu", "rdma-erdma-gpu"


class SuitedProfile(Value):
    """A profile's name and the hardware that it rests on; None if no built-in one is for this hardware.

    `because` is what was looked for, where `nothing` was found.
    """

    profile: str | None
    because: str
    nothing: bool = False


def suited(pci: Pci | None, rdma: Rdma | None, links: Links | None = None) -> SuitedProfile:
    """Ports count more than NICs: a port says which network it is for. None stands for what could not be seen.

    Of `links` only the bonds count: a leg is not faster than the bond that carries on without it.

    An Elastic RDMA interface decides where it is all the RDMA there is: beside rails it is the front end's.
    """
    ports = rdma.ports if rdma else ()
    nics = pci.nics if pci else ()
    interfaces = _elastic_interfaces(pci)
    elsewhere = {port.bdf for port in ports}.union(nic.address for nic in nics if _offers_rdma(nic))
    if interfaces and not elsewhere.difference(one.address for one in interfaces):
        return _elastic(interfaces, pci)
    controllers = [nic for nic in nics if nic.pci_class.startswith(INFINIBAND_CLASS)]
    silent = [nic for nic in controllers if not nic.rdma and nic.driver not in HANDING_ON]
    odd = _odd_places(ports, silent)
    layers = Counter(
        _layer(port) for port in ports if _layer(port) != link_layers.INFINIBAND or _place(port) not in odd
    )
    if layers[link_layers.INFINIBAND]:
        return _with_infiniband(_number(layers[link_layers.INFINIBAND], "InfiniBand port"), layers, pci, rdma, links)
    if any(_first_place(nic) not in odd for nic in silent):
        return _with_infiniband(_number(len(controllers), "InfiniBand controller"), layers, pci, rdma, links)
    if layers[link_layers.ETHERNET]:
        return SuitedProfile(ROCE, _number(layers[link_layers.ETHERNET], "Ethernet RDMA port"))
    if layers["Unknown"]:  # EFA and others that are neither
        return SuitedProfile(None, f"{_number(layers['Unknown'], 'RDMA port')} of neither InfiniBand nor Ethernet")
    if controllers:
        return SuitedProfile(INFINIBAND, _number(len(controllers), "InfiniBand controller"))
    able = [nic for nic in nics if _offers_rdma(nic) or (nic.driver is None and kinds.carries_rdma(nic))]
    if able:
        return SuitedProfile(ROCE, _number(len(able), "RDMA-capable NIC"))
    if ports:
        return SuitedProfile(ROCE, f"{_number(len(ports), 'RDMA port')} whose link layer could not be read")
    made = [nic for nic in nics if _lost_rdma(nic)]
    gpus = [one for one in (pci.devices if pci else ()) if _is_gpu(one)]
    if made and gpus:
        what = f"{_number(len(made), 'NIC')} made for RDMA and {_number(len(gpus), 'GPU')}"
        return SuitedProfile(ROCE, f"{what}: without RDMA devices")
    nic = "no NIC that offers RDMA" if pci else "no record of PCI devices"
    return SuitedProfile(None, f"no RDMA device in {CLASS}, {nic}", nothing=True)


def suited_to_network(terway: Terway | None, cni: Cni | None) -> SuitedProfile | None:
    """The profile of a node without RDMA, by how its pods come to the network; None where it shows no pods' network."""
    if terway is not None and raw(terway)["present"] is True:
        if not isinstance(raw(terway)["capabilities"], Unreadable) and terway.is_exclusive:
            return SuitedProfile(EXCLUSIVE_ENI, "no RDMA device, Terway with exclusive ENIs")
        return SuitedProfile(SHARED_ENI, "no RDMA device, Terway")
    files = raw(cni)["files"] if cni is not None else None
    if isinstance(files, tuple) and files:
        return SuitedProfile(BASE, f"no RDMA device, the CNI configuration {files[0].name[:60]}")
    return None


def _with_infiniband(
    told: str, layers: Counter[str | None], pci: Pci | None, rdma: Rdma | None, links: Links | None
) -> SuitedProfile:
    """The network of the fastest ports, dead ones included. A slower InfiniBand port beside them is for storage.

    Where nothing tells how fast one of them is, InfiniBand decides. `told` is how many speak it.
    """
    if not layers[link_layers.ETHERNET] and not _without_rdma(pci):
        return SuitedProfile(INFINIBAND, told)
    bonds = links.bonds_by_place if links is not None else None
    found = kinds.derive(pci, rdma, None, None, wanted=True, bonds=bonds)
    elastic = {one.address for one in _elastic_interfaces(pci)}
    rails = [one for one in found.rails if one.place not in elastic]
    networks = {one.kind.layer for one in rails}
    if link_layers.ETHERNET not in networks or any(found.speeds[one.kind] is None for one in rails):
        return SuitedProfile(INFINIBAND, told)
    ethernet = _number(layers[link_layers.ETHERNET], "Ethernet RDMA port")
    if layers[link_layers.ETHERNET]:
        both = f"{told} and {ethernet}, equally fast"
        return SuitedProfile(RDMA, both) if link_layers.INFINIBAND in networks else SuitedProfile(ROCE, ethernet)
    fabric = [one for one in found.members if one.kind.layer == link_layers.INFINIBAND]
    # Fewer of them may be a front end that is used without RDMA.
    if link_layers.INFINIBAND in networks or len(rails) <= len(fabric):
        return SuitedProfile(INFINIBAND, told)
    return SuitedProfile(ROCE, f"{_number(len(rails), 'faster NIC')} made for RDMA beside {told}, without RDMA devices")


def _without_rdma(pci: Pci | None) -> list[PciDevice]:
    """Ethernet NICs that are made for RDMA and show no RDMA device, beside GPUs."""
    if pci is None or not any(map(_is_gpu, pci.devices)):
        return []
    ethernet = (one for one in pci.nics if not one.pci_class.startswith(INFINIBAND_CLASS) and not one.virtual_function)
    return [one for one in ethernet if not one.rdma and kinds.carries_rdma(one)]


Place = tuple[str, str, int]  # what a card is, the function on it, the port of that


def _odd_places(ports: tuple[Port, ...], silent: list[PciDevice]) -> set[Place]:
    """Places that are dead on InfiniBand on some cards and on Ethernet on their likes.

    In the wrong mode they choose no network. Another place of such a card may well be for the other network.
    """
    ethernet = [port for port in ports if _layer(port) == link_layers.ETHERNET]
    fabric = [port for port in ports if _layer(port) == link_layers.INFINIBAND]
    alive, fine = ({_place(port) for port in found if soundness.is_live(port)} for found in (fabric, ethernet))
    most = Counter(map(_place, ethernet))
    most.subtract([*map(_place, fabric), *map(_first_place, silent)])
    return {place for place in most if place[0] and place not in alive and (place in fine or most[place] > 0)}


def _place(port: Port) -> Place:
    return (port.hardware.partition(" ")[0], port.bdf.rpartition(".")[2], port.number)


def _first_place(nic: PciDevice) -> Place:
    return (str(raw(nic)["id"]), nic.address.rpartition(".")[2], 1)


def _elastic_interfaces(pci: Pci | None) -> list[PciDevice]:
    return [one for one in (pci.devices if pci else ()) if raw(one)["id"] == VENDOR_DEVICE]


def _elastic(interfaces: list[PciDevice], pci: Pci | None) -> SuitedProfile:
    """GPUs speak NCCL, which needs the driver's other mode."""
    gpus = [one for one in (pci.devices if pci else ()) if _is_gpu(one)]
    found = _number(len(interfaces), "Elastic RDMA interface")
    if gpus:
        return SuitedProfile(ERDMA_GPU, f"{found} and {_number(len(gpus), 'GPU')}")
    return SuitedProfile(ERDMA_CPU, found)


def _is_gpu(device: PciDevice) -> bool:
    """By class, and by vendor where that can be read: a display of another vendor belongs to the console."""
    known = raw(device)["id"]
    return device.pci_class.startswith(DISPLAY) and isinstance(known, str) and known.startswith(NVIDIA)


def _offers_rdma(nic: PciDevice) -> bool:
    """Whether it has RDMA devices, or its Ethernet driver offers one on the auxiliary bus."""
    return bool(nic.rdma or nic.auxiliaries)


def _lost_rdma(nic: PciDevice) -> bool:
    """Whether it carries Ethernet, and could carry RDMA. Beside GPUs it is a fault that it does not."""
    bound = nic.driver is not None and nic.driver not in HANDING_ON
    return bound and bool(nic.netdevs) and not nic.virtual_function and kinds.carries_rdma(nic)


def _layer(port: Port) -> str | None:
    try:
        return port.layer
    except CannotLook:
        return None


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
