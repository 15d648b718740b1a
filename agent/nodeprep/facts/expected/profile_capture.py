"""Writes down what a good node has, as a profile with which similar nodes are compared.

Kept is what makes a node fit for its work: which NICs sit where, what they are, which ports carry traffic and how fast.
Left out is what tells one node from the next: GUIDs, MACs, addresses, counters.
"""

from __future__ import annotations

from typing import Any

from nodeprep import link_layers
from nodeprep.facts.expected import inventory, suited
from nodeprep.facts.expected.kinds import HANDING_ON
from nodeprep.facts.expected.suited import ERDMA_CPU, ERDMA_GPU, INFINIBAND, RDMA, ROCE
from nodeprep.facts.kubernetes import device_books, gpu_operator
from nodeprep.facts.kubernetes.cluster import Cluster, KubeNode
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import UNNAMED, Pci, PciDevice
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma.devnodes import DevNodes
from nodeprep.facts.rdma.gid import ROCE_V2
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.job_profile import BondWant, DeviceWant, Expectation, GpuWant, PortWant, Profile
from nodeprep.model import CannotLook, Shown, Unreadable, raw
from nodeprep.shown import field_of
from nodeprep.values import replace

# What a job needs beside the NIC's own driver, where the captured node had it: verbs, connection managers, MADs.
CORE = ("ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "ib_umad")
# No built-in profile asks for a GPU: where one was captured, its faults close the gate (docs/adr/0037).
FABRIC_MANAGER = "gpu.fabric-manager"
GPU_GATES = ("gpu.expected", "gpu.driver", "gpu.initialised", FABRIC_MANAGER, "klog.xid")
LONGEST, MOST = 200, 1e9  # characters of a name and the size of a number beyond which it is damage
RXE = "rxe"  # the only software device that shows the netdev under it (drivers/infiniband/sw/rxe/rxe_verbs.c)


def capture(
    name: str,
    rdma: Rdma,
    *,
    pci: Pci | None = None,
    links: Links | None = None,
    devnodes: DevNodes | None = None,
    modules: Modules | None = None,
    cluster: Cluster | None = None,
) -> Profile | None:
    """The profile of a node as it is now. None stands for what is not shown.

    The profile is None for a node that has neither an RDMA device of its own nor a GPU.

    A value that could not be read is not expected. A port that is not ACTIVE is not required. Of Kubernetes it keeps
    the names and counts of the extended resources of which every device is healthy.
    """
    own: dict[str, RdmaDevice] = {}
    for device in rdma.devices:
        if not device.virtual_function:
            own.setdefault(device.place, device)  # two software devices may share a place; the profile has one
    gpus = _gpus(pci)
    if not own and not gpus:
        return None
    names = {device.name for device in own.values()}
    spare = inventory.redundant(rdma.ports, links)
    ports = {port.subject.key: _port(port, links, spare) for port in rdma.ports if port.device in names}
    bonds = _bonds(tuple(port for port in rdma.ports if port.device in names), rdma, links)
    nics = {place: pci.at_address(place) if pci else None for place in own}
    layers = {port.layer for port in ports.values() if port.required or port.bonded}
    parent = _parent(layers, suited.suited(pci, rdma, links).profile)
    if parent == INFINIBAND:
        # Its Ethernet ports belong to the front end: training does not use the addresses there.
        ports = {key: replace(port, gid=None) for key, port in ports.items()}
        bonds = {key: replace(bond, gid=None) for key, bond in bonds.items()}
    return Profile(
        name=name,
        extends=parent,
        gates=_gates(cluster) if gpus else (),
        expect=Expectation(
            devices={place: _device(device, nics[place]) for place, device in sorted(own.items())},
            ports=dict(sorted(ports.items())),
            modules=_modules(modules),
            verbs=True if _seen(devnodes, "verbs") else None,  # an empty class may be a copy that lost its links
            bonds=bonds,
            any_slot=True,
            resources=_resources(cluster),
            gpus=gpus,
        ),
    )


def _gpus(pci: Pci | None) -> dict[str, GpuWant]:
    """The GPUs, without those whose vendor cannot be read and those that are handed on to virtual machines."""
    try:
        found = pci.gpus if pci else ()
    except CannotLook:
        return {}
    return {gpu.address: GpuWant(id=_seen(gpu, "id")) for gpu in found if gpu.driver not in HANDING_ON}


def _bonds(ports: tuple[Port, ...], rdma: Rdma, links: Links | None) -> dict[str, BondWant]:
    """The bonds that carry the traffic of these ports, by name. A bond without a carrier need not have one."""
    if links is None:
        return {}
    found: dict[str, tuple[Link, list[Port]]] = {}
    for port in ports:
        bond = links.bond_of(port.netdev, port.bdf)
        if bond is not None and _is_sayable(bond.name):
            found.setdefault(bond.name, (bond, []))[1].append(port)
    return {name: _bond(bond, on, rdma, links) for name, (bond, on) in sorted(found.items())}


def _bond(bond: Link, ports: list[Port], rdma: Rdma, links: Links) -> BondWant:
    legs = sorted(leg.subject.place for leg in links.legs(bond.name))
    carriers = {device.name for device in rdma.devices if not device.virtual_function and device.bdf in legs}
    return BondWant(
        legs=tuple(leg for leg in legs if _is_sayable(leg)),
        carrier=bond.connected if not isinstance(raw(bond)["operstate"], Unreadable) else None,
        mtu=_seen(bond, "mtu"),
        gid=_has_gid([port for port in ports if inventory.is_active(port)]),
        lag=True if len(legs) > 1 and len(carriers) == 1 else None,
    )


def _parent(layers: set[str | None], suits: str | None) -> str:
    """The built-in profile of the network that the required ports are on; of two networks, the faster one's."""
    if suits in (ERDMA_CPU, ERDMA_GPU, ROCE) and link_layers.ETHERNET in layers:
        return suits
    if suits == RDMA and {link_layers.ETHERNET, link_layers.INFINIBAND} <= layers:
        return suits
    if link_layers.INFINIBAND in layers:
        return INFINIBAND
    return ROCE if link_layers.ETHERNET in layers else RDMA if layers else "base"


def _device(device: RdmaDevice, nic: PciDevice | None) -> DeviceWant:
    return DeviceWant(
        # A copy without PCI ids still names the chip, which is enough to find the device again.
        id=_seen(nic, "id") or _seen(device, "id") or _seen(device, "hca_type"),
        rdma=device.name,
        software=RXE if _seen(device, "parent") else None,
        driver=_driver(nic),
        firmware=_seen(device, "firmware"),
        board=_seen(device, "board"),
        width=_seen(nic, "width"),
        speed=_seen(nic, "speed"),
    )


def _driver(nic: PciDevice | None) -> str | None:
    driver: str | None = _seen(nic, "driver")
    return None if driver == UNNAMED else driver


def _port(port: Port, links: Links | None, spare: frozenset[str]) -> PortWant:
    layer = _seen(port, "layer")
    link = links.under(port.netdev, port.bdf) if links else None
    if port.subject.key in spare:
        if not inventory.is_active(port):
            return PortWant(layer=layer, required=False)
        # The bond lives on its other leg, and port.bond watches both.
        rate, mtu = _seen(port, "rate"), _seen(link, "mtu")
        return PortWant(rate=rate, layer=layer, mtu=mtu, required=False, bonded=True)
    down = _seen(link, "up") is False
    # InfiniBand carries verbs whether its IPoIB interface is up or not.
    if not inventory.is_active(port) or (down and layer != link_layers.INFINIBAND):
        return PortWant(layer=layer, required=False)
    bonded = links is not None and links.bond_of(port.netdev, port.bdf) is not None
    return PortWant(
        rate=_seen(port, "rate"),
        layer=layer,
        # A bond's own netdev and GIDs show up on one of its legs, and after a fail-over on another.
        netdev=None if down or bonded else _name(port, link),
        mtu=None if down else _seen(link, "mtu"),
        gid=None if bonded or layer != link_layers.ETHERNET else _has_gid([port]),
    )


def _name(port: Port, link: Link | None) -> str | None:
    name: str | None = _seen(link or port, "name" if link else "netdev")
    return name


def _has_gid(ports: list[Port]) -> bool | None:
    """Whether one of them has a routable GID of RoCE v2; None without a port, or where a table is not shown in full."""
    tables = [field_of(port, "gids") for port in ports]
    shown = [one for one in tables if isinstance(one, tuple) and all(gid.readable and gid.kind for gid in one)]
    if not tables or len(shown) < len(tables):
        return None
    return any(gid.routable and gid.kind == ROCE_V2 for table in shown for gid in table)


def _modules(modules: Modules | None) -> tuple[str, ...]:
    """The modules of the RDMA core that were at work. Those that drive a NIC are missed on the NIC itself."""
    loaded = _seen(modules, "loaded") or ()
    return tuple(name for name in CORE if name in loaded)


def _gates(cluster: Cluster | None) -> tuple[str, ...]:
    """Without the check that is UNKNOWN for ever, and would keep the gate closed, where a pod runs Fabric Manager."""
    hidden = {FABRIC_MANAGER} if gpu_operator.driver_pod(cluster) is not None else set()
    return tuple(gate for gate in GPU_GATES if gate not in hidden)


def _resources(cluster: Cluster | None) -> dict[str, int]:
    """What device plugins advertise here. A count below the capacity is left out: some device of it is sick."""
    node = None if cluster is None else raw(cluster)["node"]
    if not isinstance(node, KubeNode):
        return {}
    found = device_books.extended(node.capacity), device_books.extended(node.allocatable)
    return {name: count for name, count in sorted(found[0].items()) if 0 < count == found[1].get(name)}


def _seen(thing: Shown | None, name: str) -> Any:
    """A field's value. None where it does not exist, could not be read, or cannot stand in a profile."""
    value = None if thing is None else raw(thing)[name]
    if isinstance(value, str):
        return value if _is_sayable(value) else None
    if isinstance(value, int | float):
        return value if 0 <= value < MOST else None
    return None if isinstance(value, Unreadable) else value


def _is_sayable(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= LONGEST
