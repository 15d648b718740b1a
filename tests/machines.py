"""Nodes as values, and what breaks in a machine: for draws of many faults, where a tree would cost too much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nodeprep.facts.machine.pci import Auxiliary, Pci, PciDevice
from nodeprep.facts.machine.system import System
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.look import Look
from tests.values import device, gid, link, links, nic, pci, port, rdma

ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
CX7, CX6, BF3, OTHER = "15b3:1021", "15b3:101d", "15b3:a2dc", "14e4:1750"
LOCAL = gid(index=0, value="fe80:0000:0000:0000:5054:00ff:fe12:3456")


@dataclass(frozen=True)
class Function:
    """One PCI function with one RDMA port; a fault is another value of a field."""

    index: int
    address: str
    chip: str = CX7
    layer: str = ETHERNET
    rate: float = 400.0
    speed: float = 32.0
    width: int = 16
    max_speed: float = 32.0
    live: bool = True
    physical: str = "5: LinkUp"
    state: str = "4: ACTIVE"
    driver: bool = True
    rdma: str = "there"  # or "idle": no RDMA driver took it, or "off": none is offered
    routable: bool = True
    mtu: int = 9000
    netdev_up: bool = True
    guid: bool = True
    subnet_manager: bool = True
    answers: bool = True
    powered: bool = True
    firmware: str = "28.41.1000"
    bond: str | None = None
    on_bus: bool = True
    odd: bool = False  # its port is in the other mode
    front: bool = False

    @property
    def name(self) -> str:
        return f"mlx5_{self.index}"

    @property
    def shows(self) -> str:
        return {ETHERNET: INFINIBAND, INFINIBAND: ETHERNET}[self.layer] if self.odd else self.layer

    def nic(self) -> PciDevice:
        idle = self.driver and self.rdma == "idle"
        return nic(
            address=self.address,
            id=self.chip,
            pci_class="020700" if self.shows == INFINIBAND else "020000",
            driver="mlx5_core" if self.driver else None,
            auxiliaries=(Auxiliary("mlx5_core.rdma.0", None),) if idle else (),
            rdma=(self.name,) if self.carries else (),
            netdevs=(f"eth{self.index}",) if self.driver else (),
            speed=self.speed,
            width=self.width,
            max_speed=self.max_speed,
            answers=self.answers,
            power="D0" if self.powered else "D3cold",
        )

    @property
    def carries(self) -> bool:
        return self.driver and self.rdma == "there"

    def device(self) -> RdmaDevice:
        guid = f"5054:00ff:fe12:{self.index:04x}" if self.guid else "0000:0000:0000:0000"
        return device(
            name=self.name,
            bdf=self.address,
            id=self.chip,
            board=f"B{self.chip}",
            firmware=self.firmware,
            node_guid=guid,
            system_guid=guid,
        )

    def port(self) -> Port:
        down = 10.0
        return port(
            device=self.name,
            bdf=self.address,
            netdev=f"eth{self.index}",
            state=self.state,
            physical=self.physical,
            rate=self.rate if self.live else down,
            layer=self.shows,
            lid=f"{self.index + 1:#x}" if self.shows == INFINIBAND else "0x0",
            sm_lid="0x1" if self.shows == INFINIBAND and self.subnet_manager else "0x0",
            gids=(LOCAL, gid()) if self.routable else (LOCAL,),
            like=f"{self.chip} B{self.chip} {self.shows}",
        )

    def link(self) -> Link:
        up = self.netdev_up and self.live
        return link(
            name=f"eth{self.index}",
            index=self.index + 2,
            bdf=self.address,
            mtu=self.mtu,
            up=self.netdev_up,
            operstate="up" if up else "down",
            carrier=up,
            master=self.bond,
        )


Fault = Callable[[Function], Function]


def down(one: Function) -> Function:
    return replace(one, live=False, state="1: DOWN", physical="2: Polling")


def set_down(one: Function) -> Function:
    return replace(one, live=False, state="1: DOWN", physical="3: Disabled", netdev_up=False)


def unmanaged(one: Function) -> Function:
    """The subnet manager is gone before it set the port up: InfiniBand only."""
    return replace(one, live=False, state="2: INIT", physical="5: LinkUp") if one.shows == INFINIBAND else down(one)


# What breaks in a machine, by family. A second fault on a function adds to the first.
STATES: dict[str, Fault] = {
    "port down": lambda one: down(one) if one.live else one,
    "port set down": lambda one: set_down(one) if one.live else one,
    "ACTIVE without a link": lambda one: replace(down(one), state="4: ACTIVE") if one.live else one,
    "port in INIT": lambda one: unmanaged(one) if one.live else one,
    "driver gone": lambda one: replace(one, driver=False),
    "RDMA driver gone": lambda one: replace(one, rdma="idle"),
    "no routable GID": lambda one: replace(one, routable=False),
    "netdev down": lambda one: replace(one, netdev_up=False),
    "GUID of zeros": lambda one: replace(one, guid=False),
    "no subnet manager": lambda one: replace(one, subnet_manager=False),
    "answers all ones": lambda one: replace(one, answers=False),
    "no power": lambda one: replace(one, powered=False),
    "RDMA switched off": lambda one: replace(one, rdma="off"),
    "dead in the other mode": lambda one: down(replace(one, odd=True)) if one.bond is None else one,
}
# Of these one good port of a kind must be left: with all alike nothing on the node says what they should be.
SPEEDS: dict[str, Fault] = {
    "half rate": lambda one: replace(one, rate=one.rate / 2),
    "small MTU": lambda one: replace(one, mtu=1500),
    "half width": lambda one: replace(one, width=8),
    "half speed": lambda one: replace(one, speed=one.max_speed / 2),
    "other firmware": lambda one: replace(one, firmware="28.36.1010"),
}
# Only a captured profile says that these are faults.
GONE: dict[str, Fault] = {
    "left the bus": lambda one: replace(one, on_bus=False),
}


@dataclass(frozen=True)
class Machine:
    """Functions of a node, healthy at first."""

    functions: tuple[Function, ...] = field(default=())
    gpus: bool = True

    def with_fault(self, fault: Fault, *places: int) -> Machine:
        found = tuple(fault(one) if position in places else one for position, one in enumerate(self.functions))
        return Machine(found, self.gpus)

    def facts(self) -> tuple[Pci, Rdma, Links]:
        here = [one for one in self.functions if one.on_bus]
        shown = [one for one in here if one.carries]
        bonds = [
            link(name=name, bdf="", kind="bond", operstate="up" if up else "down", carrier=up)
            for name in sorted({one.bond for one in here if one.bond})
            for up in [any(one.live and one.driver for one in here if one.bond == name)]
        ]
        gpu = nic(address="0000:01:00.0", id="10de:2330", pci_class="030200", driver="nvidia", rdma=(), netdevs=())
        return (
            pci(*(one.nic() for one in here), *([gpu] if self.gpus else [])),
            rdma(*(one.port() for one in shown), devices=tuple(one.device() for one in shown)),
            links(*(one.link() for one in here if one.driver), *bonds, addresses=None),
        )

    def look(self) -> Look:
        found = self.facts()
        metal = System(0.0, "node", "6.1.0", "", False, "", "", "")
        return Look(0.0, live=False, facts={type(one): one for one in (*found, metal)})


def rails(count: int, layer: str = ETHERNET, **different: object) -> tuple[Function, ...]:
    return tuple(
        replace(Function(index, f"0000:{0x10 + index:02x}:00.0", layer=layer), **different)  # type: ignore[arg-type]
        for index in range(count)
    )


def dual(cards: int, first: int = 0, bus: int = 0x40, **different: object) -> tuple[Function, ...]:
    """Cards with two functions each."""
    return tuple(
        replace(
            Function(first + 2 * card + function, f"0000:{bus + card:02x}:00.{function}"),
            **different,  # type: ignore[arg-type]
        )
        for card in range(cards)
        for function in (0, 1)
    )


def front_end(cards: int, first: int, **different: object) -> tuple[Function, ...]:
    usual = {"chip": CX6, "rate": 100.0, "speed": 16.0, "max_speed": 16.0, "mtu": 1500, "front": True}
    return dual(cards, first, 0x80, **(usual | different))


def never_cabled(functions: tuple[Function, ...], *places: int) -> tuple[Function, ...]:
    return tuple(
        replace(down(one), routable=False) if position in places else one for position, one in enumerate(functions)
    )


def bonded(functions: tuple[Function, ...]) -> tuple[Function, ...]:
    return tuple(replace(one, bond=f"bond{position // 2}") for position, one in enumerate(functions))


def older(functions: tuple[Function, ...]) -> tuple[Function, ...]:
    """The same places with the model before, at half the rate, in slots that carry no more."""
    return tuple(replace(one, chip=CX6, rate=200.0, speed=16.0, max_speed=16.0) for one in functions)


def second_ports(functions: tuple[Function, ...], **different: object) -> tuple[Function, ...]:
    """The same cards, whose second ports differ."""
    return tuple(
        replace(one, **different) if one.address.endswith(".1") else one  # type: ignore[arg-type]
        for one in functions
    )


def others(count: int, first: int, **different: object) -> tuple[Function, ...]:
    """More NICs of the rails' model."""
    return tuple(
        replace(Function(first + one, f"0000:{0x60 + one:02x}:00.0"), **different)  # type: ignore[arg-type]
        for one in range(count)
    )


SLOW_RAILS = older(rails(8))
LEGS = dual(1, 8, 0x90, chip=BF3, rate=100.0, bond="bond0", mtu=1500)
TWO_SPEEDS = second_ports(dual(4), rate=100.0)
VPI = second_ports(dual(4, layer=INFINIBAND), layer=ETHERNET)

SHAPES: dict[str, Machine] = {
    "8 x 400 RoCE": Machine(rails(8)),
    "8 x 400 RoCE, 2 x 2 x 100 front end": Machine((*rails(8), *front_end(2, 8))),
    "8 x 400 RoCE, bonded front end": Machine((*rails(8), *bonded(front_end(2, 8)))),
    "8 x 400 RoCE, front end half cabled": Machine((*rails(8), *never_cabled(front_end(2, 8), 1, 2, 3))),
    "4 dual-port cards": Machine(dual(4, rate=200.0)),
    "4 dual-port cards, second ports never cabled": Machine(never_cabled(dual(4, rate=200.0), 1, 3, 5, 7)),
    "4 dual-port cards, one second port cabled": Machine(never_cabled(dual(4, rate=200.0), 1, 3, 5)),
    "a dual-port InfiniBand card, its second port never cabled": Machine(
        never_cabled(dual(1, layer=INFINIBAND, rate=200.0), 1)
    ),
    "a single NIC": Machine(rails(1)),
    "two NICs": Machine(rails(2)),
    "8 InfiniBand, Ethernet front end": Machine((*rails(8, INFINIBAND), *front_end(2, 8))),
    "8 InfiniBand, front end half cabled": Machine((*rails(8, INFINIBAND), *never_cabled(front_end(2, 8), 1, 2, 3))),
    "4 bonds of two rails": Machine(bonded(dual(4, rate=200.0))),
    "two models of rails": Machine((*rails(4), *(replace(one, chip=BF3) for one in rails(8)[4:]))),
    "fast and slow model": Machine((*rails(4), *dual(2, 4, chip=CX6, rate=200.0, speed=16.0, max_speed=16.0))),
    "6 x 400 and 2 x 200 of one model": Machine((*rails(6), *(replace(one, rate=200.0) for one in rails(8)[6:]))),
    "16 x 200": Machine(rails(16, rate=200.0)),
    "4 cards, ports of 400 and 100": Machine(TWO_SPEEDS),
    "4 cards, ports of 400 and 100, 2 x 200 front end": Machine((*TWO_SPEEDS, *front_end(1, 8, rate=200.0))),
    "4 cards, ports of 400 and 100, only the second cabled": Machine(never_cabled(TWO_SPEEDS, 0, 2, 4, 6)),
    "4 VPI cards of one speed": Machine(VPI),
    "4 VPI cards, Ethernet at 100": Machine(second_ports(VPI, rate=100.0)),
    "4 VPI cards, Ethernet at 100, 2 x 200 front end": Machine(
        (*second_ports(VPI, rate=100.0), *front_end(1, 8, rate=200.0))
    ),
    "8 x 400 RoCE, an InfiniBand port for storage": Machine(
        (*rails(8), replace(Function(8, "0000:90:00.0", chip=CX6), layer=INFINIBAND, rate=200.0, max_speed=16.0))
    ),
    "8 x 200, two cards never cabled in faster slots": Machine(
        (*rails(8, rate=200.0), *never_cabled(dual(2, 8, 0x90, chip=BF3, rate=200.0), 0, 1, 2, 3))
    ),
    "8 x 200, a front end at 100 in faster slots": Machine(
        (*rails(8, rate=200.0), *never_cabled(dual(2, 8, 0x90, chip=BF3, rate=100.0), 1, 3))
    ),
    "8 x 400 RoCE, no GPU": Machine(rails(8), gpus=False),
    "8 InfiniBand, one live in Ethernet mode": Machine(
        tuple(replace(one, odd=one.index == 3) for one in rails(8, INFINIBAND))
    ),
    "two cards never cabled in different modes": Machine(
        tuple(replace(down(one), odd=one.index == 1) for one in rails(2, INFINIBAND))
    ),
    "2 cards of a rail and a leg of the front end's bond": Machine(
        second_ports(dual(2), rate=100.0, bond="bond0", mtu=1500),
    ),
    "2 x 200 InfiniBand, a faster RoCE card of their model": Machine(
        (
            *dual(1),
            *(replace(one, index=one.index + 2) for one in rails(2, INFINIBAND, rate=200.0)),
            *front_end(1, 4),
        )
    ),
    "8 x 200 RoCE, a bonded front end at 100 in a faster slot": Machine((*SLOW_RAILS, *LEGS)),
    "8 x 200 InfiniBand, a bonded front end at 100 in a faster slot": Machine(
        (*(replace(one, layer=INFINIBAND) for one in SLOW_RAILS), *LEGS)
    ),
    "4 bonds of two rails, a bonded front end at 100 in a faster slot": Machine(
        (*bonded(older(dual(4))), *(replace(one, bond="bond9") for one in LEGS))
    ),
    "8 x 200 RoCE, a front end of two models in one bond": Machine(
        (*SLOW_RAILS, LEGS[0], replace(Function(9, "0000:91:00.0", mtu=1500), rate=100.0, bond="bond0"))
    ),
    "8 x 400 RoCE, 4 InfiniBand of their model": Machine((*rails(8), *others(4, 8, layer=INFINIBAND))),
    "3 InfiniBand, 4 RoCE of their model": Machine((*rails(3, INFINIBAND), *others(4, 3))),
    "4 RoCE, 8 InfiniBand of their model": Machine((*rails(4), *others(8, 4, layer=INFINIBAND))),
    "2 bonds of two rails at 200, a single rail at 400": Machine(
        (Function(0, "0000:10:00.0", chip=BF3), *bonded(dual(2, 1, rate=200.0)))
    ),
    "2 rails, a bonded front end at 100": Machine((*rails(2), *bonded(front_end(1, 2)))),
    "2 dual-port cards, first ports bonded, second never cabled": Machine(
        never_cabled(tuple(replace(one, bond=None if one.address[-1] == "1" else "bond0") for one in dual(2)), 1, 3)
    ),
    "4 bonds of two rails on two cards each": Machine(bonded(rails(8))),
    "2 bonds of four rails": Machine(tuple(replace(one, bond=f"bond{one.index // 4}") for one in dual(4, rate=200.0))),
    "4 cards of a rail and a leg without an address, 2 x 200 front end": Machine(
        (*second_ports(dual(4), rate=100.0, bond="bond0", mtu=1500, routable=False), *front_end(1, 8, rate=200.0))
    ),
    "8 InfiniBand, a front end of their model": Machine(
        (*rails(8, INFINIBAND), replace(Function(8, "0000:90:00.0"), rate=100.0, front=True))
    ),
}

# Not drawn at random: of a kind of two speeds the slow ones are warned of, with and without a fault.
TWO_RATES = Machine((*bonded(dual(2, rate=200.0)), Function(4, "0000:90:00.0")))
